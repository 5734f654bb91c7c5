"""Files of events and objects: CSV, JSON Lines and COCO."""

from __future__ import annotations

import csv
import io
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.events.event import Event, EventKind, ObjectInFrame
from bgsub.events.feed import Step
from bgsub.storage.durable_io import as_sink_error, partial_name, replacing
from bgsub.storage.growing_file import GrowingFile

COLUMNS = (
    "type", "id", "start_frame", "end_frame", "start_time", "end_time", "frames",
    "peak_area", "peak_frame", "peak_x", "peak_y", "peak_w", "peak_h", "regions",
)  # fmt: skip


def csv_row(values: Iterable[Any]) -> str:
    """Return a CSV line; None is empty, floats have three decimals."""
    text = io.StringIO()
    words = ["" if value is None else f"{value:.3f}" if isinstance(value, float) else value for value in values]
    csv.writer(text, lineterminator="\n").writerow(words)
    return text.getvalue()


class Writer(ABC):
    """Writes a file frame by frame."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = GrowingFile(path)
        self.files: tuple[GrowingFile, ...] = (self._file,)

    @abstractmethod
    def step(self, step: Step) -> None:
        """Write the events of a frame."""

    @abstractmethod
    def finish(self, last: list[Event]) -> None:
        """Write the last events and rename the file to its final name."""

    def checkpoint(self) -> dict[str, Any]:
        """Sync the files; return the state as types that JSON knows."""
        return {"sizes": [file.sync() for file in self.files]}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore what `checkpoint` returned."""
        for file, size in zip(self.files, state["sizes"], strict=True):
            file.cut(size)

    def abort(self) -> None:
        """Close the files under their partial names."""
        for file in self.files:
            file.close()


class LinesWriter(Writer):
    """Writes one line per event, in the order of the ends."""

    def __init__(self, path: Path, line: Callable[[Event], str], header: str = "") -> None:
        super().__init__(path)
        self._line, self._header = line, header

    def step(self, step: Step) -> None:
        if step.finished:
            self._write(step.finished)

    def finish(self, last: list[Event]) -> None:
        self._write(last)
        self._file.finish()

    def _write(self, events: list[Event]) -> None:
        header = "" if self._file.size else self._header
        self._file.append(header + "".join(map(self._line, events)))


def csv_line(event: Event) -> str:
    """Return an event as a line with `COLUMNS`: ``type`` is the kind; events of the whole frame have no ID and size."""
    times = [None if time is None else float(time) for time in (event.start_time, event.end_time)]
    values = [event.kind, event.id or None, event.start_frame, event.end_frame, *times, event.frames]
    if event.kind == EventKind.OBJECT:
        return csv_row([*values, event.peak_area, event.peak_frame, *event.peak_box, ";".join(event.regions)])
    return csv_row([*values, *[None] * 7])


def json_line(event: Event) -> str:
    """Return an event as a line of JSON; times in milliseconds, positions to 0.01 pixels."""
    start, end = (None if time is None else round(time, 3) for time in (event.start_time, event.end_time))
    record: dict[str, Any] = {
        "type": event.kind,
        "start_frame": event.start_frame,
        "end_frame": event.end_frame,
        "start_time": start,
        "end_time": end,
        "frames": event.frames,
    }
    if event.kind == EventKind.OBJECT:
        record |= {
            "id": event.id,
            "peak_area": event.peak_area,
            "peak_frame": event.peak_frame,
            "peak_box": event.peak_box,
            "regions": event.regions,
            "track_step": event.step,
            "track": {
                "frame": [box[0] for box in event.boxes],
                "box": [box[1:] for box in event.boxes],
                "centroid": [[round(x, 2), round(y, 2)] for x, y in event.centroids],
                "area": event.areas,
            },
        }
    return _json(record) + "\n"


class CocoWriter(Writer):
    """COCO: one image per frame and one annotation per object in it.

    As in video data sets, the file has one entry in ``videos``, and images have ``video_id`` and ``frame_id``, the
    index of the frame, which is also the ``id``. ``file_name`` is the image file, or ``clip.mp4#123`` for frame 123 of
    a video. Annotations have masks as uncompressed run lengths, and the ID of the object as ``track_id``. Images and
    annotations are written to two temporary files until the end.
    """

    def __init__(self, path: Path, source: str = "video") -> None:
        self.path, self._source = path, source
        self.files = self._images, self._annotations = tuple(
            GrowingFile(path, partial_name(path.with_name(f"{path.name}.{part}"))) for part in ("images", "annotations")
        )
        self._count = 0

    def step(self, step: Step) -> None:
        height, width = step.mask.shape
        name = step.file or f"{self._source}#{step.frame}"
        image = {"id": step.frame, "file_name": name, "width": width, "height": height}
        self._images.append(",\n" + _json({**image, "video_id": 1, "frame_id": step.frame}))
        for one in step.objects:
            self._count += 1
            self._annotations.append(",\n" + _json(_annotation(self._count, one, step.mask.shape)))

    def finish(self, last: list[Event]) -> None:
        with as_sink_error(self.path), replacing(self.path) as partial, partial.open("wb") as out:
            out.write(b'{"info":{"description":"foreground objects found by bgsub"},"licenses":[],\n')
            out.write(b'"categories":[{"id":1,"name":"foreground","supercategory":""}],\n')
            out.write(f'"videos":[{json.dumps({"id": 1, "name": self._source})}],\n'.encode())
            self._append(out, "images", self._images)
            out.write(b",\n")
            self._append(out, "annotations", self._annotations)
            out.write(b"}\n")
        for file in self.files:
            file.remove()

    def checkpoint(self) -> dict[str, Any]:
        return {**super().checkpoint(), "count": self._count}

    def resume(self, state: dict[str, Any]) -> None:
        super().resume(state)
        self._count = state["count"]

    @staticmethod
    def _append(out: Any, name: str, file: GrowingFile) -> None:
        out.write(f'"{name}":['.encode())
        with file.reading() as items:
            items.seek(1)  # the comma before the first one
            shutil.copyfileobj(items, out)
        out.write(b"]")


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _annotation(number: int, one: ObjectInFrame, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return an object in a frame of `shape` as a COCO annotation with ID `number`."""
    return {
        "id": number,
        "image_id": one.frame,
        "category_id": 1,
        "track_id": one.id,
        "bbox": list(one.box),
        "area": one.area,
        "iscrowd": 0,
        "segmentation": {"counts": run_lengths(one, shape), "size": list(shape[:2])},
    }


def run_lengths(one: ObjectInFrame, shape: tuple[int, ...]) -> list[int]:
    """Return the lengths of alternating runs of 0 and 1 down the columns of a frame of `shape`, 0 first."""
    x, y, _, _ = one.box
    columns, rows = np.nonzero(one.mask.T)
    places = (columns + x) * shape[0] + rows + y
    breaks = np.flatnonzero(np.diff(places) != 1)
    starts = places[np.concatenate([[0], breaks + 1])]
    ends = places[np.concatenate([breaks, [places.size - 1]])] + 1
    edges = np.concatenate([[0], np.stack([starts, ends], axis=1).ravel(), [shape[0] * shape[1]]])
    counts = np.diff(edges).tolist()
    return counts if counts[-1] else counts[:-1]
