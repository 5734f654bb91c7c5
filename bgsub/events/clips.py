"""Clips of motion events: rules, names, list, and the frames before the event."""

from __future__ import annotations

import csv
import io
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.events.motion import check_seconds
from bgsub.storage.durable_io import write_whole
from bgsub.storage.file_lock import hold
from bgsub.video.output_names import safe_name
from bgsub.video.sources.base import Frame
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

    Raises
    ------
    ParameterError
        If a value is out of range.

    Examples
    --------
    >>> from bgsub.events import ClipRules
    >>> ClipRules(pre_roll=5)
    ClipRules(pre_roll=5, post_roll=3.0, max_duration=None)
    """

    pre_roll: float = 2.0
    post_roll: float = 3.0
    max_duration: float | None = None

    def __post_init__(self) -> None:
        for name in ("pre_roll", "post_roll"):
            check_seconds(name, getattr(self, name))
        if self.max_duration is not None and not self.max_duration > 0:
            raise ParameterError(
                f"max_duration must be a positive number of seconds or None, got {self.max_duration!r}"
            )


LIST_NAME = "clips.csv"
_PATIENCE = 30.0  # seconds to wait for another run that adds a clip
_COLUMNS = (
    "file", "start", "end", "start_time", "end_time", "peak_share", "began", "source", "source_time", "thumbnail",
)  # fmt: skip


@dataclass
class Clip:
    """A recorded clip."""

    path: Path
    start: float  # times of its first and last frame in the source, in seconds
    end: float
    peak_share: float = 0.0  # largest share of the frame in motion, in [0, 1]
    began: datetime | None = None  # date and time of the first frame of a camera
    source: str = ""  # the source, or the file in which the clip begins
    source_start: float = 0.0  # time of the first frame in it
    thumbnail: Path | None = None  # picture of the peak
    events: tuple[int, ...] = ()  # numbers of its motion events


class ClipNames:
    """Generates file names that do not exist in a folder.

    The template has the fields ``{source}``, ``{date}``, ``{time}``, ``{start}`` (whole seconds) and ``{number}``,
    which is appended if it is missing. ParameterError for other fields or a name with a folder. By default the names
    of a camera's clips have date and time.
    """

    def __init__(self, folder: Path, template: str | None, source: str, ending: str) -> None:
        self._folder, self._template, self._ending = folder, template, ending
        self._source = safe_name(source)
        self._number = 0
        if template is not None:
            self._fill(template, 0.0, datetime(2000, 1, 1))

    def next(self, start: float, began: datetime | None) -> Path:
        """Return the path of a clip from its start in seconds and its date and time."""
        template = self._template or ("{source}-{date}-{time}-{number}" if began else "{source}-{number}")
        while True:
            self._number += 1
            path = self._folder / (self._fill(template, start, began) + self._ending)
            if not path.exists():
                return path

    @property
    def claim(self) -> Path:
        """Path to lock, because two runs with the same template would choose the same names."""
        return self._folder / safe_name(self._template or self._source)

    def _fill(self, template: str, start: float, began: datetime | None) -> str:
        if "{number" not in template:
            template += "-{number}"
        fields = {
            "source": self._source,
            "date": f"{began:%Y%m%d}" if began else "",
            "time": f"{began:%H%M%S}" if began else "",
            "start": f"{int(start):06d}",
            "number": f"{self._number:04d}",
        }
        try:
            name = template.format(**fields)
        except (KeyError, IndexError, ValueError, AttributeError):
            name = ""
        if not name or name != Path(name).name:
            allowed = ", ".join(f"{{{field}}}" for field in fields)
            raise ParameterError(f"the name of a clip takes {allowed} and no folder, got '{template}'")
        return name


def add_to_list(folder: Path, clip: Clip | None = None) -> None:
    """Add a clip to the list of the folder, or create the list; safe with several runs. SinkError if it fails."""
    path = folder / LIST_NAME
    with hold(folder / f".{LIST_NAME}.lock", lambda: f"'{path}' is locked by another program", _PATIENCE):
        try:
            rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))) if path.exists() else []
        except (OSError, UnicodeDecodeError) as error:
            raise SinkError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from None
        text = io.StringIO()
        writer = csv.DictWriter(text, _COLUMNS, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows([*rows, *([] if clip is None else [_row(clip)])])
        write_whole(path, text.getvalue().encode())


def _row(clip: Clip) -> dict[str, str]:
    return {
        "file": clip.path.name,
        "start": f"{clip.start:.3f}",
        "end": f"{clip.end:.3f}",
        "start_time": clock_text(clip.start),
        "end_time": clock_text(clip.end),
        "peak_share": f"{clip.peak_share:.6f}",
        "began": clip.began.isoformat(timespec="seconds") if clip.began else "",
        "source": clip.source,
        "source_time": clock_text(clip.source_start),
        "thumbnail": clip.thumbnail.name if clip.thumbnail else "",
    }


_JPEG = [cv2.IMWRITE_JPEG_QUALITY, 95]
_NOTHING = np.empty((0, 0), np.uint8)


class PreRoll:
    """Stores the frames before an event as JPEG (quality 95), or as PNG if `lossless`; `memory` is in bytes.

    A second of 1920x1080 at 25 frames per second takes about 15 MB instead of 155 MB.
    """

    def __init__(self, lossless: bool, memory: int) -> None:
        self._ending, self._options = (".png", [cv2.IMWRITE_PNG_COMPRESSION, 1]) if lossless else (".jpg", _JPEG)
        self._memory = memory
        self._stored: deque[tuple[Frame, float, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def is_full(self) -> bool:
        """Whether the pictures take more than `memory`."""
        return self._bytes > self._memory

    def put(self, frame: Frame, time: float, picture: np.ndarray | None) -> None:
        """Append a frame and its picture, (h, w) or (h, w, 3) uint8, or None if clips are copied."""
        data = b"" if picture is None else cv2.imencode(self._ending, picture, self._options)[1].tobytes()
        self._stored.append((replace(frame, image=_NOTHING), time, data))
        self._bytes += len(data)

    def forget_before(self, time: float) -> None:
        """Remove older frames."""
        while self._stored and self._stored[0][1] < time:
            self._bytes -= len(self._stored.popleft()[2])

    def pop(self) -> tuple[Frame, float, np.ndarray | None]:
        """Remove the oldest frame; return it without its image, its time and its picture."""
        frame, time, data = self._stored.popleft()
        self._bytes -= len(data)
        return frame, time, cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) if data else None
