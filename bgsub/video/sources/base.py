"""The base class of all sources of frames, and a part of a source."""

import logging
import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from bgsub.errors import ParameterError, SourceError, logger
from bgsub.video.concurrency import after_seconds
from bgsub.video.timecode import ALL, CLOSE, Part, Selection, Timecode

# Relative tolerance for frame rates n and n * 1000 / 1001, which are 1e-3 apart: containers round 15 to 14.999925.
_RATE_TOLERANCE = 2e-4

_LOGGED = 10  # unreadable frames of a file that are logged one by one; after that when their number has doubled


@dataclass(frozen=True, eq=False)
class Frame:
    """One frame of a source.

    Attributes
    ----------
    index : int
        Position in the source, from 0; frames that could not be read leave a gap.
    name : str
        Stem of the image file (``"in000123"``), or the index with six digits (``"000000"``).
    time : float or None
        Seconds since the start; None without a frame rate.
    image : ndarray, (h, w) or (h, w, 3), uint8, uint16 or floating
        The pixels, blue first.
    received : float or None
        Arrival time of a camera's frame, in seconds on the clock `time.monotonic`.
    """

    index: int
    name: str
    time: float | None
    image: np.ndarray
    received: float | None = None

    @property
    def arrived(self) -> datetime | None:
        """Date and time at which a camera's frame arrived, in the time zone of this computer."""
        if self.received is None:
            return None
        return datetime.now().astimezone() - timedelta(seconds=time.monotonic() - self.received)


class FilePart(NamedTuple):
    """A file of a source."""

    path: Path
    begin: float  # the time of its first frame in the source, in seconds
    stamp: Fraction  # the same on the clock of the file, in seconds


def part_at(files: Sequence[FilePart], seconds: float, name: str) -> tuple[str, float]:
    """Return name and begin of the file in which a time of a source lies; `name` and 0 if there are no files."""
    begin = 0.0
    for part in files:
        if part.begin <= seconds + CLOSE:
            name, begin = part.path.name, float(part.begin)
    return name, begin


def number_name(index: int) -> str:
    """Return the name of a frame without a file: its index with six digits."""
    return f"{index:06d}"


def rate_as_fraction(value: float) -> Fraction | None:
    """Return the exact frame rate for a rounded one (29.97 is 30000/1001); None if it is not positive and finite."""
    if not math.isfinite(value) or value <= 0:
        return None
    for numerator, denominator in ((round(value), 1), (round(value * 1.001) * 1000, 1001)):
        if abs(value - numerator / denominator) <= _RATE_TOLERANCE * value:
            return Fraction(numerator, denominator)
    return Fraction(value).limit_denominator(1000) if value > 1 else 1 / Fraction(1 / value).limit_denominator(1000)


def _described(image: np.ndarray) -> str:
    return f"{image.shape[1]}x{image.shape[0]} {'grey' if image.ndim == 2 else 'colour'} {image.dtype}"


def without_alpha(image: np.ndarray) -> np.ndarray:
    """Drop the alpha channel of a (h, w, 2) or (h, w, 4) image; ``(h, w, 1)`` becomes ``(h, w)``."""
    channels = image.shape[2] if image.ndim == 3 else 1
    if channels in (1, 2):
        return image.reshape(image.shape[0], image.shape[1], -1)[:, :, 0]
    return np.ascontiguousarray(image[:, :, :3]) if channels == 4 else image


class FrameSource:
    """Frames in order, from a file, a folder, a camera or an array.

    Each iteration yields all frames from the start, unless the source is live. A source is a context manager.

    Parameters
    ----------
    name : str
        Name of the source in messages.
    on_error : {"stop", "skip"}
        At a frame that cannot be read, raise `SourceError`, or log and count it in `skipped`.
    fps : float or Fraction, optional
        Frames per second, if the source does not know it or is wrong.

    Attributes
    ----------
    size : (int, int)
        Width and height of the frames in pixels.
    length : int or None
        Number of frames, for videos an estimate from the header; None if unknown.
    live : bool
        Whether frames arrive in real time, such as from a camera.
    restartable : bool
        Whether each iteration reads the same frames from the start, as from a file.
    numbered : bool
        Whether the frames are image files, whose numbers the outputs keep.
    has_audio : bool
        Whether the source has sound.
    is_retimed : bool
        Whether the given frame rate changes the times in the file, which its sound follows.
    path : Path or None
        The input file or folder, if there is one.
    files : sequence of FilePart
        The input video files in order; with several files, the list grows while they are read.
    skipped : int
        Number of frames that could not be read in the last iteration.

    Raises
    ------
    ParameterError
        If `on_error` or `fps` is not allowed.

    Notes
    -----
    A subclass sets `size` and `length`, and defines ``_frames``, which yields the frames from the start; ``_time``
    returns the time of a frame at the frame rate.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub.video import Frame, FrameSource
    >>> class Ramp(FrameSource):
    ...     size, length = (64, 48), 10
    ...     def _frames(self):
    ...         for index in range(self.length):
    ...             yield Frame(index, str(index), self._time(index), np.full((48, 64), index, np.uint8))
    >>> [frame.time for frame in Ramp("a ramp", fps=10)][:3]
    [0.0, 0.1, 0.2]
    """

    size: tuple[int, int] = (0, 0)
    length: int | None = None
    live: bool = False
    restartable: bool = False
    numbered: bool = False
    has_audio: bool = False
    is_retimed: bool = False
    path: Path | None = None
    files: Sequence[FilePart] = ()
    _own_fps: Fraction | None = None  # frames per second of the input itself

    def __init__(self, name: str, on_error: str = "stop", fps: float | Fraction | None = None) -> None:
        if on_error not in ("stop", "skip"):
            raise ParameterError(f"on_error must be 'stop' or 'skip', got {on_error!r}")
        if fps is not None and not (isinstance(fps, (int, float, Fraction)) and 0 < fps < math.inf):
            raise ParameterError(f"fps must be a positive number of frames per second, got {fps!r}")
        self.name = name
        self.on_error = on_error
        self.skipped = 0
        self._given_fps = rate_as_fraction(float(fps)) if fps is not None else None
        self._closed = False

    @property
    def fps(self) -> Fraction | None:
        """Frames per second: the given ones, or those of the input; None if unknown."""
        return self._given_fps or self._own_fps

    @property
    def dropped(self) -> int:
        """Number of frames of a live source that newer ones replaced before they were read."""
        return 0

    @property
    def paths(self) -> Sequence[Path]:
        """The input files or folder."""
        return () if self.path is None else (self.path,)

    @property
    def is_copyable(self) -> bool:
        """Whether the packets of `files` can be copied, one file after the other, into one file."""
        return False

    def _frames(self) -> Iterator[Frame]:
        """Yield the frames from the start, for `_part`."""
        raise NotImplementedError

    def _part(self, part: Part) -> Iterator[Frame]:
        """Yield the frames of `part`; override it if the other frames can be skipped faster."""
        for _index, _time, frame in part.select((frame.index, frame.time, frame) for frame in self._frames()):
            yield frame

    def __iter__(self) -> Iterator[Frame]:
        return self.take(Part())

    def take(self, part: Part) -> Iterator[Frame]:
        """Iterate over the frames of `part`, without decoding the others where possible."""
        if self._closed:
            raise SourceError(f"{self.name} is closed")
        self.skipped = 0
        return self._part(part)

    def alike(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Yield the frames with the size, channels and type of the first one; others count as unreadable.

        With ``on_error="skip"``, frames with NaN or infinity count as unreadable, too.
        """
        first: np.ndarray | None = None
        for frame in frames:
            if self.on_error == "skip" and frame.image.dtype.kind == "f" and not np.isfinite(frame.image).all():
                self._unreadable(f"frame {frame.name} of {self.name} has NaN or infinity")
                continue
            first = frame.image if first is None else first
            if (frame.image.shape, frame.image.dtype) == (first.shape, first.dtype):
                yield frame
            else:
                these, those = _described(frame.image), _described(first)
                self._unreadable(f"frame {frame.name} of {self.name} is {these}, those before are {those}")

    def ahead(self) -> Iterator[Frame]:
        """Yield the frames as `alike`, before they are read again: warnings of this thread are not logged meanwhile."""
        frames, thread = self.alike(self), threading.get_ident()

        def is_of_others(record: logging.LogRecord) -> bool:
            return record.thread != thread

        while True:
            logger.addFilter(is_of_others)
            try:
                frame = next(frames, None)
            finally:
                logger.removeFilter(is_of_others)
            if frame is None:
                return
            yield frame

    def cancel(self) -> None:
        """End a wait for the next frame, from any thread; a live source yields no frame after that."""

    def close(self) -> None:
        """Release the source; may be called more than once."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _unreadable(self, message: str, count: int = 1) -> None:
        """Raise or log, depending on `on_error`, that `count` frames could not be read."""
        if self.on_error == "stop":
            raise SourceError(message)
        logged = self.skipped.bit_length()
        self.skipped += count
        # Many unreadable frames must not fill the log.
        is_one_of_many = self.skipped.bit_length() == logged and (self.live or self.skipped > _LOGGED)
        level = logging.DEBUG if is_one_of_many else logging.WARNING
        logger.log(level, "%s; skipped", message)

    def _time(self, index: int) -> float | None:
        """Return the time of frame `index` in seconds at the frame rate."""
        return None if self.fps is None else float(index / self.fps)

    def _number_at(self, place: Timecode) -> int | None:
        """Return the number of the first frame at or after a place, an estimate like `length`; None if unknown."""
        return place.in_frames(self.fps)


def _of_source(name: str, doc: str | None = None) -> Any:
    doc = doc or getattr(FrameSource, name).__doc__
    return property(
        lambda self: getattr(self._source, name), lambda self, value: setattr(self._source, name, value), doc=doc
    )


class SelectedSource(FrameSource):
    """A part of the frames of a source, with their indices, names and times there; it closes the source."""

    def __init__(self, source: FrameSource, selection: Selection = ALL) -> None:
        self._source, self._selection = source, selection
        super().__init__(source.name, source.on_error)
        self.live, self.numbered, self.restartable = source.live, source.numbered, source.restartable
        self.path, self.files = source.path, source.files
        self.has_audio, self.is_retimed = source.has_audio, source.is_retimed
        self.length = selection.count(source._number_at, source.length)

    size = _of_source("size")
    paths = _of_source("paths")
    is_copyable = _of_source("is_copyable")
    dropped = _of_source("dropped")
    skipped = _of_source("skipped", "Number of frames that could not be read in the last iteration.")

    @property
    def fps(self) -> Fraction | None:
        """Frames per second of the part; None if unknown."""
        fps = self._source.fps
        return None if fps is None else fps / self._selection.every

    def cancel(self) -> None:
        self._source.cancel()

    def close(self) -> None:
        super().close()
        self._source.close()

    def _frames(self) -> Iterator[Frame]:
        part = Part(self._selection, self.name)
        with ExitStack() as stack:
            for number, frame in enumerate(self._source.take(part)):
                if number == 0 and self.live and (left := part.left(frame.time)) is not None:
                    # A lost camera sends no frame that could end the part.
                    stack.enter_context(after_seconds(left, self.cancel))
                yield frame
        part.check()
