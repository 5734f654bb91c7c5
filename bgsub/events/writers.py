"""Files of events and objects: CSV and JSON Lines."""

from __future__ import annotations

import csv
import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bgsub.events.event import Event, EventKind, Step
from bgsub.events.feed import COLUMNS as REGION_COLUMNS
from bgsub.events.feed import EventFeed
from bgsub.storage.durable_io import GrowingFile

COLUMNS = (
    "type", "id", "start_frame", "end_frame", "start_time", "end_time", "frames",
    "peak_area", "peak_frame", "peak_x", "peak_y", "peak_w", "peak_h", "regions",
)  # fmt: skip


def csv_cell(value: Any) -> Any:
    """Return a value for a CSV file: None is empty, floats have three decimals, and no text is a formula."""
    if isinstance(value, str):  # spreadsheets run a cell that begins with such a sign
        text = value.encode("utf-8", "backslashreplace").decode()
        return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else value


def csv_row(values: Iterable[Any]) -> str:
    """Return a CSV line of some values, see `csv_cell`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(map(csv_cell, values))
    return text.getvalue()


class Writer(ABC):
    """Writes a file frame by frame."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = GrowingFile(path)

    @abstractmethod
    def step(self, step: Step) -> None:
        """Write the events of a frame."""

    @abstractmethod
    def finish(self, last: list[Event]) -> None:
        """Write the last events and rename the file to its final name."""

    def checkpoint(self) -> dict[str, Any]:
        """Sync the file; return the state as types that JSON knows."""
        return {"size": self._file.sync()}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore what `checkpoint` returned."""
        self._file.cut(state["size"])

    def abort(self) -> None:
        """Close the file under its partial name."""
        self._file.close()


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


class RegionWriter(Writer):
    """Writes a CSV file with one line per region at the end."""

    def __init__(self, path: Path, feed: EventFeed) -> None:
        super().__init__(path)
        self._feed = feed

    def step(self, step: Step) -> None:
        pass

    def finish(self, last: list[Event]) -> None:
        self._feed.regions.finish()
        self._file.append("".join(map(csv_row, [REGION_COLUMNS, *self._feed.regions.rows()])))
        self._file.finish()


def csv_line(event: Event, folder: Path) -> str:
    """Return an event as a line with `COLUMNS`: ``type`` is the kind; events of the whole frame have no ID and size."""
    times = [None if time is None else float(time) for time in (event.start_time, event.end_time)]
    values = [event.kind, event.id or None, event.start_frame, event.end_frame, *times, event.frames]
    if event.kind == EventKind.OBJECT:
        return csv_row([*values, event.peak_area, event.peak_frame, *event.peak_box, ";".join(event.regions)])
    return csv_row([*values, *[None] * 7])


def json_line(event: Event, folder: Path) -> str:
    """Return an event as a line of JSON for a file in `folder`; times in milliseconds, positions to 0.01 pixels."""
    start, end = (None if time is None else round(time, 3) for time in (event.start_time, event.end_time))
    record: dict[str, Any] = {
        "type": event.kind,
        "start_frame": event.start_frame,
        "end_frame": event.end_frame,
        "start_time": start,
        "end_time": end,
        "frames": event.frames,
    }
    if event.began is not None:
        record["began"] = event.began
    if event.kind == EventKind.OBJECT:
        record |= {
            name: getattr(event, name)
            for name in ("id", "peak_area", "peak_frame", "peak_box", "frame_size", "regions")
        }
        if event.picture is not None:
            record["picture"] = Path(os.path.relpath(event.picture, folder)).as_posix()
        record["track_step"] = event.step
        record["track"] = {
            "frame": [box[0] for box in event.boxes],
            "box": [box[1:] for box in event.boxes],
            "centroid": [[round(x, 2), round(y, 2)] for x, y in event.centroids],
            "area": event.areas,
        }
    return json.dumps(record, separators=(",", ":")) + "\n"
