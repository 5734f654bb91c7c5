"""Clips of motion events: their rules, their file names, and the list of a folder, clips.csv."""

import csv
import io
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path

from bgsub.errors import ParameterError, SinkError, logger
from bgsub.events.motion import check_seconds
from bgsub.events.tables import csv_cell
from bgsub.storage.durable_io import os_errors_as, write_whole
from bgsub.storage.file_lock import hold
from bgsub.video.output_names import safe_name
from bgsub.video.timecode import clock_text


@dataclass(frozen=True)
class ClipRules:
    """Rules of recording: time around motion events, and files.

    Attributes
    ----------
    pre_roll, post_roll : float
        Seconds recorded before and after an event. Events whose clips would overlap share one clip.
    max_duration : float, optional
        Longest clip in seconds, after which the next one begins; by default unlimited.
    keep_days, keep_bytes : float, optional
        When a clip is complete and at the end of a run, remove the clips that are older, and the oldest clips while
        the videos in the folder take more bytes; by default none. Only files that clips.csv lists are removed.
    drawn : bool
        Draw objects, regions, date or time, and events onto the clips; they are encoded, not copied.

    Raises
    ------
    ParameterError
        If a value is out of range.

    Examples
    --------
    >>> from bgsub.events import ClipRules
    >>> ClipRules(pre_roll=5)
    ClipRules(pre_roll=5, post_roll=3.0, max_duration=None, keep_days=None, keep_bytes=None, drawn=False)
    """

    pre_roll: float = 2.0
    post_roll: float = 3.0
    max_duration: float | None = None
    keep_days: float | None = None
    keep_bytes: float | None = None
    drawn: bool = False

    def __post_init__(self) -> None:
        check_seconds(pre_roll=self.pre_roll, post_roll=self.post_roll)
        for name, unit in (("max_duration", " of seconds"), ("keep_days", ""), ("keep_bytes", "")):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ParameterError(f"{name} must be a positive number{unit} or None, got {value!r}")


@dataclass
class Clip:
    """A recorded clip."""

    path: Path
    start: float  # times of its first and last frame in the source, in seconds
    end: float
    peak_share: float = 0.0  # largest share of the frame, or of a region, in motion, in [0, 1]
    began: datetime | None = None  # date and time of the first frame of a camera
    source: str = ""  # the source, or the file in which the clip begins
    source_start: float = 0.0  # time of the first frame in it
    thumbnail: Path | None = None  # picture of the peak
    events: tuple[int, ...] = ()  # numbers of its motion events


LIST_NAME = "clips.csv"
_PATIENCE = 30.0  # seconds to wait for another run that adds a clip
_COLUMNS: dict[str, Callable[[Clip], str]] = {
    "file": lambda clip: clip.path.name,
    "start": lambda clip: f"{clip.start:.3f}",
    "end": lambda clip: f"{clip.end:.3f}",
    "start_time": lambda clip: clock_text(clip.start),
    "end_time": lambda clip: clock_text(clip.end),
    "peak_share": lambda clip: f"{clip.peak_share:.6f}",
    "began": lambda clip: clip.began.isoformat(timespec="seconds") if clip.began else "",
    "source": lambda clip: csv_cell(clip.source),
    "source_time": lambda clip: clock_text(clip.source_start),
    "thumbnail": lambda clip: clip.thumbnail.name if clip.thumbnail else "",
}


class ClipNames:
    """Generates file names that do not exist in a folder; those of a camera's files have date and time."""

    def __init__(self, folder: Path, source: str, ending: str) -> None:
        self._ending, self._number = ending, 0
        #: Path to lock, because two runs with the same source would choose the same names.
        self.claim = folder / safe_name(source)

    def next(self, began: datetime | None) -> Path:
        """Return the path of a file from its date and time."""
        stem = f"{self.claim.name}-{began:%Y%m%d-%H%M%S}" if began else self.claim.name
        while True:
            self._number += 1
            path = self.claim.with_name(f"{stem}-{self._number:04d}{self._ending}")
            if not path.exists():
                return path


def check_list(folder: Path) -> None:
    """Raise SinkError if the list of a folder cannot be read, or is another file than a list of clips."""
    path, header = folder / LIST_NAME, ""
    with (
        os_errors_as(SinkError, f"'{path}' cannot be read"),
        suppress(FileNotFoundError),
        path.open(encoding="utf-8-sig", errors="replace") as file,
    ):
        header = file.readline(1000).strip()
    if header and not {"file", "start", "end"} <= set(header.split(",")):
        raise SinkError(f"'{path}' is not a list of clips and is not replaced: record into another folder")


def add_to_list(folder: Path, clip: Clip | None = None, rules: ClipRules | None = None) -> None:
    """Add a clip to the list of a folder, or create the list; remove old clips by the rules; safe with several runs."""
    path = folder / LIST_NAME
    with hold(folder / f".{LIST_NAME}.lock", f"'{path}' is locked by another program", _PATIENCE):
        text = io.StringIO()
        writer = csv.DictWriter(text, list(_COLUMNS), restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        try:
            known = io.StringIO(path.read_text(encoding="utf-8-sig") if path.exists() else "")
            added = [] if clip is None else [{name: text_of(clip) for name, text_of in _COLUMNS.items()}]
            listed = chain(csv.DictReader(known), added)
            old, rows = _expired(folder, listed, rules or ClipRules())
            writer.writerows(rows)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise SinkError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from None
        write_whole(path, text.getvalue().encode())
        for row in old:
            for name in (row.get("file"), row.get("thumbnail")):
                if name and is_plain(name):
                    (folder / name).unlink(missing_ok=True)
        if old:
            logger.info("removed %d old clips from %s", len(old), folder)


_Rows = list[dict[str, str]]
_Listed = Iterable[dict[str, str]]


def is_plain(name: str) -> bool:
    """Return whether a name of the list is that of a file in its folder, and can be one."""
    return Path(name).name == name != "" and "\0" not in name


def _expired(folder: Path, listed: _Listed, rules: ClipRules) -> tuple[_Rows, _Listed]:
    """Return the clips to remove and those to keep, by the time of their ends; the newest one is kept."""
    if rules.keep_days is None and rules.keep_bytes is None:
        return [], listed  # one row at a time: a list may be long
    rows = list(listed)
    first, last = time.time() - 86400 * (rules.keep_days or math.inf), len(rows) - 1
    newest = {row.get("file"): number for number, row in enumerate(rows)}  # a name may have been used again
    old: _Rows = []
    kept: _Rows = []
    size = 0
    for number, row in reversed(list(enumerate(rows))):
        name = row.get("file") or ""
        if not is_plain(name) or newest[name] != number or not (folder / name).is_file():
            kept.append(row)  # moved by the user
            continue
        status = (folder / name).stat()
        size += status.st_size
        is_old = status.st_mtime < first or size > (rules.keep_bytes or math.inf)
        (old if is_old and number != last else kept).append(row)
    return old, kept[::-1]
