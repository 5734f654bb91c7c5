"""Events as text: files of CSV and JSON, and the motion events of a run as rows, a table and CSV."""

import csv
import io
import json
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from bgsub.errors import ParameterError, printable
from bgsub.events._state import dump, load
from bgsub.events.event import OBJECT, Event
from bgsub.events.feed import REGION_COLUMNS, EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.separation import Separation
from bgsub.storage.durable_io import AnyPath, GrowingFile, write_whole
from bgsub.video.output_names import EVENT_FORMATS
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources.base import FilePart, Frame, part_at
from bgsub.video.timecode import clock_text

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


def csv_line(event: Event) -> str:
    """Return an event as a line with `COLUMNS`: ``type`` is the kind; events of the whole frame have no ID and size."""
    times = [None if time is None else float(time) for time in (event.start_time, event.end_time)]
    values = [event.kind, event.id or None, event.start_frame, event.end_frame, *times, event.frames]
    if event.kind == OBJECT:
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
    if event.kind == OBJECT:
        names = ("id", "peak_area", "peak_frame", "peak_box", "frame_size", "regions")
        record |= {name: getattr(event, name) for name in names}
        if event.picture is not None:
            record["picture"] = Path(os.path.relpath(event.picture, folder)).as_posix()
        record["track_step"] = event.step
        record["track"] = {
            "frame": [box[0] for box in event.boxes],
            "box": [box[1:] for box in event.boxes],
            "centroid": [[round(x, 2), round(y, 2)] for x, y in event.centroids],
            "area": event.areas,
            "time": [None if time is None else round(time, 3) for time in event.times],
        }
    return json.dumps(record, separators=(",", ":")) + "\n"


FORMATS = ("csv", "jsonl")


class EventSink(Sink):
    """Writes files of objects and events of the whole frame.

    ``csv`` writes ``events.csv``, and ``regions.csv`` if there are regions; ``jsonl`` writes ``events.jsonl`` with the
    tracks. The files are called ``NAME.partial`` until the end; `abort` leaves them.

    Parameters
    ----------
    folder : str or path
        Output folder, created if missing.
    formats : sequence of {"csv", "jsonl"}
        At least one.
    fps : float, optional
        Frames per second for frames without time.
    regions : Regions, optional
        Regions in which objects are counted; with a `feed`, those of its linker are used.
    feed : EventFeed, optional
        Shared with other sinks; by default the sink creates one.
    locate : callable, optional
        Returns the path of a file from its name, such as ``events.csv``; by default in `folder`.

    Raises
    ------
    ParameterError
        If a format is unknown or there is none.
    SinkError
        If a file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> import bgsub
    >>> from bgsub.events import EventSink
    >>> summary = bgsub.process_video("video.mp4", EventSink("events"))
    >>> sorted(path.name for path in Path("events").iterdir())
    ['events.csv', 'events.jsonl']
    """

    def __init__(
        self,
        folder: AnyPath,
        formats: Sequence[str] = FORMATS,
        *,
        fps: float | None = None,
        regions: Regions | None = None,
        feed: EventFeed | None = None,
        locate: Callable[[str], Path] | None = None,
    ) -> None:
        wrong = [name for name in formats if name not in FORMATS]
        if wrong or not formats:
            came = repr(wrong[0]) if wrong else "none"
            raise ParameterError(f"formats of events must be of {', '.join(FORMATS)}, got {came}")
        self.folder = Path(folder)
        self._feed = feed or EventFeed(ObjectLinker(fps, regions=regions))
        locate = locate or self.folder.joinpath
        targets = {name: locate(EVENT_FORMATS[name]) for name in dict.fromkeys(formats)}
        if self._feed.regions.names and "csv" in targets:
            targets["regions"] = locate("regions.csv")
        self.paths = list(targets.values())  # the final paths of the files
        self._files = {name: GrowingFile(path) for name, path in targets.items()}
        for place in dict.fromkeys(path.parent for path in self.paths):
            prepare_folder(place)

    def write(self, frame: Frame, separation: Separation) -> None:
        if finished := self._feed.step(frame, separation).finished:
            self._append(finished)

    def close(self) -> None:
        if self._done:
            return
        self._done = True  # after an error, nothing is written twice
        self._append(self._feed.finish())
        if "regions" in self._files:
            self._feed.regions.finish()
            self._files["regions"].append("".join(map(csv_row, [REGION_COLUMNS, *self._feed.regions.rows()])))
        for file in self._files.values():
            file.finish()

    def abort(self) -> None:
        self._done = True
        for file in self._files.values():
            file.close()

    def checkpoint(self) -> dict[str, Any]:
        sizes = {name: file.sync() for name, file in self._files.items()}
        return {"feed": self._feed.checkpoint(self), "files": sizes}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore what `checkpoint` returned; ParameterError for other formats, SinkError without the partial files."""
        if set(state["files"]) != set(self._files):
            raise ParameterError(f"event formats must be {', '.join(state['files'])}, got {', '.join(self._files)}")
        self._feed.resume(state["feed"])
        for name, file in self._files.items():
            file.cut(state["files"][name])

    def _append(self, events: list[Event]) -> None:
        """Write a line for each event, in the order of the ends."""
        if file := self._files.get("csv"):
            file.append(("" if file.size else csv_row(COLUMNS)) + "".join(map(csv_line, events)))
        if file := self._files.get("jsonl"):
            file.append("".join(json_line(event, file.path.parent) for event in events))


Row = dict[str, Any]


class MotionListSink(Sink):
    """Collects the motion events of a run; full with `most` of them. `source` and its `files` are for the rows."""

    def __init__(
        self, feed: EventFeed, source: str = "video", files: Sequence[FilePart] = (), most: int | None = None
    ) -> None:
        self._feed, self._most, self._source, self._files = feed, most, source, files
        self._events: list[Event] = []

    def write(self, frame: Frame, separation: Separation) -> None:
        motion = self._feed.step(frame, separation).motion
        self._events += motion.ended

    def close(self) -> None:
        if not self._done:
            self._done = True
            self._events += self._feed.finish_motion()

    def checkpoint(self) -> dict[str, Any]:
        return {"feed": self._feed.checkpoint(self), "events": dump(self._events)}

    def resume(self, state: dict[str, Any]) -> None:
        self._feed.resume(state["feed"])
        self._events = load(list[Event], state["events"])

    @property
    def is_full(self) -> bool:
        """Whether there are as many events as wanted."""
        return self._most is not None and len(self._events) >= self._most

    def rows(self) -> list[Row]:
        """Return a row for each event in the order of the numbers, see `row_of`."""
        return [row_of(event, self._source, self._files) for event in self._events[: self._most]]


def row_of(event: Event, source: str, files: Sequence[FilePart] = ()) -> Row:
    """Return the row of an event of `source`, or of the one of its `files` in which it starts."""
    start, end = (None if time is None else float(time) for time in (event.start_time, event.end_time))
    source, begin = (source, 0.0) if start is None else part_at(files, start, source)
    return {
        "number": event.id,
        "start": start,
        "end": end,
        "length": None if start is None or end is None else round(end - start, 6),
        "start_frame": event.start_frame,
        "end_frame": event.end_frame,
        "peak_share": round(event.peak_share, 6),
        "peak_frame": event.peak_frame,
        "box": list(event.peak_box),
        "regions": list(event.regions),
        "source": source,
        "source_start": None if start is None else start - begin,
        "began": event.began,
        "clip": event.clip,
        "picture": event.picture,
    }


_MOTION_COLUMNS: dict[str, Callable[[Row], str]] = {
    "#": lambda row: str(row["number"]),
    "date": lambda row: (row["began"] or "")[:19].replace("T", " "),
    "start": lambda row: _place(row["start"], row["start_frame"]),
    "end": lambda row: _place(row["end"], row["end_frame"]),
    "length": lambda row: (
        f"{row['end_frame'] - row['start_frame'] + 1} frames" if row["length"] is None else f"{row['length']:.1f} s"
    ),
    "peak": lambda row: f"{100 * row['peak_share']:{'.0f' if row['peak_share'] >= 0.1 else '.2g'}} %",
    "box": lambda row: "{},{},{},{}".format(*row["box"]),
    "region": lambda row: printable(", ".join(row["regions"])),
    "file": lambda row: (
        printable(row["source"]) + ("" if row["source_start"] is None else f" {clock_text(row['source_start'])}")
    ),
    "clip": lambda row: printable(os.path.basename(row["clip"] or "")),
    "picture": lambda row: printable(os.path.basename(row["picture"] or "")),
}


def motion_table(rows: Sequence[Row]) -> str:
    """Return the rows of `MotionListSink` as lines of text under headings; "" without rows."""
    if not rows:
        return ""
    is_later = (row["source_start"] not in (None, row["start"]) for row in rows)
    several = len({row["source"] for row in rows}) > 1 or any(is_later)
    shown = {name: list(map(text_of, rows)) for name, text_of in _MOTION_COLUMNS.items() if several or name != "file"}
    columns = [[name, *cells] for name, cells in shown.items() if any(cells)]
    return "\n".join(aligned(columns, ("#", "length", "peak")))


def aligned(columns: Iterable[Sequence[str]], right: Collection[str]) -> list[str]:
    """Return columns, each a heading and its cells, as lines of text; those named in `right` are right-aligned."""
    padded = []
    for column in columns:
        width = max(map(len, column))
        padded.append([cell.rjust(width) if column[0] in right else cell.ljust(width) for cell in column])
    return ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]


def write_motion(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows as a CSV file; SinkError if it cannot be written."""
    names = (
        *("number", "start", "end", "length", "start_frame", "end_frame", "peak_share", "peak_frame"),
        *("x", "y", "w", "h", "regions", "source", "source_start", "began", "clip", "picture"),
    )
    lines = [csv_row(names)]
    for row in rows:
        box = dict(zip("xywh", row["box"], strict=True))
        share = f"{row['peak_share']:.6f}"
        flat = {**row, **box, "peak_share": share, "regions": ";".join(row["regions"])}
        lines.append(csv_row(flat[name] for name in names))
    write_whole(path, "".join(lines).encode())


def _place(seconds: float | None, frame: int) -> str:
    return f"frame {frame}" if seconds is None else clock_text(seconds)
