"""Progress of the compilation of kernels, and the time that threads wait for it. Without an import of Numba."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bgsub.errors import counted

logger = logging.getLogger("bgsub.kernels")

_INTERVAL = 10.0  # seconds between two lines of the log
_SETTLED = 1.0  # seconds without a compilation after which all kernels are done


@dataclass(frozen=True)
class Progress:
    """Number of compiled kernels, and of those known to be needed."""

    done: int
    total: int

    @property
    def is_complete(self) -> bool:
        """Whether no kernel is being compiled."""
        return self.done >= self.total

    def __str__(self) -> str:
        return f"compiling kernels {self.done} of {self.total}"


class CompilationLog:
    """Log the compilation at INFO: its start, its progress every ten seconds, and its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin: tuple[float, int] | None = None
        self._logged = 0.0

    def __call__(self, progress: Progress) -> None:
        """Log a change of the progress if it is due."""
        with self._lock:
            now = time.perf_counter()
            if progress.is_complete:
                if self._begin is not None:
                    begin, before = self._begin
                    count, self._begin = progress.done - before, None
                    done = f"{counted(count, 'kernel')} compiled"
                    logger.info("%s in %.1f s", done if count else "another process compiled the kernels", now - begin)
            elif self._begin is None:
                self._begin, self._logged = (now, progress.done), now
                logger.info("%s, once per installation", progress)
            elif now - self._logged >= _INTERVAL:
                self._logged = now
                logger.info("%s", progress)


class _Compilations:
    """The kernels that this process compiles; a kernel compiled inside another one is not counted."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin to count, as in a new process or in the child of a fork."""
        self.progress = Progress(0, 0)
        self.log = CompilationLog()  # gets each change of the progress, from any thread
        self._lock = threading.Lock()
        self._depth = threading.local()
        self._compiling = self._waiting = 0
        self._waited = self._since = 0.0
        self._settling: threading.Timer | None = None

    def waited(self) -> float:
        """Return the seconds for which threads of this process have waited for kernels, with the current wait."""
        with self._lock:
            self._account()
            return self._waited

    def wait(self, step: int) -> None:
        """Count a thread that begins (1) or ends (-1) to wait for the compiler, which serves one at a time."""
        if threading.current_thread().name != "kernel-loader" and self._is_outermost("waiting", step):
            with self._lock:
                self._account(waiting=step)

    @contextmanager
    def planned(self, count: int) -> Iterator[Callable[[], None]]:
        """Announce that the block compiles `count` kernels; yield the function to call after each of them."""
        with self._lock:
            self._account(compiling=1)
            before = Progress(0, 0) if self.progress.is_complete else self.progress
            self.progress = Progress(before.done, before.total + count)
        self.log(self.progress)
        try:
            yield self._advance
        finally:
            with self._lock:
                self._account(compiling=-1)
            self._settle()

    def compile(self, step: int, event: Any) -> None:
        """Count a kernel of this package whose compilation begins (1) or ends (-1)."""
        module = event.data["dispatcher"].py_func.__module__ or ""  # None where `exec` made the function
        if not (module.startswith("bgsub.") and self._is_outermost("compiling", step)):
            return
        with self._lock:
            self._account(compiling=step)
            before, done = self.progress, self.progress.done + (step < 0)
            self.progress = Progress(done, max(before.total, done + 1))
            if self._settling is not None:
                self._settling.cancel()
            if not self._compiling:
                self._settling = threading.Timer(_SETTLED, self._settle)
                self._settling.name, self._settling.daemon = "kernel-settling", True
                self._settling.start()
        if self.progress != before:
            self.log(self.progress)

    def _account(self, waiting: int = 0, compiling: int = 0) -> None:
        """Add the time since the last call to the waiting time if it was one, and change the numbers of threads."""
        now = time.perf_counter()
        if self._waiting and self._compiling:
            self._waited += now - self._since
        self._since = now
        self._waiting += waiting
        self._compiling += compiling

    def _is_outermost(self, name: str, step: int) -> bool:
        """Change this thread's depth of nested events by `step`; return whether it was or is zero."""
        before = getattr(self._depth, name, 0)
        setattr(self._depth, name, before + step)
        return 0 in (before, before + step)

    def _advance(self) -> None:
        with self._lock:
            self.progress = Progress(self.progress.done + 1, max(self.progress.total, self.progress.done + 1))
        self.log(self.progress)

    def _settle(self) -> None:
        with self._lock:
            if self._compiling:
                return
            self.progress = Progress(self.progress.done, self.progress.done)
        self.log(self.progress)


_compilations = _Compilations()
planned, waited = _compilations.planned, _compilations.waited
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_compilations.reset)


def progress() -> Progress:
    """Return the current progress."""
    return _compilations.progress


def working_time() -> float:
    """Return the seconds of a clock that stops while a thread waits for kernels; for frame rates."""
    return time.perf_counter() - waited()


@contextmanager
def waiting() -> Iterator[None]:
    """Count the time inside the block as waiting for kernels."""
    _compilations.wait(1)
    try:
        yield
    finally:
        _compilations.wait(-1)


def follow_numba() -> None:
    """Begin to count; called by the file that imports Numba."""
    from numba.core import compiler_lock, event  # noqa: PLC0415 - it imports all of Numba

    from bgsub.numerics.threads import blas_lock  # noqa: PLC0415 - it imports NumPy

    class Follow(event.Listener):
        def __init__(self, count: Callable[[int, Any], None]) -> None:
            self._count = count

        def on_start(self, event: Any) -> None:
            self._count(1, event)

        def on_end(self, event: Any) -> None:
            self._count(-1, event)

    event.register("numba:compile", Follow(_compilations.compile))
    event.register("numba:compiler_lock", Follow(lambda step, _: _compilations.wait(step)))
    compiler = compiler_lock.global_compiler_lock

    def hold() -> None:
        blas_lock.acquire()  # first, as the thread that holds it may compile
        compiler.acquire()

    def release() -> None:
        compiler.release()
        blas_lock.release()

    def release_in_child() -> None:
        _compilations.wait(1)  # as the parent did when it took the lock
        release()

    if hasattr(os, "register_at_fork"):  # a lock that another thread held during a fork is never released in the child
        os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_in_child)
