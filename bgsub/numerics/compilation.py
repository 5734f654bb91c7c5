"""Kernels that are being compiled, once per installation: how many there are, and how long threads have waited.

Whoever tells of it, a bar, the log or the picture of a live run, asks here. Numba is not imported for that.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bgsub.numerics.compilation_progress import CompilationLog, Progress

__all__ = ["Progress", "follow_numba", "listening", "planned", "progress", "waited", "waiting", "working_time"]

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


@contextmanager
def planned(count: int) -> Iterator[Callable[[], None]]:
    """Announce that `count` kernels are compiled inside the block; yields what is to be called after each of them."""
    _compilations.plan(count)
    try:
        yield _compilations.advance
    finally:
        _compilations.finish()


@contextmanager
def waiting() -> Iterator[None]:
    """Count the time inside the block as one in which a thread stands still for kernels."""
    _compilations.wait(1)
    try:
        yield
    finally:
        _compilations.wait(-1)


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
        """Return the seconds for which compilations were waited for."""
        with self._lock:
            self._turn()
            return self._waited

    def wait(self, step: int) -> None:
        """Count a thread that begins (1) or ends (-1) to need the compiler, which serves one at a time."""
        if threading.current_thread().name != "kernel-loader" and self._deeper("waiting", step):
            with self._lock:
                self._turn(waiting=step)

    def plan(self, count: int) -> None:
        """Count kernels that are to be compiled; to be ended by `finish`."""
        with self._lock:
            self._turn(compiling=1)
            before = Progress(0, 0) if self.progress.is_complete else self.progress
            self.progress = Progress(before.done, before.total + count)
        self._tell()

    def advance(self) -> None:
        """Count a kernel that is compiled."""
        with self._lock:
            self.progress = Progress(self.progress.done + 1, max(self.progress.total, self.progress.done + 1))
        self._tell()

    def finish(self) -> None:
        """Count the end of what was planned."""
        with self._lock:
            self._turn(compiling=-1)
        self._settle()

    def compile(self, step: int, event: Any) -> None:
        """Count a kernel whose compilation begins (1) or ends (-1); one that is compiled for another is part of it."""
        if not event.data["dispatcher"].py_func.__module__.startswith("bgsub."):
            return
        if not self._deeper("compiling", step):
            return
        with self._lock:
            self._turn(compiling=step)
            before, done = self.progress, self.progress.done + (step < 0)
            self.progress = Progress(done, max(before.total, done + 1))
            if self._settling is not None:
                self._settling.cancel()
            if not self._compiling:
                self._settling = threading.Timer(_SETTLED, self._settle)
                self._settling.name, self._settling.daemon = "kernel-settling", True
                self._settling.start()
        if self.progress != before:
            self._tell()

    def _turn(self, waiting: int = 0, compiling: int = 0) -> None:
        """Take the time since the last turn into account."""
        now = time.perf_counter()
        if self._waiting and self._compiling:
            self._waited += now - self._since
        self._since = now
        self._waiting += waiting
        self._compiling += compiling

    def _deeper(self, name: str, step: int) -> bool:
        """Count how deep this thread is in something; return whether it has come from outside, or gone there."""
        before = getattr(self._depth, name, 0)
        setattr(self._depth, name, before + step)
        return 0 in (before, before + step)

    def _settle(self) -> None:
        with self._lock:
            if self._compiling:
                return
            self.progress = Progress(self.progress.done, self.progress.done)
        self._tell()

    def _tell(self) -> None:
        for listener in tuple(self.listeners):
            listener(self.progress)


_compilations = _Compilations()


def _after_fork() -> None:
    global _compilations  # noqa: PLW0603 - one per process
    _compilations = _Compilations()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def follow_numba() -> None:
    """Begin to count; for the file that brings Numba in."""
    from numba.core import event  # noqa: PLC0415 - with it comes all of Numba

    class Compiling(event.Listener):
        def on_start(self, event: Any) -> None:
            _compilations.compile(1, event)

        def on_end(self, event: Any) -> None:
            _compilations.compile(-1, event)

    class Waiting(event.Listener):
        def on_start(self, event: Any) -> None:
            _compilations.wait(1)

        def on_end(self, event: Any) -> None:
            _compilations.wait(-1)

    event.register("numba:compile", Compiling())
    event.register("numba:compiler_lock", Waiting())
