"""Hand out the tasks of a batch, repeat failed ones, publish the results and write the manifest."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from bgsub.errors import BgsubError
from bgsub.jobs.batch.folders import publish, remove_leftovers
from bgsub.jobs.batch.manifest import Entry, Manifest
from bgsub.jobs.batch.task import Outcome, Task, as_one_line
from bgsub.jobs.interrupts import afterwards, name_of
from bgsub.jobs.job_state import InputState

logger = logging.getLogger("bgsub")

_WAIT_SECONDS = 0.5

Progress = Callable[[Entry], None]


class Workers(Protocol):
    """Where tasks run; a context manager that ends what still runs."""

    def slots(self) -> int:
        """Return how many tasks can run at a time; WorkersLost if none ever can again."""

    def submit(self, task: Task) -> Future[Outcome]:
        """Start a task; called only while fewer than `slots` run."""


class WorkersLost(Exception):
    """No task can run any more: the scheduler went away."""


@dataclass
class BatchResult:
    """What a batch did.

    Attributes
    ----------
    done, failed : list of Entry
        Of this run, in the order in which they ended.
    skipped : list of Entry
        Done already by an earlier run.
    left : int
        Sources that a stopped run did not do.
    stopped : {"end", "SIGINT", "SIGTERM", "lost"}
        All sources were tried; Ctrl-C or another signal stopped it; the scheduler went away.
    seconds : float
        Duration.
    folder : Path
        Of the batch: ``manifest.jsonl``, ``manifest.csv`` and the folders of the results.
    """

    folder: Path
    done: list[Entry] = field(default_factory=list)
    failed: list[Entry] = field(default_factory=list)
    skipped: list[Entry] = field(default_factory=list)
    left: int = 0
    stopped: str = "end"
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every source has its results."""
        return not self.failed and not self.left

    def as_dict(self) -> dict[str, Any]:
        """Return the result in types that JSON knows."""
        lists = {name: [entry.as_dict() for entry in getattr(self, name)] for name in ("done", "failed", "skipped")}
        numbers = {"left": self.left, "stopped": self.stopped, "seconds": round(self.seconds, 3)}
        return {"folder": str(self.folder), **lists, **numbers}


class Dispatch:
    """The loop over the tasks of a batch; fills in the manifest and the result."""

    def __init__(
        self,
        tasks: Sequence[Task],
        workers: Workers,
        manifest: Manifest,
        result: BatchResult,
        *,
        retries: int,
        progress: Progress,
    ) -> None:
        self._waiting = deque(tasks)
        self._running: dict[Future[Outcome], Task] = {}
        self._attempts: Counter[Path] = Counter()  # by final folder, like the next one
        self._deaths: Counter[Path] = Counter()  # attempts whose process died
        self._workers, self._manifest, self._result = workers, manifest, result
        self._retries, self._progress = retries, progress

    def run(self) -> None:
        """Do all tasks; a signal or a lost scheduler ends it early. OutputError if the manifest cannot be written."""
        begin = time.monotonic()
        try:
            while self._waiting or self._running:
                self._submit()
                if not self._running:
                    time.sleep(_WAIT_SECONDS)
                wait(self._running, _WAIT_SECONDS, FIRST_COMPLETED)
                for future in [future for future in self._running if future.done()]:
                    with afterwards():  # name, line and count of a result belong together
                        self._take(future)
        except KeyboardInterrupt as interrupt:
            self._result.stopped = name_of(interrupt)
        except WorkersLost as error:
            logger.warning("%s", error)
            self._result.stopped = "lost"
        finally:
            self._result.left = len(self._waiting) + len(self._running)
            self._result.seconds += time.monotonic() - begin

    def _submit(self) -> None:
        room = self._workers.slots() - len(self._running)
        for _ in range(min(room, len(self._waiting))):
            with afterwards():
                task = self._waiting[0]
                self._running[self._workers.submit(task)] = task
                self._waiting.popleft()
                self._attempts[task.job.output] += 1

    def _take(self, future: Future[Outcome]) -> None:
        task = self._running[future]
        outcome = self._outcome(future, task)
        for warning in outcome.warnings:
            if warning != outcome.error:
                logger.warning("%s: %s", task.entry.source.path, warning)
        if not outcome.error:
            outcome = _published(task, outcome)
        if outcome.error and outcome.retryable and self._attempts[task.job.output] <= self._retries:
            logger.info("%s: %s; trying again", task.entry.source.path, outcome.error)
            del self._running[future]
            self._waiting.append(task)
            return
        entry = self._entry(task, outcome)
        self._manifest.append(entry)
        del self._running[future]
        (self._result.failed if entry.error else self._result.done).append(entry)
        self._progress(entry)

    def _outcome(self, future: Future[Outcome], task: Task) -> Outcome:
        try:
            return future.result()
        except BrokenExecutor:
            self._deaths[task.job.output] += 1
            return Outcome(error=f"its worker died each of {self._deaths[task.job.output]} times", retryable=True)
        except CancelledError:
            raise WorkersLost("the scheduler went away") from None
        except Exception as error:  # such as KilledWorker of Dask
            return Outcome(error=as_one_line(error))

    def _entry(self, task: Task, outcome: Outcome) -> Entry:
        target = task.job.output
        dead = remove_leftovers([target]) + bool(outcome.result.get("resumed"))  # of Dask, or an earlier batch
        return replace(
            task.entry,
            state="failed" if outcome.error else "done",
            attempts=self._attempts[target] + (0 if self._deaths[target] else dead),
            seconds=outcome.seconds,
            worker=outcome.worker,
            result=outcome.result if not outcome.error else {},
            error=outcome.error,
        )


def _published(task: Task, outcome: Outcome) -> Outcome:
    """Give the results their final name; return the outcome, with an error if that fails."""
    target, source = task.job.output, Path(str(task.job.source))
    attempt = target.with_name(outcome.attempt)
    try:
        if InputState.of(source) != task.entry.source:
            return replace(outcome, error=f"'{source}' changed while it was read")
        if not attempt.is_dir():
            hidden = f"the results of worker {outcome.worker} are not visible here; workers must see the same paths"
            return replace(outcome, error=hidden, retryable=True)
        publish(attempt, target)
    except BgsubError as error:
        return replace(outcome, error=str(error))
    except OSError as error:
        return replace(outcome, error=f"'{target}' cannot be written: {error.strerror or error}", retryable=True)
    return outcome
