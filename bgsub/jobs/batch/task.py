"""One task of a batch, in a worker: an attempt in a folder of its own, which the batch renames at the end."""

import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from bgsub import errors
from bgsub._opencv import cv2
from bgsub._version import __version__
from bgsub.errors import BgsubError, DependencyError, OutputError, ParameterError, SinkError, SourceError, logger
from bgsub.jobs.batch.files import RECORD, Entry, as_published, new_attempt, unfinished
from bgsub.jobs.checkpoints import FOLDER, START_ANEW, saved_frames
from bgsub.jobs.controls import Controls
from bgsub.jobs.job import Job, JobResult
from bgsub.jobs.job_state import JobIdentity, sizes_of
from bgsub.jobs.run import run_job
from bgsub.numerics.memory import is_lack_of_memory, share_memory
from bgsub.numerics.threads import cores, limit_threads
from bgsub.storage.durable_io import as_sink_error, write_whole
from bgsub.video.sources.base import FrameSource

_WARNINGS = 20

IsCancelled = Callable[[], bool]


@dataclass(frozen=True)
class Task:
    """One source to process."""

    job: Job  # with absolute paths; its output is the final folder
    identity: JobIdentity  # for `RECORD`
    manifest: Path  # of the batch
    entry: Entry  # of the manifest, not yet filled in
    version: str = __version__  # of bgsub in the process of the batch


@dataclass(frozen=True)
class Outcome:
    """How one attempt ended."""

    attempt: str = ""  # folder with the results, beside the final one; empty when failed
    result: dict[str, Any] = field(default_factory=dict)  # `JobResult.as_dict`; outputs are relative to the folder
    error: str = ""  # one line, when failed
    retryable: bool = False  # whether another attempt may succeed
    worker: str = ""  # host and process
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()  # the first ones in the log


class _NotShared(SourceError):
    """A worker on another machine does not see the files."""


class _CannotContinue(Exception):
    """The folder of a dead attempt belongs to another job, is damaged, or is in use."""


def do_task(task: Task, jobs: int = 1, is_cancelled: IsCancelled = lambda: False, memory: int | None = None) -> Outcome:
    """Make one attempt with the share of one of `jobs` and of `memory` bytes; the outcome has any error."""
    begin = time.monotonic()
    share_memory(memory)
    target = task.job.output
    with _collected_warnings() as warnings:
        try:
            outcome = _try(task, jobs, is_cancelled)
        except Exception as error:  # of any kind: the other sources continue
            outcome = Outcome(error=as_one_line(error), retryable=_is_retryable(error))
    texts = [as_published(text, target) for text in (outcome.error, *warnings)]
    seconds = round(time.monotonic() - begin, 3)
    return replace(outcome, worker=_worker_name(), seconds=seconds, error=texts[0], warnings=tuple(texts[1:]))


def _try(task: Task, jobs: int, is_cancelled: IsCancelled) -> Outcome:
    """Continue the folder of a dead attempt, or begin a new one."""
    _check_worker(task)
    _share_cores(jobs)
    target = task.job.output
    folder = unfinished(target)
    if folder is not None:
        try:
            return _attempt(task, folder, is_cancelled, goes_on=True)
        except _CannotContinue as error:  # the batch removes the folder later: another attempt may be alive in it
            logger.warning("%s; starting over", error)
    return _attempt(task, new_attempt(target), is_cancelled)


def _is_retryable(error: Exception) -> bool:
    """Return whether another attempt may succeed: after a full disk it may, with an unreadable video it will not."""
    if isinstance(error, (_NotShared, errors.StoppedError)):
        return True
    may_pass = isinstance(error, OSError) or is_lack_of_memory(error)
    return may_pass and not isinstance(error, (SourceError, ParameterError, DependencyError))


def _attempt(task: Task, folder: Path, is_cancelled: IsCancelled, goes_on: bool = False) -> Outcome:
    try:
        job = relocated(task.job, folder)
        made = _run(job, is_cancelled, goes_on)
        if made.already_done:  # a kill came before the record was written
            raise _CannotContinue(f"'{folder}' is finished, but its record is missing")
        result = made.as_dict()
        shutil.rmtree(folder / FOLDER, ignore_errors=True)  # the record replaces it
        if os.path.lexists(folder / RECORD):
            raise ParameterError(f"an output must have another name than '{RECORD}', which a batch needs for itself")
        result["outputs"] = [Path(path).relative_to(folder).as_posix() for path in result["outputs"]]
        if made.summary.stopped not in ("end", "limit") or is_cancelled():
            raise errors.StoppedError("the batch has ended")
        with as_sink_error(folder / RECORD, OutputError):
            folder.mkdir(exist_ok=True)
            # Without the clips, which users may delete.
            sizes = sizes_of((path for name in result["outputs"] if (path := folder / name) != job.record), folder)
            record = {**asdict(task.identity), "bgsub": __version__, "result": result, "sizes": sizes}
            write_whole(folder / RECORD, f"{json.dumps(record, indent=1)}\n".encode(), OutputError)
    except _CannotContinue:
        raise
    except BaseException as error:  # the folder of a cancelled attempt stays if it has a checkpoint
        failed = isinstance(error, Exception) and not isinstance(error, errors.StoppedError)
        if failed or not saved_frames(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return Outcome(folder.name, result)


def _run(job: Job, is_cancelled: IsCancelled, goes_on: bool) -> JobResult:
    """Do a job, with checkpoints where its outputs support them; a cancelled one stops with a last checkpoint."""
    opened: list[FrameSource] = []
    controls = Controls()

    def watch(source: FrameSource) -> AbstractContextManager[Callable[..., None]]:
        opened.append(source)
        return nullcontext(lambda *_frame: controls.quit() if is_cancelled() else None)

    try:
        return run_job(replace(job, resume=job.record is None), watch=watch, controls=controls)
    except BgsubError as error:
        if opened:
            raise
        if goes_on:
            raise _CannotContinue(str(error).removesuffix(f"; {START_ANEW}")) from None
        if not isinstance(error, SinkError):
            raise
        shutil.rmtree(job.output, ignore_errors=True)
        return run_job(job, watch=watch, controls=controls)


def relocated(job: Job, folder: Path) -> Job:
    """Return the job with another output folder, and with the paths inside moved along."""
    inside: dict[str, Any] = {
        name: folder / value.relative_to(job.output)
        for name, value in vars(job).items()
        if isinstance(value, Path) and value.is_relative_to(job.output)
    }
    return replace(job, **inside)


def _check_worker(task: Task) -> None:
    """Raise an error where this worker has another version or does not see the files."""
    here = _worker_name()
    if task.version != __version__:
        raise DependencyError(f"worker {here} has bgsub {__version__}, this is {task.version}; both must be the same")
    for path in (task.manifest, Path(str(task.job.source))):  # one path: a batch has no sources in a row
        if not path.exists():
            raise _NotShared(f"worker {here} does not see '{path}'; workers must see the same paths")


def _share_cores(jobs: int) -> None:
    """Limit the threads to the share of one of the jobs on this machine."""
    threads = max(cores() // jobs, 1)
    limit_threads(threads)
    cv2.setNumThreads(threads)
    # Always one: more BLAS threads are no faster here, and their number changes the last digits of a model.
    threadpool_limits(1, user_api="blas")


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of the library, for the log of the batch."""
    collected: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: collected.append(record.getMessage()) if len(collected) < _WARNINGS else None  # type: ignore[method-assign]
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield collected
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def as_one_line(error: BaseException) -> str:
    """Return the message of an error, with its class if it is not one of bgsub."""
    text = str(error) if isinstance(error, BgsubError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def _worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
