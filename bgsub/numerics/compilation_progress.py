"""How far the compilation of kernels is, and the lines of the log about it."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

logger = logging.getLogger("bgsub.kernels")

_INTERVAL = 10.0  # seconds between two lines


@dataclass(frozen=True)
class Progress:
    """Kernels that are there and all that a stream of frames needs."""

    done: int
    total: int

    @property
    def is_complete(self) -> bool:
        """Whether nothing is being compiled."""
        return self.done >= self.total

    def __str__(self) -> str:
        return f"compiling kernels {self.done} of {self.total}"


class CompilationLog:
    """Tells, at INFO, that kernels are being compiled, every ten seconds how far that is, and how long it took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin: tuple[float, int] | None = None
        self._told = 0.0

    def __call__(self, progress: Progress) -> None:
        """Take into account how far it is; for `bgsub.numerics.compilation.listening`."""
        with self._lock:
            now = time.monotonic()
            if progress.is_complete:
                if self._begin is not None:
                    begin, before = self._begin
                    count, self._begin = progress.done - before, None
                    what = (
                        f"{count} kernel{'' if count == 1 else 's'} compiled" if count else "another process was done"
                    )
                    logger.info("%s in %.1f s", what, now - begin)
            elif self._begin is None:
                self._begin, self._told = (now, progress.done), now
                logger.info("%s, once per installation", progress)
            elif now - self._told >= _INTERVAL:
                self._told = now
                logger.info("%s", progress)
