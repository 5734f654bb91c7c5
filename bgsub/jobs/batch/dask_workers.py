"""The workers of a Dask cluster that do the tasks of a batch."""

import pkgutil
from asyncio import CancelledError
from collections import Counter
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, suppress

from distributed import Client, get_worker
from distributed.comm import get_address_host, parse_address, parse_host_port

from bgsub._version import __version__
from bgsub.errors import DependencyError, ParameterError, logger
from bgsub.jobs.batch.task import Outcome, Task, do_task
from bgsub.jobs.batch.workers import WorkersLost, raise_file_limit

_CONNECT_SECONDS = 10.0
_FILES = 40  # open at a time; measured, with some more than that


class DaskWorkers(AbstractContextManager["DaskWorkers"]):
    """The workers of the scheduler at an address; DependencyError or ParameterError if it has no suitable ones."""

    def __init__(self, address: str) -> None:
        raise_file_limit(_FILES, "a batch")
        self._address, self._warned = address, False
        expected = f"scheduler must be the address of a running one such as tcp://127.0.0.1:8786, got '{address}'"
        with ExitStack() as stack:
            try:
                parse_host_port(parse_address(address)[1])  # the client never ends after a malformed address
                options = {"timeout": _CONNECT_SECONDS, "set_as_default": False, "name": "bgsub-batch"}
                self._client = stack.enter_context(Client(address, **options))
            except (OSError, ValueError) as error:
                raise ParameterError(f"{expected}: {' '.join(str(error).split())}") from None
            self._check_workers()
            self._executor = self._client.get_executor(pure=False)
            self._stack = stack.pop_all()

    def _check_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except TimeoutError:
            raise ParameterError(f"the scheduler at '{self._address}' has no workers") from None
        # By name: a function of bgsub cannot be unpickled where bgsub is missing.
        answers = self._client.run(pkgutil.resolve_name, "bgsub:__version__", on_error="return")
        for worker, answer in answers.items():
            if isinstance(answer, ImportError):
                raise DependencyError(f"worker {worker} has no bgsub: pip install 'bgsub[batch]' there")
            if answer != __version__:
                raise DependencyError(
                    f"worker {worker} has bgsub {answer}, this is {__version__}; both must be the same"
                )

    def _threads(self) -> dict[str, int]:
        """Return the number of threads of each worker by its address; WorkersLost without the scheduler."""
        try:
            if self._client.status == "running":
                return self._client.nthreads()
        except (Exception, CancelledError):  # the exception depends on when Dask notices
            logger.debug("the scheduler does not answer", exc_info=True)
        raise WorkersLost(f"the scheduler at '{self._address}' went away")

    def slots(self) -> int:
        """Return the number of threads of all workers; WorkersLost without the scheduler."""
        slots = sum(self._threads().values())
        if not slots and not self._warned:
            self._warned = True
            logger.warning("the scheduler at '%s' has no workers left; waiting for new ones", self._address)
        return slots

    def submit(self, task: Task) -> Future[Outcome]:
        hosts: Counter[str] = Counter()
        for address, threads in self._threads().items():
            hosts[get_address_host(address)] += threads
        return self._executor.submit(_run_at_worker, task, dict(hosts))

    def __exit__(self, *_error: object) -> None:
        with suppress(Exception):
            self._executor.shutdown(wait=False)  # cancels the tasks that are left
        self._stack.close()


def _run_at_worker(task: Task, hosts: dict[str, int]) -> Outcome:
    """Do a task at a worker until Dask cancels it; `hosts` has the number of jobs by machine."""
    worker = get_worker()
    key = worker.get_current_task()

    def is_cancelled() -> bool:
        state = worker.state.tasks.get(key)
        return state is None or state.state in ("cancelled", "released", "forgotten")

    return do_task(task, hosts.get(get_address_host(worker.address), 1), is_cancelled)
