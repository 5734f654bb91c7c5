"""Clips: their rules, names, list, and the frames kept before one begins."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator
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
    """How much around the moments with motion is recorded, and into how many files.

    Attributes
    ----------
    pre_roll, post_roll : float
        Seconds recorded before and after the motion. Moments whose clips would overlap share one.
    max_duration : float, optional
        Seconds after which a clip ends and the next one begins; by default never.
    merge : bool
        Whether all clips are joined into one more file at the end.

    Raises
    ------
    ParameterError
        If one of them is out of range.

    Examples
    --------
    >>> from bgsub.events import ClipRules
    >>> ClipRules(pre_roll=5)
    ClipRules(pre_roll=5, post_roll=3.0, max_duration=None, merge=False)
    """

    pre_roll: float = 2.0
    post_roll: float = 3.0
    max_duration: float | None = None
    merge: bool = False

    def __post_init__(self) -> None:
        for name in ("pre_roll", "post_roll"):
            check_seconds(name, getattr(self, name))
        if self.max_duration is not None and not self.max_duration > 0:
            raise ParameterError(
                f"max_duration must be a positive number of seconds or None, got {self.max_duration!r}"
            )


LIST_NAME = "clips.csv"
_PATIENCE = 30.0  # seconds for another run that adds its clip
_COLUMNS = (
    "file",
    "start",
    "end",
    "start_time",
    "end_time",
    "peak_share",
    "began",
    "source",
    "source_time",
    "thumbnail",
)


@dataclass(frozen=True)
class Clip:
    """One recording."""

    path: Path  # the file
    start: float  # times of its first and last frame in the source, in seconds
    end: float
    peak_share: float  # largest share of the frame in motion, in [0, 1]
    began: datetime | None  # date and time of the first frame, of a camera
    source: str = ""  # what it was taken from; of files in a row, the one in which it begins
    source_start: float = 0.0  # time of its first frame in there
    thumbnail: Path | None = None  # a small picture of its peak
    moments: tuple[int, ...] = ()  # identities of the moments with motion in it


class ClipNames:
    """Gives each clip a file name, with `ending`, that is not taken yet in the folder.

    The template has ``{source}``, ``{date}``, ``{time}``, ``{start}`` (whole seconds) and ``{number}``, which is
    appended where it is missing; ParameterError where it has other fields or leads out of the folder. Without a
    template, date and time are part of the name for cameras.
    """

    def __init__(self, folder: Path, template: str | None, source: str, ending: str) -> None:
        self._folder, self._template, self._ending = folder, template, ending
        self._source = safe_name(source)
        self._number = 0
        if template is not None:
            self._fill(template, 0.0, datetime(2000, 1, 1))

    def next(self, start: float, began: datetime | None) -> Path:
        """Return the path of a clip that begins at `start` seconds, and at date and time `began`."""
        template = self._template or ("{source}-{date}-{time}-{number}" if began else "{source}-{number}")
        while True:
            self._number += 1
            path = self._folder / (self._fill(template, start, began) + self._ending)
            if not path.exists():
                return path

    @property
    def claim(self) -> Path:
        """What stands for all of them, as two runs that gave the same names would find the same ones free."""
        return self._folder / safe_name(self._template or self._source)

    def film(self) -> Path:
        """Return the path of the film of all clips."""
        names = (f"{self._source}-all{number}{self._ending}" for number in ("", *(f"-{n}" for n in range(2, 10_000))))
        return next(path for name in names if not (path := self._folder / name).exists())

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
    """Add a clip to the list of the folder, which is made where it is missing and replaced as a whole.

    Other runs may do the same for their clips at the same time. SinkError where it fails.
    """
    path = folder / LIST_NAME
    with hold(folder / f".{LIST_NAME}.lock", lambda: f"'{path}' is held by another program", _PATIENCE):
        _add(path, clip)


def _add(path: Path, clip: Clip | None) -> None:
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


_JPEG_QUALITY = 95
_NOTHING = np.empty((0, 0), np.uint8)


@dataclass(frozen=True)
class _Kept:
    frame: Frame
    time: float
    data: bytes


class PreRoll:
    """A ring of pictures as JPEG (quality 95), or as PNG where nothing may be lost.

    A second of 1920x1080 at 25 frames per second takes some 15 MB so, instead of 155 MB.

    Parameters
    ----------
    lossless : bool
        Whether nothing may be lost.
    memory : int
        Bytes of pictures from which on the ring is full.
    """

    def __init__(self, lossless: bool, memory: int) -> None:
        self._lossless, self._memory = lossless, memory
        self._kept: deque[_Kept] = deque()
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the oldest picture has to go."""
        return self._bytes > self._memory

    def put(self, frame: Frame, time: float, picture: np.ndarray | None) -> None:
        """Append a frame and its picture, (h, w) or (h, w, 3) uint8, or no picture where none is wanted."""
        data = b"" if picture is None else self._encode(picture)
        self._kept.append(_Kept(replace(frame, image=_NOTHING), time, data))
        self._bytes += len(data)

    def forget_before(self, time: float) -> None:
        """Forget what is older."""
        while self._kept and self._kept[0].time < time:
            self._pop()

    def pop(self) -> tuple[Frame, float, np.ndarray | None]:
        """Return the oldest frame (without its image), its time and its picture, and forget them."""
        kept = self._pop()
        return kept.frame, kept.time, _decode(kept.data) if kept.data else None

    def take(self) -> Iterator[tuple[Frame, float, np.ndarray | None]]:
        """Yield what `pop` returns until nothing is left."""
        while self._kept:
            yield self.pop()

    def _pop(self) -> _Kept:
        kept = self._kept.popleft()
        self._bytes -= len(kept.data)
        return kept

    def _encode(self, picture: np.ndarray) -> bytes:
        if self._lossless:
            return cv2.imencode(".png", picture, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
        return cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])[1].tobytes()


def _decode(data: bytes) -> np.ndarray:
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert picture is not None
    return picture
