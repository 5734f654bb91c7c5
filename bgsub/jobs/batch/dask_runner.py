"""Dask does the tasks: with processes on this machine, or at the workers of a cluster."""

from __future__ import annotations

import logging
import multiprocessing
import pkgutil
import queue
import signal
import tempfile
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import dask
from distributed import Client, KilledWorker, LocalCluster
from distributed.comm import get_address_host, parse_address, parse_host_port

from bgsub._version import __version__
from bgsub.errors import DependencyError, ParameterError
from bgsub.jobs.batch.dask_worker import run_at_worker
from bgsub.jobs.batch.dispatch import RunnerLost
from bgsub.jobs.batch.task import Outcome, Task
from bgsub.jobs.interrupts import afterwards

logger = logging.getLogger("bgsub")
T = TypeVar("T")

_CONNECT_SECONDS = 10.0
_GATHER_SECONDS = 10.0
_FILES, _FILES_OF_A_WORKER = 40, 16  # open at a time; measured, with some more than that
_NO_MAIN = "a script calls run_batch below 'if __name__ == \"__main__\":', as the processes of the batch import it"


class DaskRunner:
    """Runs tasks with Dask; a context manager.

    Parameters
    ----------
    workers : int
        Processes on this machine, when there is no `scheduler`.
    scheduler : str, optional
        Address of a running scheduler such as ``"tcp://127.0.0.1:8786"``, whose workers do the tasks.
    retries : int
        How often a task is moved when its worker dies; of a running scheduler, its ``allowed-failures`` hold.

    Raises
    ------
    DependencyError
        Where workers have another version of bgsub.
    ParameterError
        If no scheduler answers at the address, or it has no workers; if too few files may be open at a time.
    """

    def __init__(self, workers: int, scheduler: str | None = None, retries: int = 2) -> None:
        self._ended: queue.SimpleQueue[tuple[Hashable, Any]] = queue.SimpleQueue()
        self._futures: dict[Hashable, Any] = {}
        self._warned = False
        _make_room(0 if scheduler is not None else workers)
        with ExitStack() as stack:
            # Dask cannot be stopped while it starts processes: it would leave them, and say so at length.
            with afterwards() if scheduler is None else nullcontext():
                if scheduler is None:
                    scratch = stack.enter_context(
                        tempfile.TemporaryDirectory(prefix="bgsub-batch-", ignore_cleanup_errors=True)
                    )
                    start = partial(_local_cluster, workers, retries, scratch)
                    scheduler = stack.enter_context(_without_ctrl_c(start)).scheduler_address
                self._client = stack.enter_context(_connected(scheduler))
            self._address = scheduler
            self._check_workers()
            self._stack = stack.pop_all()

    def _check_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except TimeoutError:
            raise ParameterError(f"the scheduler at '{self._address}' has no workers") from None
        # By name, as a function of bgsub would not even arrive where bgsub is missing.
        answers = self._client.run(pkgutil.resolve_name, "bgsub:__version__", on_error="return")
        for worker, answer in answers.items():
            if isinstance(answer, ImportError):
                raise DependencyError(f"worker {worker} has no bgsub: pip install 'bgsub[batch]' there")
            if answer != __version__:
                raise DependencyError(
                    f"worker {worker} has bgsub {answer}, this is {__version__}; both must be the same"
                )

    def _threads(self) -> dict[str, int]:
        """Return the number of threads of each worker by its address."""
        try:
            if self._client.status == "running":
                return self._client.nthreads()
        except (Exception, CancelledError):  # how Dask tells it depends on when it notices
            logger.debug("the scheduler does not answer", exc_info=True)
        raise RunnerLost(f"the scheduler at '{self._address}' went away")

    def slots(self) -> int:
        """Return the number of threads of all workers; nothing waits at a worker while another is free."""
        return sum(self._threads().values())

    def submit(self, key: Hashable, task: Task) -> None:
        """Have a task done by any worker."""
        hosts: Counter[str] = Counter()
        for address, threads in self._threads().items():
            hosts[get_address_host(address)] += threads
        future = self._client.submit(run_at_worker, replace(task, hosts=dict(hosts)), pure=False)
        self._futures[key] = future
        self._watch(key, future)

    def _watch(self, key: Hashable, future: Any) -> None:
        future.add_done_callback(lambda ended: self._ended.put((key, ended)))

    def wait(self, seconds: float) -> list[tuple[Hashable, Outcome]]:
        """Return outcomes as they come, after at most `seconds`; RunnerLost when the scheduler went away."""
        outcomes = []
        with suppress(queue.Empty):
            key, future = self._ended.get(timeout=seconds)
            while True:
                if self._futures.get(key) is future:
                    outcomes += self._outcome(key, future)
                key, future = self._ended.get_nowait()
        if self._futures and not self._threads() and not self._warned:
            self._warned = True
            logger.warning("the scheduler at '%s' has no workers left; waiting for new ones", self._address)
        return outcomes

    def _outcome(self, key: Hashable, future: Any) -> list[tuple[Hashable, Outcome]]:
        try:
            outcome = future.result(timeout=_GATHER_SECONDS)
        except TimeoutError:  # done, and lost with its worker before it came here: Dask does it again
            self._watch(key, future)
            return []
        except KilledWorker as error:
            outcome = Outcome(error=f"its worker died each of {error.allowed_failures + 1} times")
        except (Exception, CancelledError) as error:
            if future.cancelled():
                raise RunnerLost(f"the scheduler at '{self._address}' went away") from None
            outcome = Outcome(error=" ".join(f"{type(error).__name__}: {error}".split()))
        del self._futures[key]
        return [(key, outcome)]

    def cancel(self) -> None:
        """Stop everything; processes on this machine end at once, others at their next frame."""
        with suppress(Exception):
            self._client.cancel(list(self._futures.values()), force=True)
        self.close()

    def close(self) -> None:
        """Let go of the scheduler; end the processes on this machine."""
        self._stack.close()

    def __enter__(self) -> DaskRunner:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def require_main() -> None:
    """ParameterError in a process that a script has started while it was itself imported by that process."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # how the standard library tells it
        raise ParameterError(_NO_MAIN)


def _make_room(workers: int) -> None:
    """Have as many files open at a time as Dask needs; ParameterError where that is not allowed, as Dask would hang."""
    try:
        import resource  # noqa: PLC0415 - Windows has no such limit
    except ImportError:
        return
    needed = _FILES + workers * _FILES_OF_A_WORKER
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        what = f"a batch with {workers} workers" if workers else "a batch"
        raise ParameterError(f"{what} needs {needed} open files at a time, {hard} are allowed (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _without_ctrl_c(start: Callable[[], T]) -> T:
    """Return what `start` does in a thread whose processes a Ctrl-C of the terminal does not reach; here it does."""

    def blocked() -> T:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        return start()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(blocked).result()


def _local_cluster(workers: int, retries: int, scratch: str) -> Any:
    with dask.config.set({"distributed.scheduler.allowed-failures": retries, "temporary-directory": scratch}):
        try:
            return LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",  # of its server for statistics: two batches at once need two ports
                scheduler_kwargs={"dashboard": False},
                memory_limit=None,  # frames are no data of Dask: it has nothing to spill, and would kill the worker
                silence_logs=logging.CRITICAL,
                preload=["bgsub.jobs.batch.dask_worker"],
                local_directory=scratch,
            )
        except RuntimeError as error:
            raise ParameterError(f"the processes of this machine did not start ({error}); {_NO_MAIN}") from None


def _connected(address: str) -> Any:
    wanted = f"scheduler must be the address of a running one such as tcp://127.0.0.1:8786, got '{address}'"
    try:  # first, as Dask leaves a client behind that never ends
        parse_host_port(parse_address(address)[1])
    except ValueError:
        raise ParameterError(wanted) from None
    try:
        return Client(address, timeout=_CONNECT_SECONDS, set_as_default=False, name="bgsub-batch")
    except (OSError, ValueError) as error:
        raise ParameterError(f"{wanted}: {' '.join(str(error).split())}") from None
