"""What Dask calls at a worker."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

from distributed import get_worker
from distributed.comm import get_address_host

from bgsub.jobs.batch.task import Outcome, Task, do_task


def run_at_worker(task: Task) -> Outcome:
    """Do a task that Dask hands out, as long as Dask wants it."""
    worker = get_worker()
    key = worker.get_current_task()

    def wanted() -> bool:
        state = worker.state.tasks.get(key)
        return state is not None and state.state not in ("cancelled", "released", "forgotten")

    return do_task(task, wanted, task.hosts.get(get_address_host(worker.address), 1))


def dask_setup(_worker: object) -> None:
    """Leave Ctrl-C, which a terminal sends to all its processes, to the client; Dask calls this at the start."""
    if threading.current_thread() is threading.main_thread():
        with suppress(ValueError):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
