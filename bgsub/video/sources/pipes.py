"""Videos from standard input and named pipes."""

import io
import os
import select
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

from bgsub.errors import CutShortError, SourceError, logger, on_failure
from bgsub.storage.durable_io import AnyPath, os_errors_as
from bgsub.video._pyav import av
from bgsub.video.sources.av_container import Container, DecodedSource, display_size, lacks_bytes
from bgsub.video.sources.base import Frame
from bgsub.video.timecode import Part

STANDARD = "-"

_TICK = 100  # milliseconds between two checks whether a wait was cancelled


def is_pipe(spec: object) -> bool:
    """Return whether a source is standard input or a named pipe."""
    return spec == STANDARD or (isinstance(spec, (str, os.PathLike)) and Path(spec).is_fifo())


class Pipe:
    """The bytes of standard input (``"-"``) or a named pipe, once; only reading waits, and `cancel` ends that."""

    def __init__(self, spec: AnyPath) -> None:
        self.cancelled = False
        self.head, self.size, self.ended = b"", 0, False  # the first bytes, how many came, and whether all was read
        standard = spec == STANDARD
        self.name = "standard input" if standard else f"pipe '{os.fspath(spec)}'"
        with os_errors_as(SourceError, f"{self.name} cannot be read"):
            # Opening a named pipe in blocking mode waits for its writer, and only a signal ends that.
            descriptor = os.dup(0) if standard else os.open(spec, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            with on_failure(lambda: os.close(descriptor)):
                self._file = open(descriptor, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
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
        while not self.cancelled and self._poll is not None and not self._poll.poll(_TICK):
            pass  # no data yet
        data = b"" if self.cancelled else self._file.read(size) or b""
        self.head, self.size, self.ended = self.head or data, self.size + len(data), not data
        return data

    def cancel(self) -> None:
        """End every wait, and all reading."""
        self.cancelled = True

    def close(self) -> None:
        self._file.close()


class PipeSource(DecodedSource):
    """The frames of a video from a pipe, once, in any container that can be read from front to back."""

    def __init__(self, pipe: Pipe, *, on_error: str = "stop", fps: float | Fraction | None = None) -> None:
        super().__init__(pipe.name, on_error, fps)
        self._pipe, self._begun = pipe, False
        # With threads the place of damage is not known, and a pipe cannot be read again.
        try:
            self._container = Container(pipe, threads=False)
        except (av.error.FFmpegError, OSError, SourceError):
            raise SourceError(self._no_video() if pipe.head else f"{self.name} is empty") from None
        self._own_fps = self._container.fps
        self._decoded = self._good_frames()
        try:
            first = next(self._decoded, None)
        except CutShortError:  # such as an index after the pictures
            raise SourceError(self._no_video()) from None
        if first is None:
            raise SourceError(f"no frame of {self.name} can be decoded")
        self.size = display_size(first[2])
        self._decoded = chain([first], self._decoded)

    def cancel(self) -> None:
        self._pipe.cancel()

    def close(self) -> None:
        self._pipe.cancel()
        self._container.close()
        super().close()
        self._pipe.close()

    def _no_video(self) -> str:
        return f"{self.name} is not a video that can be read without seeking (an MP4 file needs its index at the front)"

    def _part(self, part: Part) -> Iterator[Frame]:
        if self._begun:
            raise SourceError(f"{self.name} can be read once only")
        self._begun = True
        return self._converted(part.select(self._going_on(self._decoded)))

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
        cut = self._container.broken or (self._pipe.ended and lacks_bytes(io.BytesIO(self._pipe.head), self._pipe.size))
        if (failures or cut) and not self._pipe.cancelled:
            message = f"{self.name} breaks off within frame {index + 1}"
            if self.on_error == "stop":
                raise CutShortError(message)
            logger.warning("%s", message)
