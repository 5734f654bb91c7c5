"""Standard input and named pipes: bytes that come once, and what all sources of them have in common."""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from bgsub.errors import SourceError
from bgsub.video.sources.base import Frame, FrameSource, number_name

STANDARD = "-"

_TICK = 100  # milliseconds between two looks at whether a wait for more is still wanted


def is_pipe(spec: object) -> bool:
    """Whether what a user names as a source is standard input, unless that is a file, or a named pipe."""
    if spec == STANDARD:
        return standard_input_file() is None
    return isinstance(spec, (str, os.PathLike)) and Path(spec).is_fifo()


def standard_input_file() -> Path | None:
    """Return the file that standard input is, from its beginning; None where it is none, or has no name to find."""
    try:
        state = os.fstat(0)
        path = Path("/proc/self/fd/0").resolve()
        whole = stat.S_ISREG(state.st_mode) and os.lseek(0, 0, os.SEEK_CUR) == 0
        return path if whole and os.path.samestat(path.stat(), state) else None
    except OSError:
        return None


class Pipe:
    """The bytes of standard input (``"-"``), a named pipe or a file, once and in order.

    Opening it does not wait for somebody who writes, reading does; `cancel` ends a wait from any thread.

    Raises
    ------
    SourceError
        If it cannot be read, or standard input is a terminal.
    """

    def __init__(self, spec: str | os.PathLike[str]) -> None:
        self.cancelled = False
        self.began, self.ended = False, False  # whether something came, and whether all of it has been read
        standard = spec == STANDARD
        kind = "pipe" if Path(spec).is_fifo() else "file"
        self.name = "standard input" if standard else f"{kind} '{os.fspath(spec)}'"
        try:
            # A named pipe that is opened as usual waits for its writer, and nothing but a signal ends that.
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
        """Return up to `size` bytes as they come; none at the end, and after `cancel`."""
        data = (self._file.read(size) or b"") if self._wait() else b""
        self.began, self.ended = self.began or bool(data), not data
        return data

    def fill(self, buffer: memoryview) -> int:
        """Read until the buffer is full or nothing more comes; return how many bytes it holds then."""
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
        """Release it; whoever writes into it is told by the system."""
        self._file.close()

    def _wait(self) -> bool:
        """Wait for more, or for the end of it; False once it is cancelled."""
        while not self.cancelled:
            if self._poll is None or self._poll.poll(_TICK):
                return True
        return False

    def __str__(self) -> str:
        return self.name


class PipeSource(FrameSource):
    """Frames from a pipe; they can be iterated over once.

    Nothing is dropped: whoever writes waits for whoever reads. With `live` set, the newest frame comes first, as with
    a camera. Where the stream breaks off within a frame, `CutShortError` follows the frames before it.
    """

    def __init__(self, pipe: Pipe, on_error: str, fps: float | Fraction | None) -> None:
        super().__init__(pipe.name, on_error, fps)
        self._pipe, self._begun = pipe, False

    @property
    def length(self) -> None:
        """None: nobody knows how much will come."""
        return None

    def cancel(self) -> None:
        """End the iteration, from any thread, also while it waits for the writer."""
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
