"""Batches: leave out the finished sources, hand out a job for each of the others, and publish the results."""

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgsub.errors import BgsubError, ParameterError, import_optional, logger
from bgsub.jobs.batch import files
from bgsub.jobs.batch.task import Outcome, Task, as_one_line
from bgsub.jobs.batch.workers import LocalWorkers, WorkersLost, refuse_worker_process
from bgsub.jobs.interrupts import afterwards, name_of
from bgsub.jobs.job import Job
from bgsub.jobs.job_state import InputState, JobIdentity, change_since
from bgsub.jobs.run import make_subtractor
from bgsub.numerics.threads import cores
from bgsub.storage.durable_io import AnyPath
from bgsub.video.output_names import check_name, parse_outputs
from bgsub.video.regions import Regions, absolute_region
from bgsub.video.timecode import Selection

if TYPE_CHECKING:
    from bgsub.jobs.batch.dask_workers import DaskWorkers

_WAIT_SECONDS = 0.5

Progress = Callable[[files.Entry], None]


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
    stopped : {"end", "SIGINT", "SIGTERM", "SIGHUP", "lost"}
        All sources were tried; Ctrl-C or another signal stopped it; the connection to the scheduler was lost.
    seconds : float
        Duration.
    folder : Path
        Of the batch: ``manifest.jsonl``, ``manifest.csv`` and the folders of the results.
    """

    folder: Path
    done: list[files.Entry] = field(default_factory=list)
    failed: list[files.Entry] = field(default_factory=list)
    skipped: list[files.Entry] = field(default_factory=list)
    left: int = 0
    stopped: str = "end"
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every source has its results."""
        return not self.failed and not self.left

    def as_dict(self) -> dict[str, Any]:
        """Return the result in JSON types."""
        lists = {name: [asdict(entry) for entry in getattr(self, name)] for name in ("done", "failed", "skipped")}
        numbers = {"left": self.left, "stopped": self.stopped, "seconds": round(self.seconds, 3)}
        return {"folder": str(self.folder), **lists, **numbers}


@dataclass
class Dispatch:
    """The loop over the tasks of a batch; fills in the manifest and the result."""

    waiting: deque[Task]
    workers: "LocalWorkers | DaskWorkers"
    manifest: files.Manifest
    result: BatchResult
    retries: int
    progress: Progress
    running: dict[Future[Outcome], Task] = field(default_factory=dict)
    attempts: Counter[Path] = field(default_factory=Counter)  # by final folder, like the next one
    deaths: Counter[Path] = field(default_factory=Counter)  # attempts whose process died

    def run(self) -> None:
        """Do all tasks; KeyboardInterrupt or WorkersLost ends it early. OutputError for the manifest."""
        begin = time.monotonic()
        try:
            while self.waiting or self.running:
                self._submit()
                if not self.running:
                    time.sleep(_WAIT_SECONDS)
                wait(self.running, _WAIT_SECONDS, FIRST_COMPLETED)
                for future in [future for future in self.running if future.done()]:
                    with afterwards():  # name, line and count of a result belong together
                        self._take(future)
        finally:
            self.result.seconds = time.monotonic() - begin

    def _submit(self) -> None:
        room = self.workers.slots() - len(self.running)
        for _ in range(min(room, len(self.waiting))):
            with afterwards():
                task = self.waiting[0]
                self.running[self.workers.submit(task)] = task
                self.waiting.popleft()
                self.attempts[task.job.output] += 1

    def _take(self, future: Future[Outcome]) -> None:
        task = self.running[future]
        path, target = task.entry.source.path, task.job.output
        outcome = self._outcome(future, target)
        for warning in outcome.warnings:
            if warning != outcome.error:
                logger.warning("%s: %s", path, warning)
        if not outcome.error:
            outcome = _published(task, outcome)
        if outcome.error and outcome.retryable and self.attempts[target] <= self.retries:
            logger.info("%s: %s; trying again", path, outcome.error)
            del self.running[future]
            self.waiting.append(task)
            return
        dead = files.remove_leftovers([target]) + bool(outcome.result.get("resumed"))  # of Dask, or an earlier batch
        attempts = self.attempts[target] + (0 if self.deaths[target] or self.attempts[target] > 1 else dead)
        state, result = ("failed", {}) if outcome.error else ("done", outcome.result)
        ended = replace(task.entry, seconds=outcome.seconds, worker=outcome.worker, error=outcome.error)
        entry = replace(ended, state=state, attempts=attempts, result=result)
        self.manifest.append(entry)
        del self.running[future]
        (self.result.failed if entry.error else self.result.done).append(entry)
        self.progress(entry)

    def _outcome(self, future: Future[Outcome], target: Path) -> Outcome:
        try:
            return future.result()
        except BrokenExecutor:
            self.deaths[target] += 1
            return Outcome(error=f"its worker died each of {self.deaths[target]} times", retryable=True)
        except CancelledError:
            raise WorkersLost("the scheduler went away") from None
        except Exception as error:  # such as KilledWorker of Dask
            return Outcome(error=as_one_line(error))


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
        files.publish(attempt, target)
    except BgsubError as error:
        return replace(outcome, error=str(error))
    except OSError as error:
        return replace(outcome, error=f"'{target}' cannot be written: {error.strerror or error}", retryable=True)
    return outcome


Patterns = AnyPath | Sequence[AnyPath]
MakeJob = Callable[[str, Path], Job]


def run_batch(
    patterns: Patterns,
    output: AnyPath,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    retries: int = 2,
    overwrite: bool = False,
    make_job: MakeJob = Job,
    started: Callable[[int, int], None] = lambda _todo, _skipped: None,
    progress: Progress = lambda _entry: None,
) -> BatchResult:
    """Do one job for each of any number of files, in processes on this machine or with a Dask cluster.

    The results of an earlier run with the same options stay if the file and the outputs are unchanged. So a stopped
    batch continues, also inside a file, and a batch with failures tries only those again. Results of other options are
    replaced only with `overwrite`. After Ctrl-C the result has the sources that are left. A script that calls this
    needs ``if __name__ == "__main__":``, because the processes of this machine import it.

    Parameters
    ----------
    patterns : str, path or sequence of them
        Video files; folders of images, each one source; other folders, for the videos in them; globs, in which ``**``
        stands for any folders; or ``@FILE``, a text file with one of these per line.
    output : str or path
        Folder of the results: a folder for each file in it, ``manifest.jsonl`` and ``manifest.csv``.
    workers : int, optional
        Processes on this machine; by default one for each core, and no more than files.
    scheduler : str, optional
        Address of a running Dask scheduler instead, whose workers see the same files under the same paths.
    retries : int
        Further attempts after a failure that may pass, such as a full disk or a dead worker.
    overwrite : bool
        Do everything again.
    make_job : callable
        Makes the job from a source and its output folder; by default with the defaults of `Job`. The job must write
        its files inside that folder.
    started : callable
        Called with the number of files to do, and of those done already.
    progress : callable
        Called with the entry of each file that ended.

    Raises
    ------
    SourceError
        For a pattern without a match.
    ParameterError
        For wrong options, where no scheduler answers, where the processes of this machine do not start, and for
        results that were made by other options.
    SinkError
        If the output folder cannot be written, another batch works in it, or something else is in the way.
    OutputError
        If the manifest cannot be written any more.
    DependencyError
        With a `scheduler` and without the package distributed, or with another version of bgsub at a worker.

    Examples
    --------
    >>> from bgsub.jobs.batch import run_batch
    >>> result = run_batch("videos/*.mp4", "out", workers=2)  # doctest: +SKIP
    >>> [(entry.source.path, entry.error) for entry in result.failed]  # doctest: +SKIP
    []
    """
    if workers is not None and scheduler is not None:
        raise ParameterError("a scheduler brings its own workers, so workers cannot be given")
    for name, value, least in (("workers", workers, 1), ("retries", retries, 0)):
        if value is not None and not (isinstance(value, int) and value >= least):
            raise ParameterError(f"{name} must be an integer >= {least}, got {value!r}")
    if scheduler is not None:
        import_optional("distributed", "a scheduler needs the package distributed: pip install 'bgsub[batch]'")
    refuse_worker_process()
    inputs = files.find_inputs([patterns] if isinstance(patterns, (str, os.PathLike)) else patterns)
    folder = Path(os.path.abspath(output))
    _check_job(make_job(str(next(iter(inputs))), folder / "x"))
    result = BatchResult(folder)
    cluster = None if scheduler is None else make_workers(len(inputs), scheduler)  # before anything is written
    with cluster or nullcontext(), ExitStack() as stack:
        stack.enter_context(files.hold_folder(folder))
        manifest = stack.enter_context(files.Manifest(folder))
        todo = []
        for task in _plan(inputs, manifest, make_job):
            entry = None if overwrite else _finished_entry(task, manifest)
            if entry is None:
                files.check_own(task.job.output)
                todo.append(task)
            else:
                result.skipped.append(entry)
                files.remove_leftovers([task.job.output])
        targets = [task.job.output for task in todo]
        files.remove_leftovers(targets, keep=not overwrite)
        started(len(todo), len(result.skipped))
        try:
            if todo:
                with cluster or make_workers(min(workers or cores(), len(todo)), None) as running:
                    Dispatch(deque(todo), running, manifest, result, retries, progress).run()
        except KeyboardInterrupt as interrupt:
            result.stopped = name_of(interrupt)
        except WorkersLost as error:
            logger.warning("%s", error)
            result.stopped = "lost"
        finally:
            result.left = len(todo) - len(result.done) - len(result.failed)
            files.remove_leftovers(targets, keep=True)
            manifest.write_csv()
    return result


def make_workers(count: int, scheduler: str | None) -> "LocalWorkers | DaskWorkers":
    """Return so many processes of this machine, or the workers of a scheduler."""
    if scheduler is None:
        return LocalWorkers(count)
    from bgsub.jobs.batch.dask_workers import DaskWorkers  # noqa: PLC0415 - an optional package

    return DaskWorkers(scheduler)


def _check_job(job: Job) -> None:
    """Check the options once, before anything is written."""
    make_subtractor(job)
    Selection.parse(job.start, job.end, job.duration, job.every)
    check_name(job.name)
    if job.save:
        parse_outputs(job.save)
    for texts in (job.roi, job.ignore, job.privacy):
        if texts:
            Regions(texts)
    if job.save_model == job.output / files.RECORD:
        raise ParameterError(f"save_model must have another name than '{files.RECORD}', which a batch needs for itself")


def _plan(inputs: files.Inputs, manifest: files.Manifest, make_job: MakeJob) -> list[Task]:
    targets = files.assign_targets(inputs, {path: entry.output for path, entry in manifest.entries.items()})
    tasks = []
    for path, state in inputs.items():
        name = targets[state.path]
        job = _absolute(make_job(str(path), manifest.path.parent / name))
        identity = JobIdentity.of(job, state)
        entry = files.Entry(state, identity.fingerprint, name, state="planned")
        tasks.append(Task(job, identity, manifest.path, entry))
    return tasks


def _absolute(job: Job) -> Job:
    """Return the job with absolute paths: workers have another current folder."""
    values = vars(job)
    changed: dict[str, Any] = {name: tuple(map(absolute_region, values[name])) for name in ("roi", "ignore", "privacy")}
    changed |= {name: Path(os.path.abspath(path)) for name, path in values.items() if isinstance(path, Path)}
    return replace(job, **changed)


def _finished_entry(task: Task, manifest: files.Manifest) -> files.Entry | None:
    """Return the entry of unchanged results of the same job, else None; ParameterError if another job made them."""
    planned, target = task.entry, task.job.output
    record = files.read_record(target)
    try:
        made = JobIdentity.from_dict(record)
        difference = task.identity.difference(made)
        change = "" if difference else change_since(record.get("sizes", {}), target)
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    if difference and made.source == task.identity.source:
        raise ParameterError(f"the results in '{target}' were made {difference}; --overwrite replaces them")
    if difference or change:
        reason = f"the results were made {difference}" if difference else change
        logger.info("%s: %s; starting over", planned.source.path, reason)
        return None
    outcome = record.get("result", {})
    if not all((target / name).exists() for name in outcome.get("outputs", [])):
        return None
    entry = manifest.entries.get(planned.source.path)
    if entry is None or entry.state != "done" or (entry.source, entry.options) != (planned.source, planned.options):
        entry = replace(planned, state="done", result=outcome, seconds=outcome.get("seconds", 0.0))
        manifest.append(entry)
    return entry
