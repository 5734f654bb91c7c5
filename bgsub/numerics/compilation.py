"""Kernels that are being compiled, once per installation: how many there are, and how long threads have waited.

Whoever tells of it, a bar, the log or the picture of a live run, asks here. Numba is not imported for that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bgsub.numerics.compilation_progress import CompilationLog, Progress

__all__ = ["Progress", "follow_numba", "listening", "progress", "waited", "working_time"]

_OF_A_STREAM = 62
_SETTLED = 1.0  # seconds without a kernel after which no more are expected


Listener = Callable[[Progress], None]


def progress() -> Progress:
    """Return how many kernels there are; ``done == total`` when nothing is being compiled."""
    return _compilations.progress


def waited() -> float:
    """Return the seconds for which threads of this process have stood still for kernels; it grows while they do.

    Threads that wait at the same time count once; one that loads kernels beside a stream does not wait.
    """
    return _compilations.waited()


def working_time() -> float:
    """Return seconds on a clock that stands still while kernels are waited for: what rates are measured with."""
    return time.perf_counter() - waited()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a listener called inside the block whenever `Progress.done` or its completeness changes, from any thread."""
    _compilations.listeners.append(listener)
    try:
        yield
    finally:
        _compilations.listeners.remove(listener)


class _Compilations:
    """Counts what Numba compiles in this process; a kernel that is compiled for another is not counted apart."""

    def __init__(self) -> None:
        self.progress = Progress(0, 0)
        self.listeners: list[Listener] = [CompilationLog()]
        self._lock = threading.Lock()
        self._depth = threading.local()
        self._compiling = self._waiting = 0
        self._waited = self._since = 0.0
        self._settling: threading.Timer | None = None

    def waited(self) -> float:
        with self._lock:
            return self._waited + (time.perf_counter() - self._since if self._waiting else 0.0)

    def on_start(self, event: Any) -> None:
        if self._enter(event, 1) != 1:
            return
        with self._lock:
            self._compiling += 1
            if not _is_beside():
                self._since = self._since if self._waiting else time.perf_counter()
                self._waiting += 1
            if self._settling is not None:
                self._settling.cancel()
            done = self.progress.done
            self.progress = Progress(done, max(_OF_A_STREAM, done + 1))
        self._tell()

    def on_end(self, event: Any) -> None:
        if self._enter(event, -1) != 0:
            return
        with self._lock:
            self._compiling -= 1
            if not _is_beside():
                self._waiting -= 1
                self._waited += 0.0 if self._waiting else time.perf_counter() - self._since
            done = self.progress.done + 1
            self.progress = Progress(done, max(self.progress.total, done + 1))
            if not self._compiling:
                self._settling = threading.Timer(_SETTLED, self._settle)
                self._settling.name, self._settling.daemon = "kernel-settling", True
                self._settling.start()
        self._tell()

    def _settle(self) -> None:
        with self._lock:
            if self._compiling:
                return
            self.progress = Progress(self.progress.done, self.progress.done)
        self._tell()

    def _enter(self, event: Any, step: int) -> int | None:
        """Return how deep the thread is in kernels for kernels; None for a function that is none of ours."""
        if not event.data["dispatcher"].py_func.__module__.startswith("bgsub."):
            return None
        self._depth.now = getattr(self._depth, "now", 0) + step
        return self._depth.now

    def _tell(self) -> None:
        for listener in tuple(self.listeners):
            listener(self.progress)


def _is_beside() -> bool:
    return threading.current_thread().name == "kernel-loader"


_compilations = _Compilations()


def follow_numba() -> None:
    """Begin to count; for the file that brings Numba in."""
    from numba.core import event  # noqa: PLC0415 - with it comes all of Numba

    class Follower(event.Listener):
        def on_start(self, event: Any) -> None:
            _compilations.on_start(event)

        def on_end(self, event: Any) -> None:
            _compilations.on_end(event)

    event.register("numba:compile", Follower())
