"""What happens to one source at a worker, in whose process everything here runs.

An attempt writes into a folder of its own beside the final one, or goes on in that of an attempt that died. Only the
client, which takes one outcome per source, gives it the final name: however often Dask runs a task, its result appears
once and whole.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from bgsub._opencv import cv2
from bgsub._version import __version__
from bgsub.errors import BgsubError, DependencyError, OutputError, ParameterError, SinkError, SourceError
from bgsub.jobs.batch.attempts import as_published, new_attempt, unfinished
from bgsub.jobs.batch.finding import RECORD
from bgsub.jobs.batch.lock import Ticket
from bgsub.jobs.finished import sizes_of
from bgsub.jobs.identity import JobIdentity
from bgsub.jobs.job import Job, JobResult
from bgsub.jobs.resumption import ANEW, FOLDER, kept_frames
from bgsub.jobs.run import run_job
from bgsub.numerics.memory import is_lack_of_memory
from bgsub.numerics.threads import cores, limit_threads
from bgsub.separation import Separation
from bgsub.storage.durable_io import as_sink_error, write_whole
from bgsub.video.sources.base import Frame, FrameSource

logger = logging.getLogger("bgsub")

_CHECK_SECONDS = 1.0
_WARNINGS = 20


@dataclass(frozen=True)
class Task:
    """One source to do.

    Attributes
    ----------
    job : Job
        With absolute paths; its output is the final folder.
    identity : JobIdentity
        What `RECORD` tells about source and options.
    ticket : Ticket
        Of the batch; valid while it goes on, and where the worker sees the same folder.
    hosts : mapping of str to int
        Jobs at a time by the address of the machine, whose cores they share.
    version : str
        Of bgsub at the client.
    """

    job: Job
    identity: JobIdentity
    ticket: Ticket
    hosts: Mapping[str, int] = field(default_factory=dict)
    version: str = __version__


@dataclass(frozen=True)
class Outcome:
    """How one attempt ended.

    Attributes
    ----------
    attempt : str
        Folder with the results, beside the final one; empty when failed.
    result : dict
        `JobResult.as_dict`; outputs are relative to the folder.
    error : str
        One line, when failed.
    passing : bool
        Whether the failure may have gone when tried again.
    worker : str
        Host and process.
    seconds : float
        Duration.
    warnings : tuple of str
        What was logged, the first few.
    """

    attempt: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    passing: bool = False
    worker: str = ""
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


class Unwanted(Exception):
    """Nobody waits for this attempt any more."""


def do_task(task: Task, wanted: Callable[[], bool] = lambda: True, jobs: int = 1) -> Outcome:
    """Make one attempt; failures are told in the outcome, and leave nothing behind.

    What nobody waits for any more leaves its checkpoint, for the next one.

    Parameters
    ----------
    task : Task
        What to do.
    wanted : callable
        Asked about once a second whether somebody still waits for it.
    jobs : int
        Jobs at a time on this machine, which share its cores.
    """
    begin = time.monotonic()
    target = task.job.output
    with _warnings_kept() as warnings:
        try:
            outcome = _tried(task, wanted, jobs)
        except Exception as error:  # whatever it is, the other sources go on
            outcome = Outcome(error=_one_line(error), passing=may_pass(error))
    named = [as_published(text, target) for text in (outcome.error, *warnings)]  # as the user knows it
    seconds = round(time.monotonic() - begin, 3)
    return replace(outcome, worker=_worker_name(), seconds=seconds, error=named[0], warnings=tuple(named[1:]))


def _tried(task: Task, wanted: Callable[[], bool], jobs: int) -> Outcome:
    """Go on with what a dead attempt left, or else begin."""
    target = task.job.output
    folder = unfinished(target)
    if folder is not None:
        try:
            return _attempt(task, folder, wanted, jobs, goes_on=True)
        except _CannotGoOn as error:  # the folder goes with the leftovers: another attempt may be alive in it
            logger.warning("%s; starting anew", error)
    return _attempt(task, new_attempt(target), wanted, jobs)


def may_pass(error: Exception) -> bool:
    """Whether a failure may have gone at the next attempt: a full disk may, an unreadable video will not."""
    if isinstance(error, _NotShared):
        return True
    return (isinstance(error, OSError) or is_lack_of_memory(error)) and not isinstance(
        error, (SourceError, ParameterError, DependencyError)
    )


class _NotShared(SourceError):
    """A worker on another machine does not see the files."""


class _CannotGoOn(Exception):
    """What a dead attempt left is of another job, damaged, or in use."""


class _Watch:
    """Looks after each frame whether the batch still goes on; `begun` is whether there was something to look at."""

    def __init__(self, task: Task, wanted: Callable[[], bool]) -> None:
        self._task, self._wanted = task, wanted
        self._checked, self.begun = 0.0, False

    @contextmanager
    def __call__(self, _source: FrameSource) -> Iterator[Callable[[Frame, Separation], None]]:
        self._checked, self.begun = time.monotonic(), True
        yield self._check

    def _check(self, _frame: Frame, _separation: Separation) -> None:
        if time.monotonic() - self._checked > _CHECK_SECONDS:
            self._checked = time.monotonic()
            _check_wanted(self._task, self._wanted)


def _attempt(task: Task, folder: Path, wanted: Callable[[], bool], jobs: int, goes_on: bool = False) -> Outcome:
    _check_worker(task)
    _share_cores(jobs)
    with _tidied(folder):
        job = relocated(task.job, folder)
        made = _run(job, _Watch(task, wanted), goes_on)
        if made.already_done:  # a kill came before that was written down
            raise _CannotGoOn(f"'{folder}' is finished, but what came of it is not known")
        result = made.as_dict()
        shutil.rmtree(folder / FOLDER, ignore_errors=True)  # the record of a batch says more
        if os.path.lexists(folder / RECORD):
            raise ParameterError(f"an output must have another name than '{RECORD}', which a batch needs for itself")
        result["outputs"] = [Path(path).relative_to(folder).as_posix() for path in result["outputs"]]
        _check_wanted(task, wanted)
        with as_sink_error(folder / RECORD, OutputError):
            folder.mkdir(exist_ok=True)
            # Of clips people remove those that they do not want.
            sizes = sizes_of((path for name in result["outputs"] if (path := folder / name) != job.record), folder)
            facts = {**task.identity.as_dict(), "bgsub": __version__, "result": result, "sizes": sizes}
            write_whole(folder / RECORD, f"{json.dumps(facts, indent=1)}\n".encode(), OutputError)
    return Outcome(folder.name, result)


def _run(job: Job, watch: _Watch, goes_on: bool) -> JobResult:
    """Do a job, with checkpoints where its outputs can have them."""
    try:
        return run_job(replace(job, resume=job.record is None), watch=watch)
    except BgsubError as error:
        if watch.begun:
            raise
        if goes_on:
            raise _CannotGoOn(str(error).removesuffix(f"; {ANEW}")) from None
        if not isinstance(error, SinkError):
            raise
        shutil.rmtree(job.output, ignore_errors=True)
        return run_job(job, watch=watch)


@contextmanager
def _tidied(folder: Path) -> Iterator[None]:
    """Remove the folder of an attempt that fails; that of one nobody waits for stays if it can be gone on with."""
    try:
        yield
    except _CannotGoOn:
        raise
    except BaseException as error:
        failed = isinstance(error, Exception) and not isinstance(error, Unwanted)
        if failed or not kept_frames(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def relocated(job: Job, folder: Path) -> Job:
    """Return the job with another output folder, and everything that lies inside it moved along."""
    inside: dict[str, Any] = {
        item.name: folder / value.relative_to(job.output)
        for item in fields(job)
        if isinstance(value := getattr(job, item.name), Path) and value.is_relative_to(job.output)
    }
    return replace(job, **inside)


def _check_wanted(task: Task, wanted: Callable[[], bool]) -> None:
    if not wanted() or not task.ticket.valid:
        raise Unwanted("nobody waits for this result any more")


def _check_worker(task: Task) -> None:
    """Refuse work that this worker cannot do as the client means it."""
    here = _worker_name()
    if task.version != __version__:
        raise DependencyError(f"worker {here} has bgsub {__version__}, this is {task.version}; both must be the same")
    if not task.ticket.valid:
        raise _NotShared(
            f"worker {here} does not see the output folder '{task.ticket.path.parent}'; workers must see the same paths"
        )
    if not Path(str(task.job.source)).exists():  # always one
        raise _NotShared(f"worker {here} does not see '{task.job.source}'; workers must see the same paths")


def _share_cores(jobs: int) -> None:
    """Use as many threads as cores are left for each of the jobs on this machine."""
    threads = max(cores() // jobs, 1)
    limit_threads(threads)
    cv2.setNumThreads(threads)
    # Always one: threads of the BLAS gain nothing here, and their number would show in the last digits of a model.
    threadpool_limits(1, user_api="blas")


@contextmanager
def _warnings_kept() -> Iterator[list[str]]:
    """Give the warnings of the library to the client, who has the terminal."""
    kept: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: kept.append(record.getMessage()) if len(kept) < _WARNINGS else None  # type: ignore[method-assign]
    logger = logging.getLogger("bgsub")
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield kept
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _one_line(error: Exception) -> str:
    text = str(error) if isinstance(error, BgsubError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def _worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
