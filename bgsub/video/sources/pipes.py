"""Frames from standard input, named pipes and raw files."""

from __future__ import annotations

import os
import re
import select
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import av
import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import CutShortError, ParameterError, SourceError, did_you_mean
from bgsub.video.sources.av_container import Container, Converter, display_size
from bgsub.video.sources.base import Frame, FrameSource, number_name, rate_as_fraction
from bgsub.video.timecode import Part

PIXELS = {"bgr24": (3, 1), "rgb24": (3, 1), "gray": (1, 1), "gray16le": (1, 2)}
"""Number of channels and bytes per channel, by FFmpeg's name of the pixel format."""

_LARGEST = 1 << 16
_SYNTAX = re.compile(r"(?P<width>[0-9]{1,6})x(?P<height>[0-9]{1,6}):(?P<pixels>\w+)(?:@(?P<rate>[0-9./]+))?")


@dataclass(frozen=True)
class RawFormat:
    """Size, pixel format and, if known, frames per second of raw frames."""

    width: int
    height: int
    pixels: str  # one of `PIXELS`
    fps: Fraction | None = None

    @classmethod
    def parse(cls, text: str) -> RawFormat:
        """Parse a text such as ``640x480:bgr24@25`` or ``1920x1080:gray@30000/1001``.

        Raises
        ------
        ParameterError
            If the text is invalid.
        """
        match = _SYNTAX.fullmatch(text)
        if match is None:
            raise ParameterError(
                f"raw frames are told by size, pixel format and rate as in 640x480:bgr24@25, got '{text}'"
            )
        if match["pixels"] not in PIXELS:
            hint = did_you_mean(match["pixels"], PIXELS)
            raise ParameterError(f"raw frames are of {', '.join(PIXELS)}, got '{match['pixels']}'{hint}")
        width, height = int(match["width"]), int(match["height"])
        if not (0 < width <= _LARGEST and 0 < height <= _LARGEST):
            raise ParameterError(f"raw frames have sides of 1 to {_LARGEST} pixels, got {width}x{height}")
        try:
            fps = None if match["rate"] is None else Fraction(match["rate"])
        except (ValueError, ZeroDivisionError):
            fps = Fraction(0)
        if fps == 0:
            raise ParameterError(f"raw frames have a rate such as 25, 29.97 or 30000/1001, got '{match['rate']}'")
        return cls(width, height, match["pixels"], fps)

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame."""
        channels, depth = PIXELS[self.pixels]
        return self.width * self.height * channels * depth

    def __str__(self) -> str:
        return f"{self.width}x{self.height}:{self.pixels}"


STANDARD = "-"

_TICK = 100  # milliseconds between two checks whether a wait was cancelled


def is_pipe(spec: object) -> bool:
    """Return whether a source is a named pipe, or standard input that is no file."""
    if spec == STANDARD:
        return standard_input_file() is None
    return isinstance(spec, (str, os.PathLike)) and Path(spec).is_fifo()


def standard_input_file() -> Path | None:
    """Return the file that is standard input at its beginning; None otherwise."""
    try:
        state = os.fstat(0)
        path = Path("/proc/self/fd/0").resolve()
        whole = stat.S_ISREG(state.st_mode) and os.lseek(0, 0, os.SEEK_CUR) == 0
        return path if whole and os.path.samestat(path.stat(), state) else None
    except OSError:
        return None


class Pipe:
    """The bytes of standard input (``"-"``), a named pipe or a file, once and in order.

    Only reading waits for the writer, not opening; `cancel` ends a wait from any thread.

    Raises
    ------
    SourceError
        If it cannot be read, or standard input is a terminal.
    """

    def __init__(self, spec: str | os.PathLike[str]) -> None:
        self.cancelled = False
        self.began, self.ended = False, False  # whether data came, and whether all was read
        standard = spec == STANDARD
        kind = "pipe" if Path(spec).is_fifo() else "file"
        self.name = "standard input" if standard else f"{kind} '{os.fspath(spec)}'"
        try:
            # Opening a named pipe in blocking mode waits for its writer, and only a signal ends that.
            descriptor = os.dup(0) if standard else os.open(spec, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            raise SourceError(f"{self.name} cannot be read: {error.strerror or error}") from None
        try:
            self._file = open(descriptor, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
        except OSError as error:
            os.close(descriptor)
            raise SourceError(f"{self.name} cannot be read: {error.strerror or error}") from None
        if not standard and hasattr(os, "set_blocking"):
            os.set_blocking(descriptor, True)
        if self._file.isatty():
            self._file.close()
            raise SourceError(f"{self.name} is a terminal: a video must be piped into it")
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(descriptor, select.POLLIN)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end and after `cancel`."""
        data = (self._file.read(size) or b"") if self._wait() else b""
        self.began, self.ended = self.began or bool(data), not data
        return data

    def fill(self, buffer: memoryview) -> int:
        """Read until the buffer is full or the data ends; return the number of bytes."""
        filled = 0
        while filled < len(buffer) and self._wait():
            count = self._file.readinto(buffer[filled:])
            if not count:
                break
            filled += count
        return filled

    def cancel(self) -> None:
        """End every wait, and all reading."""
        self.cancelled = True

    def close(self) -> None:
        """Close the pipe."""
        self._file.close()

    def _wait(self) -> bool:
        """Wait for data or the end; return False once cancelled."""
        while not self.cancelled:
            if self._poll is None or self._poll.poll(_TICK):
                return True
        return False

    def __str__(self) -> str:
        return self.name


class PipeSource(FrameSource):
    """Frames from a pipe; they can be iterated over once.

    No frame is dropped, because the writer waits, unless `live` is set. If the stream ends within a frame,
    `CutShortError` follows the frames before it.
    """

    def __init__(self, pipe: Pipe, on_error: str, fps: float | Fraction | None) -> None:
        super().__init__(pipe.name, on_error, fps)
        self._pipe, self._begun = pipe, False

    @property
    def length(self) -> None:
        """None: the length of a pipe is unknown."""
        return None

    def cancel(self) -> None:
        """End the iteration, from any thread, also during a wait for the writer."""
        self._pipe.cancel()

    def close(self) -> None:
        super().close()
        self._pipe.cancel()
        self._pipe.close()

    def _begin(self, frames: Callable[[], Iterator[Frame]]) -> Iterator[Frame]:
        begun = super()._begin(frames)
        if self._begun:
            raise SourceError(f"{self.name} can be read once only")
        self._begun = True
        return begun

    def _frame(self, index: int, time_: float | None, image: np.ndarray) -> Frame:
        return Frame(index, number_name(index), time_, image, time.monotonic() if self.live else None)


class RawSource(PipeSource):
    """The frames of a stream without a header: (h, w) or (h, w, 3) uint8, (h, w) uint16 for ``gray16le``.

    Parameters
    ----------
    pipe : Pipe
        Input; closed together with the source.
    format : RawFormat
        Size, pixel format and frame rate.
    fps : float or Fraction, optional
        Frames per second instead of those in the format.

    Raises
    ------
    SourceError
        While iterating, if the pipe is empty.
    CutShortError
        After the last whole frame, if bytes are left.
    """

    def __init__(self, pipe: Pipe, format: RawFormat, *, fps: float | Fraction | None = None) -> None:
        super().__init__(pipe, "stop", fps if fps is not None else format.fps)
        self._format = format

    @property
    def size(self) -> tuple[int, int]:
        return self._format.width, self._format.height

    def _frames(self) -> Iterator[Frame]:
        return self._part(Part())

    def _part(self, part: Part) -> Iterator[Frame]:
        for index, image in enumerate(self._images()):
            time = self._time(index)
            wanted = part.wants(index, time)
            if wanted is None:
                return
            if wanted:
                yield self._frame(index, time, self._in_bgr(image))

    def _images(self) -> Iterator[np.ndarray]:
        channels, depth = PIXELS[self._format.pixels]
        shape = (self._format.height, self._format.width, *([channels] if channels > 1 else []))
        index = 0
        while True:
            image = np.empty(shape, "<u2" if depth == 2 else np.uint8)
            filled = self._pipe.fill(image.data.cast("B"))
            if filled < image.nbytes:
                self._check_end(index, filled)
                return
            yield image
            index += 1

    def _in_bgr(self, image: np.ndarray) -> np.ndarray:
        return cv2.cvtColor(image, cv2.COLOR_RGB2BGR) if self._format.pixels == "rgb24" else image

    def _check_end(self, index: int, rest: int) -> None:
        if self._pipe.cancelled or (index and not rest):
            return
        if not rest:
            raise SourceError(f"{self.name} is empty")
        raise CutShortError(
            f"{self.name} ends within frame {index}, after {rest} of {self._format.frame_bytes} bytes: "
            f"it broke off, or its frames are not {self._format}"
        )


class VideoPipeSource(PipeSource):
    """The frames of a video from a pipe, in any container that can be read from front to back.

    Such are Matroska, MPEG-TS, fragmented MP4, and MP4 and MOV with the index at the front. Pixels and times are those
    of `VideoFileSource`, without sound.

    Parameters
    ----------
    pipe : Pipe
        Input; closed together with the source.
    on_error : {"stop", "skip"}
        Whether to stop at a frame that cannot be decoded or to skip it.
    fps : float or Fraction, optional
        Frames per second, if the stream is wrong about it; times then follow it too.

    Raises
    ------
    SourceError
        If the pipe is empty or holds no video.
    CutShortError
        While iterating, after the last frame of an MP4 or AVI that is cut short; Matroska and MPEG-TS just end.
    """

    def __init__(self, pipe: Pipe, *, on_error: str = "stop", fps: float | Fraction | None = None) -> None:
        super().__init__(pipe, on_error, fps)
        # With threads the place of damage is not known, and a pipe cannot be read again.
        try:
            self._container = Container(pipe, threads=False)
        except (av.error.FFmpegError, OSError, SourceError):
            raise SourceError(self._no_video() if pipe.began else f"{self.name} is empty") from None
        stream = self._container.stream
        self._time_base: Fraction = stream.time_base
        self._stream_fps = rate_as_fraction(float(stream.average_rate or stream.guessed_rate or 0))
        self._decoded = self._good_frames()
        try:
            first = next(self._decoded, None)
        except CutShortError:  # such as an index after the pictures
            raise SourceError(self._no_video()) from None
        if first is None:
            raise SourceError(f"no frame of {self.name} can be decoded")
        _, frame = first
        self._first_stamp = frame.pts
        self._size = display_size(frame)
        self._decoded = chain([first], self._decoded)

    @property
    def size(self) -> tuple[int, int]:
        return self._size

    @property
    def fps(self) -> Fraction | None:
        """Frames per second of the stream; None if unknown."""
        return self._given_fps or self._stream_fps

    def close(self) -> None:
        self._pipe.cancel()
        self._container.close()
        super().close()

    def _no_video(self) -> str:
        return f"{self.name} is not a video that can be read from front to back (of MP4, one whose index is in front)"

    def _frames(self) -> Iterator[Frame]:
        return self._part(Part())

    def _part(self, part: Part) -> Iterator[Frame]:
        convert = Converter()
        for index, frame in self._decoded:
            time = self._seconds_at(index, frame)
            wanted = part.wants(index, time)
            if wanted is None:
                return
            if wanted:
                yield self._frame(index, time, convert(frame))

    def _good_frames(self) -> Iterator[tuple[int, Any]]:
        """Yield index and frame of each that can be decoded."""
        index = failures = 0
        for index, frame in enumerate(self._container.frames()):
            if frame is None:
                failures += 1
                continue
            if failures and not self._pipe.ended:  # otherwise the decoder returns its delayed frames
                self._unreadable(f"frame {index - failures} of {self.name} cannot be decoded", failures)
                failures = 0
            yield index, frame
        if (failures or self._container.broken) and not self._pipe.cancelled:
            raise CutShortError(f"{self.name} breaks off within frame {index + 1}")

    def _seconds_at(self, index: int, frame: Any) -> float | None:
        if self._given_fps is not None or frame.pts is None or self._first_stamp is None:
            return self._time(index)
        return float((frame.pts - self._first_stamp) * self._time_base)
