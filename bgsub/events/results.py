"""Results of runs in folders: where they are, the events in them, and one page of all; ``templates/overview.html``."""

import csv
import heapq
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from bgsub.errors import SourceError, counted
from bgsub.events.clips import LIST_NAME, is_plain
from bgsub.events.event import OBJECT
from bgsub.separation import FrameEvent
from bgsub.storage.durable_io import os_errors_as, write_whole
from bgsub.storage.file_lock import Claims
from bgsub.video.output_names import EVENT_FORMATS
from bgsub.video.timecode import clock_text
from bgsub.video.web_page import link, render

_LONGEST_LINE = 1 << 22  # bytes; tracks have at most 4096 points
_MOST_TEXT = 10_000  # bytes of an event or a clip
_MOST, _MOST_FRAMES = 1e9, 1 << 53  # seconds or pixels; exact in float64
_NO_TRACK: np.ndarray = np.empty(0)


@dataclass(frozen=True)
class Result:
    """The files of events of one run."""

    name: str  # folder below the one that was searched, or its own name
    folder: Path
    events: Path | None = None  # events.jsonl, or by another --name
    clips: tuple[Path, ...] = ()  # clips.csv


def find_results(folder: Path) -> list[Result]:
    """Return the results in a folder and below it, in the order of their names; SourceError if there are none."""
    if not folder.is_dir():
        raise SourceError(f"no such folder: '{folder}'")

    def fail(error: OSError) -> None:
        raise SourceError(f"folder '{error.filename}' cannot be read: {error.strerror}")

    found: dict[Path, tuple[list[Path], list[Path]]] = {}
    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        path = Path(place)
        for file in (path / name for name in names if name.endswith(".jsonl") and is_of(name, "events")):
            if file.is_file():  # several of one folder have their names
                found.setdefault(path if file.name == EVENT_FORMATS["jsonl"] else file, ([], []))[0].append(file)
        if LIST_NAME in names and (path / LIST_NAME).is_file():
            is_part = path not in found and path != folder and path.parent in found
            found.setdefault(path.parent if is_part else path, ([], []))[1].append(path / LIST_NAME)
    if not found:
        raise SourceError(f"no events.jsonl and no clips.csv in folder '{folder}' or below")
    results = []
    for where, (events, clips) in sorted(found.items()):
        name = Path(os.path.abspath(folder)).name if where == folder else where.relative_to(folder).as_posix()
        results.append(Result(name, events[0].parent if events else where, events[0] if events else None, tuple(clips)))
    return results


def is_of(name: str, view: str) -> bool:
    """Return whether a word of the name of a complete file is that of a view, as with ``{source}-{view}``."""
    return view in re.split(r"[\W_]+", name) and ".partial" not in name


def inside(folder: Path, name: str) -> str | None:
    """Return the path of a file that a list in a folder names; None without a name, or if it is not in that folder."""
    if not name or "\0" in name:
        return None
    path = os.path.join(folder, name)  # each Path would leave a trace in the interpreter's table of names
    root = os.path.join(os.path.realpath(folder), "")
    return path if os.path.join(os.path.realpath(path), "").startswith(root) else None


class StoredEvent(NamedTuple):
    """An event of an events.jsonl, checked; events of the whole frame have only the first four values."""

    kind: str  # "object" or a `FrameEvent`
    start_frame: int
    start: float | None  # seconds
    began: str  # date and time, or ""
    id: int = 0
    end_frame: int = 0
    end: float | None = None
    regions: Sequence[str] = ()
    picture: str = ""  # path from the folder of the file, or ""
    frame_size: tuple[int, int] = (0, 0)  # width, height
    frames: np.ndarray = _NO_TRACK  # (n,), int64
    boxes: np.ndarray = _NO_TRACK  # (n, 4), int64
    times: np.ndarray = _NO_TRACK  # (n,), seconds, or frames if unknown

    @classmethod
    def of(cls, record: dict[str, Any]) -> Self:
        """Return the event of a line; ValueError, TypeError, KeyError or OverflowError if it is damaged."""
        if record["type"] != OBJECT:
            frame, time = int(record["start_frame"]), record["start_time"]
            time = None if time is None else float(time)
            if not 0 <= frame < _MOST_FRAMES or not (time is None or abs(time) < _MOST):
                raise ValueError("times must be finite")
            return cls(FrameEvent(record["type"]), frame, time, str(record.get("began", ""))[:_MOST_TEXT])
        start, end = (None if record[key] is None else float(record[key]) for key in ("start_time", "end_time"))
        if not all(value is None or abs(value) < _MOST for value in (start, end)):
            raise ValueError("times must be finite")
        frames = np.array(record["track"]["frame"], np.int64)
        boxes = np.array(record["track"]["box"], np.int64).reshape(-1, 4)
        number, first, last = (int(record[key]) for key in ("id", "start_frame", "end_frame"))
        fits = frames.shape == boxes.shape[:1] and np.all(boxes >= 0) and np.all(boxes < _MOST)
        if not fits or not all(0 <= value < _MOST_FRAMES for value in (number, first, last)):
            raise ValueError("boxes must lie in frames")
        times = frames.astype(float)
        if start is not None and end is not None:
            times = np.array(record["track"]["time"], float)
        if times.shape != frames.shape or not np.all(abs(times) < _MOST_FRAMES):
            raise ValueError("times must be finite, one for each frame")
        regions, texts = list(record["regions"]), [str(record.get(key, "")) for key in ("began", "picture")]
        if len("".join([*regions, *texts]).encode()) > _MOST_TEXT:  # half of a surrogate pair is no text
            raise ValueError("texts are too long")
        width, height = map(int, record["frame_size"])
        if min(width, height) < 1:
            raise ValueError("the size of the frame must be positive")
        of_object = (number, last, end, regions, texts[1], (width, height), frames, boxes, times)
        return cls(OBJECT, first, start, texts[0], *of_object)


def read_events(path: Path) -> Iterator[StoredEvent]:
    """Yield the events of an events.jsonl; SourceError for a line that is not an event."""
    with os_errors_as(SourceError, f"'{path}' cannot be read"), path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
            try:
                yield StoredEvent.of(json.loads(line))
            except (ValueError, TypeError, KeyError, OverflowError, RecursionError, AttributeError):
                raise SourceError(f"'{path}', line {number}: not a valid event") from None


def read_clips(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a clips.csv; SourceError if it cannot be read."""
    try:
        with os_errors_as(SourceError, f"'{path}' cannot be read"), path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(iter(lambda: file.readline(_LONGEST_LINE), "")):
                clip = {key: value or "" for key, value in row.items() if isinstance(key, str)}
                if is_plain(clip.get("file", "")) and sum(map(len, clip.values())) <= _MOST_TEXT:
                    yield clip
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"'{path}' cannot be read: {error}") from None


MOST = 20_000  # most events on a page: the newest ones


def write_overview(folder: Path, path: Path, title: str = "") -> int:
    """Write the page of all results in a folder and below it; return the number of events. SourceError, SinkError."""
    results, number = find_results(folder), 0

    def read() -> Iterator[dict[str, Any]]:
        nonlocal number
        for result in results:
            for event in _events(result, path.parent):
                number += 1
                yield event

    def order(event: dict[str, Any]) -> tuple[Any, ...]:
        return _instant(event["date"]), event["source"], event["second"]

    with Claims() as claims:
        claims.take(path)
        # Not all of them are in memory. Lamps that flicker must not leave out objects.
        shown = heapq.nlargest(MOST, read(), key=lambda event: (event["kind"] in ("clip", OBJECT), *order(event)))
        shown.sort(key=order)
        # A script element ends at </script> even inside of a text.
        data = json.dumps(shown, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        heading = title or Path(os.path.abspath(folder)).name
        numbers: dict[str, Any] = {"number": counted(number, "event"), "left_out": number - len(shown)}
        write_whole(path, render("overview.html", title=heading, data=data, **numbers))
    return len(shown)


def _events(result: Result, base: Path) -> Iterator[dict[str, Any]]:
    """Yield the clips and events of a result as the page takes them."""
    for path in result.clips:
        for row in read_clips(path):
            first, last = _number(row.get("start", "")), _number(row.get("end", ""))
            yield {
                "kind": "clip",
                "source": result.name if result.events is not None else row.get("source") or result.name,
                "date": row.get("began", ""),
                "second": first,
                "time": clock_text(first, whole=True),
                "text": f"{last - first:.1f} s, at most {100 * _number(row.get('peak_share', '')):.2g} % in motion",
                "regions": [],
                "picture": link(base, inside(path.parent, row.get("thumbnail", ""))),
                "clip": link(base, inside(path.parent, row["file"])),
            }
    for one in read_events(result.events) if result.events is not None else ():
        begin, time = one.start, f"frame {one.start_frame}"
        if begin is not None:
            time = clock_text(begin, whole=True)
        event = {"source": result.name, "date": one.began, "second": one.start_frame if begin is None else begin}
        event |= {"time": time, "clip": ""}
        if one.kind != OBJECT:
            yield {**event, "kind": one.kind, "text": one.kind.replace("-", " "), "regions": [], "picture": ""}
        else:
            frames = f"{one.end_frame - one.start_frame + 1} frames"
            text = frames if begin is None or one.end is None else f"{one.end - begin:.1f} s"
            picture = link(base, inside(result.folder, one.picture))
            text = f"object {one.id}, {text}"
            yield {**event, "kind": OBJECT, "text": text, "regions": one.regions, "picture": picture}


def _instant(date: str) -> float:
    """Return a date with time in any time zone as seconds; -inf if there is none."""
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromisoformat(date).timestamp()
    return -math.inf


def _number(text: str) -> float:
    with suppress(ValueError):
        number = float(text)
        return number if abs(number) < 1e9 else 0.0
    return 0.0
