"""A whole batch from Python: found, planned, done, written down."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bgsub.errors import DependencyError, ParameterError
from bgsub.jobs.batch.attempts import remove_leftovers
from bgsub.jobs.batch.dispatch import BatchResult, Dispatch, Planned, Progress, Runner
from bgsub.jobs.batch.finding import RECORD, Input, find_inputs
from bgsub.jobs.batch.folders import check_own, read_record
from bgsub.jobs.batch.lock import Ticket, hold_folder
from bgsub.jobs.batch.manifest import Entry, Manifest
from bgsub.jobs.batch.targets import assign_targets
from bgsub.jobs.batch.task import Task
from bgsub.jobs.finished import change_since
from bgsub.jobs.identity import JobIdentity
from bgsub.jobs.interrupts import name_of
from bgsub.jobs.job import Job
from bgsub.jobs.run import make_subtractor
from bgsub.numerics.threads import cores
from bgsub.video.output_names import check_name, parse_outputs
from bgsub.video.regions import Regions, absolute_region
from bgsub.video.sources.part import Selection

logger = logging.getLogger("bgsub")

Patterns = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
MakeJob = Callable[[str, Path], Job]
MakeRunner = Callable[[int], AbstractContextManager[Runner]]


@dataclass(frozen=True)
class BatchOptions:
    """How a batch goes about its sources, as for `run_batch`."""

    retries: int = 2
    overwrite: bool = False
    make_job: MakeJob = Job
    started: Callable[[int, int], None] = lambda _todo, _skipped: None
    progress: Progress = lambda _entry: None


def run_batch(
    patterns: Patterns,
    output: str | os.PathLike[str],
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

    What an earlier run with the same options has done is left out, as long as the file and the outputs are as
    they were; so a batch that was stopped goes on, inside the files that it was at as well, and one with failures tries
    only those again. A script that calls this needs ``if __name__ == "__main__":``, as the processes of this machine
    import it.

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
        Makes the job from a source and its output folder; by default with the defaults of `Job`. Files that
        the job writes lie inside that folder.
    started : callable
        Called with the number of files to do, and of those done already.
    progress : callable
        Called with the entry of each file that came to an end.

    Returns
    -------
    BatchResult
        Also after Ctrl-C.

    Raises
    ------
    SourceError
        For a pattern that stands for nothing.
    ParameterError
        For wrong options, where no scheduler answers, and where the processes of this machine do not start.
    SinkError
        If the output folder cannot be written, another batch works in it, or something else is in the way.
    OutputError
        If the manifest cannot be written any more.
    DependencyError
        Without the package distributed, or with another version of bgsub at a worker.

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
    require_distributed()
    from bgsub.jobs.batch import dask_runner  # noqa: PLC0415 - which needs it

    dask_runner.require_main()

    def make_runner(files: int) -> dask_runner.DaskRunner:
        return dask_runner.DaskRunner(min(workers or cores(), files), scheduler, retries)

    return run_batch_with(make_runner, patterns, output, BatchOptions(retries, overwrite, make_job, started, progress))


def require_distributed() -> None:
    """DependencyError without the package distributed."""
    try:
        import distributed  # noqa: F401, PLC0415
    except ImportError:
        raise DependencyError("batch needs the package distributed: pip install 'bgsub[batch]'") from None


def run_batch_with(
    make_runner: MakeRunner, patterns: Patterns, output: str | os.PathLike[str], options: BatchOptions
) -> BatchResult:
    """Do what `run_batch` does with a runner of another kind: a context manager made for a number of files."""
    inputs = find_inputs([patterns] if isinstance(patterns, (str, os.PathLike)) else patterns)
    folder = Path(os.path.abspath(output))
    _check_job(options.make_job, inputs[0], folder)
    result = BatchResult(folder)
    with ExitStack() as stack:
        ticket = stack.enter_context(hold_folder(folder))
        manifest = stack.enter_context(Manifest(folder))
        plans = _plan(inputs, ticket, manifest, options.make_job)
        todo, done = [], []
        for plan in plans:
            entry = None if options.overwrite else _done_already(plan, manifest)
            if entry is None:
                check_own(plan.target)
                todo.append(plan)
            else:
                result.skipped.append(entry)
                done.append(plan)
        remove_leftovers(plan.target for plan in done)
        remove_leftovers((plan.target for plan in todo), keep=not options.overwrite)
        options.started(len(todo), len(result.skipped))
        try:
            if todo:
                _run(make_runner, todo, manifest, result, options)
        finally:
            manifest.write_csv()
    return result


def _run(
    make_runner: MakeRunner, todo: list[Planned], manifest: Manifest, result: BatchResult, options: BatchOptions
) -> None:
    try:
        made = make_runner(len(todo))
    except KeyboardInterrupt as interrupt:
        result.stopped, result.left = name_of(interrupt), len(todo)
        return
    with made as runner:
        Dispatch(todo, runner, manifest, result, retries=options.retries, progress=options.progress).run()


def _check_job(make_job: MakeJob, first: Input, folder: Path) -> None:
    """Wrong options show before anything is made, and once."""
    job = make_job(str(first.path), folder / "x")
    make_subtractor(job.parameters, job.model, privacy=job.privacy)
    Selection.parse(job.start, job.end, job.duration, job.every)
    check_name(job.name)
    if job.save:
        parse_outputs(job.save)
    for texts in (job.roi, job.privacy):
        if texts:
            Regions(texts)
    if job.save_model == job.output / RECORD:
        raise ParameterError(f"save_model must have another name than '{RECORD}', which a batch needs for itself")


def _plan(inputs: Sequence[Input], ticket: Ticket, manifest: Manifest, make_job: MakeJob) -> list[Planned]:
    targets = assign_targets(inputs, {path: entry.output for path, entry in manifest.entries.items()})
    plans = []
    for source in inputs:
        name = targets[source.state.path]
        job = _absolute(make_job(str(source.path), ticket.path.parent / name))
        identity = JobIdentity.of(job, source.state)
        entry = Entry(source.state, identity.fingerprint, name, state="planned")
        plans.append(Planned(Task(job, identity, ticket), entry))
    return plans


def _absolute(job: Job) -> Job:
    """Return the job with whole paths, as workers have another current folder."""
    values = {item.name: getattr(job, item.name) for item in fields(job)}
    whole: dict[str, Any] = {
        name: Path(os.path.abspath(path)) for name, path in values.items() if isinstance(path, Path)
    }
    roi, privacy = (tuple(map(absolute_region, texts)) for texts in (job.roi, job.privacy))
    return replace(job, roi=roi, privacy=privacy, **whole)


def _done_already(plan: Planned, manifest: Manifest) -> Entry | None:
    """Return the entry of a source whose results are there, unchanged in everything they were made of.

    The folder counts where a kill came between its name and the line in the manifest.
    """
    wanted, record = plan.entry, read_record(plan.target)
    try:
        difference = plan.task.identity.difference(JobIdentity.from_dict(record))
        change = "" if difference else change_since(record.get("sizes", {}), plan.target)
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    if difference or change:
        why = f"the results were made {difference}" if difference else change
        logger.info("%s: %s; starting anew", wanted.source.path, why)
        return None
    outcome = record.get("result", {})
    if not all((plan.target / name).exists() for name in outcome.get("outputs", [])):
        return None
    entry = manifest.entries.get(wanted.source.path)
    if entry is None or replace(entry, source=wanted.source, options=wanted.options) != entry or entry.state != "done":
        entry = replace(wanted, state="done", result=outcome, seconds=outcome.get("seconds", 0.0))
        manifest.append(entry)
    return entry
