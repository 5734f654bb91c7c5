"""Frames from standard input, named pipes and raw files."""

from __future__ import annotations

import os
import re
import select
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, count
from pathlib import Path
from typing import Any

import av
import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import CutShortError, ParameterError, SourceError, did_you_mean
from bgsub.video.sources.av_container import Container, Converter, display_size
from bgsub.video.sources.base import Frame, FrameSource, number_name
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
        """Parse a text such as ``640x480:bgr24@25`` or ``1920x1080:gray@30000/1001``."""
        match = _SYNTAX.fullmatch(text)
        if match is None:
            raise ParameterError(f"raw frames need size, pixel format and rate as in 640x480:bgr24@25, got '{text}'")
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
            try:
                self._file = open(descriptor, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
            except OSError:
                os.close(descriptor)
                raise
        except OSError as error:
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

    def _begin(self) -> None:
        super()._begin()
        if self._begun:
            raise SourceError(f"{self.name} can be read once only")
        self._begun = True

    def _frames(self) -> Iterator[Frame]:
        return self._part(Part())

    def _frame(self, index: int, at: float | None, image: np.ndarray) -> Frame:
        return Frame(index, number_name(index), at, image, time.monotonic() if self.live else None)


class RawSource(PipeSource):
    """The frames of a stream without a header: (h, w) or (h, w, 3) uint8, (h, w) uint16 for ``gray16le``."""

    def __init__(self, pipe: Pipe, format: RawFormat, *, fps: float | Fraction | None = None) -> None:
        super().__init__(pipe, "stop", fps if fps is not None else format.fps)
        self._format = format

    @property
    def size(self) -> tuple[int, int]:
        return self._format.width, self._format.height

    def _part(self, part: Part) -> Iterator[Frame]:
        for index, at, image in part.select((index, self._time(index), image) for index, image in self._images()):
            bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR) if self._format.pixels == "rgb24" else image
            yield self._frame(index, at, bgr)

    def _images(self) -> Iterator[tuple[int, np.ndarray]]:
        channels, depth = PIXELS[self._format.pixels]
        shape = (self._format.height, self._format.width, *([channels] if channels > 1 else []))
        for index in count():
            image = np.empty(shape, "<u2" if depth == 2 else np.uint8)
            filled = self._pipe.fill(image.data.cast("B"))
            if filled < image.nbytes:
                self._check_end(index, filled)
                return
            yield index, image

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

    Such are Matroska, MPEG-TS, fragmented MP4, and MP4 and MOV with the index at the front. `CutShortError` follows the
    last frame of an MP4 or AVI that is cut short; Matroska and MPEG-TS just end.
    """

    def __init__(self, pipe: Pipe, *, on_error: str = "stop", fps: float | Fraction | None = None) -> None:
        super().__init__(pipe, on_error, fps)
        # With threads the place of damage is not known, and a pipe cannot be read again.
        try:
            self._container = Container(pipe, threads=False)
        except (av.error.FFmpegError, OSError, SourceError):
            raise SourceError(self._no_video() if pipe.began else f"{self.name} is empty") from None
        self._stream_fps = self._container.fps
        self._decoded = self._good_frames()
        try:
            first = next(self._decoded, None)
        except CutShortError:  # such as an index after the pictures
            raise SourceError(self._no_video()) from None
        if first is None:
            raise SourceError(f"no frame of {self.name} can be decoded")
        self._size = display_size(first[2])
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

    def _part(self, part: Part) -> Iterator[Frame]:
        convert = Converter()
        for index, at, frame in part.select(self._decoded):
            yield self._frame(index, at, convert(frame))

    def _good_frames(self) -> Iterator[tuple[int, float | None, Any]]:
        """Yield index, time in seconds and frame of each that can be decoded."""
        index, failures, start, begun = 0, 0, None, False
        time_base = self._container.stream.time_base
        for index, frame in enumerate(self._container.frames()):
            if frame is None:
                failures += 1
                continue
            if failures and not self._pipe.ended:  # otherwise the decoder returns its delayed frames
                self._unreadable(f"frame {index - failures} of {self.name} cannot be decoded", failures)
                failures = 0
            start, begun = start if begun else frame.pts, True
            is_timed = self._given_fps is None and frame.pts is not None and start is not None
            yield index, float((frame.pts - start) * time_base) if is_timed else self._time(index), frame
        if (failures or self._container.broken) and not self._pipe.cancelled:
            raise CutShortError(f"{self.name} breaks off within frame {index + 1}")
