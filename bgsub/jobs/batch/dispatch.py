"""Shares sources out, tries again what may pass, gives each finished result its name, and writes it down."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from bgsub.errors import BgsubError, SinkError
from bgsub.jobs.batch.finding import RECORD, identify
from bgsub.jobs.batch.manifest import Entry, Manifest
from bgsub.jobs.batch.task import Outcome, Task

logger = logging.getLogger("bgsub")

_WAIT_SECONDS = 0.5
_LEFTOVER = re.compile(r"\.(.+)\.(attempt|old)-[0-9a-f]{32}")


class Runner(Protocol):
    """Does tasks somewhere; what `dispatch` needs of Dask."""

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
    stopped : {"end", "user", "lost"}
        All came to an end; the user stopped it; the scheduler went away.
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


def dispatch(
    plans: Sequence[Planned],
    runner: Runner,
    manifest: Manifest,
    *,
    retries: int,
    progress: Progress,
    result: BatchResult,
) -> None:
    """Do all plans and add what became of them to `result`; Ctrl-C and a lost scheduler end it early.

    Parameters
    ----------
    plans : sequence of Planned
        One for each source.
    runner : Runner
        Does them; it may answer twice or never for the same one.
    manifest : Manifest
        Gets an entry for each source that came to an end.
    retries : int
        Further attempts after a failure that may pass.
    progress : callable
        Called with each entry.
    result : BatchResult
        Added to as it goes on.

    Raises
    ------
    OutputError
        If the manifest cannot be written.
    """
    begin = time.monotonic()
    work = _Work(plans, runner, manifest, retries, progress, result)
    try:
        while work.open:
            work.advance()
    except KeyboardInterrupt:
        result.stopped = "user"
    except RunnerLost as error:
        logger.warning("%s", error)
        result.stopped = "lost"
    finally:
        result.left = len(work.open)
        result.seconds += time.monotonic() - begin
        if work.open:
            runner.cancel()
        remove_leftovers(plan.target for plan in plans)


class _Work:
    """The state of `dispatch`."""

    def __init__(
        self,
        plans: Sequence[Planned],
        runner: Runner,
        manifest: Manifest,
        retries: int,
        progress: Progress,
        result: BatchResult,
    ) -> None:
        self.open: dict[Hashable, Planned] = dict(enumerate(plans))
        self._waiting = deque(self.open)
        self._attempts: dict[Hashable, int] = dict.fromkeys(self.open, 0)
        self._running: set[Hashable] = set()
        self._runner, self._manifest, self._result = runner, manifest, result
        self._retries, self._progress = retries, progress

    def advance(self) -> None:
        """Hand out what there is room for, and take what has ended."""
        room = self._runner.slots() - len(self._running)
        for _ in range(min(room, len(self._waiting))):
            key = self._waiting.popleft()
            self._attempts[key] += 1
            self._running.add(key)
            self._runner.submit(key, self.open[key].task)
        for key, outcome in self._runner.wait(_WAIT_SECONDS):
            with _interrupt_afterwards():
                self._take(key, outcome)

    def _take(self, key: Hashable, outcome: Outcome) -> None:
        plan = self.open.get(key)
        if plan is None or key not in self._running:  # told twice; its folder goes with the leftovers
            return
        self._running.discard(key)
        for warning in outcome.warnings:
            if warning != outcome.error:
                logger.warning("%s: %s", plan.entry.source.path, warning)
        if not outcome.error:
            outcome = _published(plan, outcome)
        if outcome.error and outcome.passing and self._attempts[key] <= self._retries:
            logger.info("%s: %s; trying again", plan.entry.source.path, outcome.error)
            self._waiting.append(key)
            return
        self._finish(key, plan, outcome)

    def _finish(self, key: Hashable, plan: Planned, outcome: Outcome) -> None:
        dead = remove_leftovers([plan.target])
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
        del self.open[key]
        (self._result.failed if entry.error else self._result.done).append(entry)
        self._progress(entry)


@contextmanager
def _interrupt_afterwards() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block, so that name, line and count of a result stay together."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if came:
        raise KeyboardInterrupt


def _published(plan: Planned, outcome: Outcome) -> Outcome:
    """Give the folder of an attempt its final name; what stood there from an earlier run goes."""
    target, attempt = plan.target, plan.target.with_name(outcome.attempt)
    old = target.with_name(f".{target.name}.old-{uuid.uuid4().hex}")
    try:
        if identify(Path(plan.task.job.source)) != plan.entry.source:
            return replace(outcome, error=f"'{plan.task.job.source}' changed while it was read", passing=False)
        if not attempt.is_dir():
            message = f"the results of worker {outcome.worker} are not seen here; workers must see the same paths"
            return replace(outcome, error=message, passing=True)
        check_own(target)
        with suppress(FileNotFoundError):
            os.rename(target, old)
        os.rename(attempt, target)
    except BgsubError as error:
        return replace(outcome, error=str(error), passing=False)
    except OSError as error:
        return replace(outcome, error=f"'{target}' cannot be written: {error.strerror or error}", passing=True)
    shutil.rmtree(old, ignore_errors=True)
    return outcome


def check_own(target: Path) -> None:
    """Refuse to replace what is no result of a batch; SinkError names it."""
    if target.is_dir() and ((target / RECORD).is_file() or not any(target.iterdir())):
        return
    if os.path.lexists(target):
        raise SinkError(f"'{target}' is in the way and no result of a batch; move it, or choose another folder")


def read_record(target: Path) -> dict[str, Any]:
    """Return what a finished folder says of itself; nothing where there is none."""
    try:
        record = json.loads((target / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def remove_leftovers(targets: Iterable[Path]) -> int:
    """Remove what dead attempts left beside final folders; return how many there were."""
    names: dict[Path, set[str]] = {}
    for target in targets:
        names.setdefault(target.parent, set()).add(target.name)
    return sum(_sweep(folder, known) for folder, known in names.items())


def _sweep(folder: Path, names: set[str]) -> int:
    try:
        found = [(path, _LEFTOVER.fullmatch(path.name)) for path in folder.iterdir()]
    except OSError:
        return 0
    dead = [(path, match[2]) for path, match in found if match and match[1] in names]
    for path, _kind in dead:
        shutil.rmtree(path, ignore_errors=True)
    return sum(kind == "attempt" for _path, kind in dead)
