"""Where the tasks of a batch run: processes of this machine."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from multiprocessing import resource_tracker
from typing import Any

from bgsub.errors import ParameterError
from bgsub.jobs.batch.task import Outcome, Task, do_task
from bgsub.jobs.interrupts import NUMBERS, afterwards, stop_in_worker
from bgsub.numerics.memory import available_memory
from bgsub.video.concurrency import SIGNAL_SECONDS

_FILES, _FILES_PER_WORKER = 24, 12  # open at a time; measured, with some more than that
_LAST_SECONDS = 5.0  # in which the running tasks must stop
_NO_GUARD = "a script calls run_batch below 'if __name__ == \"__main__\":', because the worker processes import it"


class WorkersLost(Exception):
    """No task can run any more: the connection to the scheduler is lost."""


class LocalWorkers(AbstractContextManager["LocalWorkers"]):
    """Processes of this machine, each with its own pool: a shared pool fails as a whole when one process dies."""

    def __init__(self, count: int) -> None:
        raise_file_limit(_FILES + count * _FILES_PER_WORKER, f"a batch with {count} workers")
        self._count, self._patience = count, 0.0
        available = available_memory()
        self._do = partial(do_task, memory=None if available is None else available // count)
        self._processes: set[Any] = set()
        self._last: dict[ProcessPoolExecutor, Future[Any]] = {}  # the newest task of each pool
        try:
            for _ in range(count):
                self._start(os.getpid)
            while wait(self._last.values(), SIGNAL_SECONDS).not_done:
                pass
            for future in self._last.values():
                future.result()
        except BaseException as error:
            self.__exit__()
            if isinstance(error, BrokenExecutor):
                raise ParameterError(f"the processes of this machine did not start; {_NO_GUARD}") from None
            raise
        self._patience = _LAST_SECONDS

    def slots(self) -> int:
        """Return the number of tasks that can run at a time."""
        return self._count

    def submit(self, task: Task) -> Future[Outcome]:
        """Start a task in an idle process, of which there must be one; `BrokenExecutor` is the result if it dies."""
        idle = next(pool for pool, future in self._last.items() if future.done())
        try:
            self._last[idle] = future = idle.submit(self._do, task, self._count)
        except BrokenExecutor:
            del self._last[idle]
            future = self._start(self._do, task, self._count)
        return future

    def _start(self, *call: Any) -> Future[Any]:
        with afterwards(), _signals_blocked():  # the process inherits the mask
            before = set(multiprocessing.active_children())
            pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _end_with_parent)
            self._last[pool] = future = pool.submit(*call)
            self._processes |= set(multiprocessing.active_children()) - before
        return future

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            process.terminate()
        wait(self._last.values(), self._patience)  # for the last checkpoints
        for process in self._processes:
            process.kill()
        for pool in self._last:
            pool.shutdown(cancel_futures=True)


def refuse_worker_process() -> None:
    """Raise ParameterError in a worker process that imports a script without the guard."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as the standard library detects it
        raise ParameterError(_NO_GUARD)


def raise_file_limit(needed: int, what: str) -> None:
    """Allow so many open files; ParameterError where the system does not, because workers would hang."""
    try:
        import resource  # noqa: PLC0415 - Windows has no such limit
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ParameterError(f"{what} needs {needed} open files at a time, {hard} are allowed (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _end_with_parent() -> None:
    """Prepare a worker process: SIGTERM stops its task, a kill of its parent, which a pool does not notice, ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop_in_worker)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    parent = multiprocessing.parent_process()
    assert parent is not None  # this is a worker

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="bgsub-parent", daemon=True).start()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block the signals to the process group, which are for the parent; a worker that starts would show a traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    resource_tracker.ensure_running()  # it would be killed by SIGHUP; its start unblocks the other signals
    signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
