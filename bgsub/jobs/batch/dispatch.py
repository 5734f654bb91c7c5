"""Shares sources out, tries again what may pass, gives each finished result its name, and writes it down."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from bgsub.jobs.batch.attempts import remove_leftovers
from bgsub.jobs.batch.folders import publish
from bgsub.jobs.batch.manifest import Entry, Manifest
from bgsub.jobs.batch.task import Outcome, Task
from bgsub.jobs.interrupts import afterwards, name_of

logger = logging.getLogger("bgsub")

_WAIT_SECONDS = 0.5


class Runner(Protocol):
    """Does tasks somewhere; what `Dispatch` needs of Dask."""

    def slots(self) -> int:
        """Return how many tasks can run at a time just now."""

    def submit(self, key: Hashable, task: Task) -> None:
        """Have a task done; `key` comes back with its outcome."""

    def wait(self, seconds: float) -> list[tuple[Hashable, Outcome]]:
        """Return what has come to an end, after at most `seconds`."""

    def cancel(self) -> None:
        """Stop everything that runs."""


class RunnerLost(Exception):
    """Nothing can be run any more, as when the scheduler went away."""


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
        Sources that a stopped run did not come to.
    stopped : {"end", "SIGINT", "SIGTERM", "lost"}
        All came to an end; Ctrl-C or another signal stopped it; the scheduler went away.
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
        return {
            "folder": str(self.folder),
            **lists,
            "left": self.left,
            "stopped": self.stopped,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class Planned:
    """A task with the entry that it is to become."""

    task: Task
    entry: Entry

    @property
    def target(self) -> Path:
        """Final folder."""
        return self.task.job.output


Progress = Callable[[Entry], None]


class Dispatch:
    """The work of a batch: what waits, what runs, how often it was tried.

    Parameters
    ----------
    plans : sequence of Planned
        One for each source.
    runner : Runner
        Does them; it may answer twice or never for the same one.
    manifest : Manifest
        Gets an entry for each source that came to an end.
    result : BatchResult
        Added to as it goes on.
    retries : int
        Further attempts after a failure that may pass.
    progress : callable
        Called with each entry.
    """

    def __init__(
        self,
        plans: Sequence[Planned],
        runner: Runner,
        manifest: Manifest,
        result: BatchResult,
        *,
        retries: int,
        progress: Progress,
    ) -> None:
        self._open: dict[Hashable, Planned] = dict(enumerate(plans))
        self._waiting = deque(self._open)
        self._attempts: dict[Hashable, int] = dict.fromkeys(self._open, 0)
        self._running: set[Hashable] = set()
        self._runner, self._manifest, self._result = runner, manifest, result
        self._retries, self._progress = retries, progress

    def run(self) -> None:
        """Do everything; Ctrl-C and a lost scheduler end it early.

        Raises
        ------
        OutputError
            If the manifest cannot be written.
        """
        begin, targets = time.monotonic(), [plan.target for plan in self._open.values()]
        try:
            while self._open:
                self._advance()
        except KeyboardInterrupt as interrupt:
            self._result.stopped = name_of(interrupt)
        except RunnerLost as error:
            logger.warning("%s", error)
            self._result.stopped = "lost"
        finally:
            self._result.left = len(self._open)
            self._result.seconds += time.monotonic() - begin
            if self._open:
                self._runner.cancel()
            remove_leftovers(targets, keep=True)

    def _advance(self) -> None:
        """Hand out what there is room for, and take what has ended."""
        room = self._runner.slots() - len(self._running)
        for _ in range(min(room, len(self._waiting))):
            key = self._waiting.popleft()
            self._attempts[key] += 1
            self._running.add(key)
            self._runner.submit(key, self._open[key].task)
        for key, outcome in self._runner.wait(_WAIT_SECONDS):
            with afterwards():  # name, line and count of a result stay together
                self._take(key, outcome)

    def _take(self, key: Hashable, outcome: Outcome) -> None:
        plan = self._open.get(key)
        if plan is None or key not in self._running:  # told twice; its folder goes with the leftovers
            return
        self._running.discard(key)
        for warning in outcome.warnings:
            if warning != outcome.error:
                logger.warning("%s: %s", plan.entry.source.path, warning)
        if not outcome.error:
            failure, passing = publish(plan.target, outcome, Path(str(plan.task.job.source)), plan.entry.source)
            outcome = replace(outcome, error=failure, passing=passing)
        if outcome.error and outcome.passing and self._attempts[key] <= self._retries:
            logger.info("%s: %s; trying again", plan.entry.source.path, outcome.error)
            self._waiting.append(key)
            return
        self._finish(key, plan, outcome)

    def _finish(self, key: Hashable, plan: Planned, outcome: Outcome) -> None:
        dead = remove_leftovers([plan.target]) + bool(outcome.result.get("resumed"))
        entry = replace(
            plan.entry,
            state="failed" if outcome.error else "done",
            attempts=self._attempts[key] + dead,
            seconds=outcome.seconds,
            worker=outcome.worker,
            result=outcome.result if not outcome.error else {},
            error=outcome.error,
        )
        self._manifest.append(entry)
        del self._open[key]
        (self._result.failed if entry.error else self._result.done).append(entry)
        self._progress(entry)
