"""Going on with a job that was interrupted: what it was, where it stands, and whether it is the same one."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from bgsub.errors import BrokenSourceError, OutputError, ParameterError, SinkError, SourceError
from bgsub.jobs.checkpoints import Checkpoint, Checkpoints, safe_frames
from bgsub.jobs.finished import Record
from bgsub.jobs.identity import InputState, JobIdentity
from bgsub.jobs.job import Job
from bgsub.jobs.outputs import all_targets, targets_of
from bgsub.storage.durable_io import remove_partials
from bgsub.subtractor.subtractor import BackgroundSubtractor
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import FrameSource

logger = logging.getLogger("bgsub")

FOLDER, FILE = ".resume", "state"
ANEW = "--overwrite starts anew"

MakeSinks = Callable[[bool, datetime], list[Sink]]


class Resumption(NamedTuple):
    """A job ready to be begun or gone on with."""

    subtractor: BackgroundSubtractor  # the new one, or the one of the checkpoint
    sinks: list[Sink]  # as they were at the checkpoint
    # None when all outputs are there already and no checkpoint is: nothing is left to do
    checkpoints: Checkpoints | None


def kept_frames(output: Path) -> int:
    """Return after how many frames the checkpoint in an output folder is; 0 where there is none."""
    return safe_frames(output / FOLDER / FILE)


def prepare(job: Job, source: FrameSource, subtractor: BackgroundSubtractor, make_sinks: MakeSinks) -> Resumption:
    """Find out where a job with `resume` stands, and make everything ready to go on there.

    Parameters
    ----------
    job : Job
        The job.
    source : FrameSource
        Its source, opened.
    subtractor : BackgroundSubtractor
        A new one, for a job that begins; what stands between it and the pipeline must not remember frames.
    make_sinks : callable
        Called with whether outputs may be replaced and with the start of the (first) run, makes the sinks.

    Raises
    ------
    ParameterError
        If the source is live, or the checkpoint was made by other options or from another source.
    SourceError
        If the checkpoint is damaged.
    SinkError
        If some outputs are there already, or one is of a kind that cannot be continued.
    """
    if source.live:
        raise ParameterError(f"a run over {source.name} cannot be resumed: the source is live, no frame comes again")
    path = job.output / FOLDER / FILE
    new = _beginning(job, source)
    if job.overwrite or not path.exists():
        return _begin(job, path, new, subtractor, make_sinks)
    try:
        start = Checkpoint.read(path)
    except SourceError as error:
        raise SourceError(f"{error}; {ANEW}") from None
    if difference := _difference(path, start, new):
        raise ParameterError(f"the checkpoint in '{path.parent}' was made {difference}; {ANEW}")
    return _go_on(job, path, start, subtractor, make_sinks)


def _begin(
    job: Job, path: Path, start: Checkpoint, subtractor: BackgroundSubtractor, make_sinks: MakeSinks
) -> Resumption:
    started = datetime.fromisoformat(start.started)
    try:
        sinks = make_sinks(job.overwrite, started)
    except SinkError:
        sinks = make_sinks(True, started)
        for sink in sinks:
            sink.abort()
        targets = all_targets(sinks, job.save_model)
        missing = [target for target in targets if not _is_there(target)]
        if not missing:
            _record(job, targets).check(JobIdentity.from_dict(start.identity), ANEW)
            return Resumption(subtractor, sinks, None)
        raise SinkError(
            f"in '{job.output}' are outputs already, but not '{missing[0]}' and no checkpoint to go on from; {ANEW}"
        ) from None
    checkpoints, sinks = _checkpoints(job, path, start, subtractor, sinks)
    # From now on outputs that are there do not mean that nothing is left to do.
    checkpoints.begin()
    _record(job, all_targets(sinks, job.save_model)).remove()
    return Resumption(subtractor, sinks, checkpoints)


def _go_on(
    job: Job, path: Path, start: Checkpoint, subtractor: BackgroundSubtractor, make_sinks: MakeSinks
) -> Resumption:
    model, start = start.model, dataclasses.replace(start, model=None)
    try:
        current = subtractor if model is None else BackgroundSubtractor.from_snapshot(*model)
    except ParameterError as error:
        raise SourceError(f"the checkpoint '{path}' is damaged: {error}; {ANEW}") from None
    sinks = make_sinks(True, datetime.fromisoformat(start.started))
    try:
        checkpoints, ready = _checkpoints(job, path, start, current, sinks)
    except SinkError as error:
        if not start.frames:
            raise
        logger.warning("%s; starting anew", error)
        return _begin(dataclasses.replace(job, overwrite=True), path, start.beginning, subtractor, make_sinks)
    if start.frames:
        logger.info("going on after %d frames", start.frames)
    return Resumption(current, ready, checkpoints)


def _checkpoints(
    job: Job, path: Path, start: Checkpoint, subtractor: BackgroundSubtractor, sinks: list[Sink]
) -> tuple[Checkpoints, list[Sink]]:
    """Return the checkpoints of a run, and the sinks ready to go on; all of them are aborted when one cannot."""
    # The pipeline may have something around this subtractor, such as regions of interest.
    take = lambda _around: subtractor.snapshot()  # noqa: E731
    checkpoints = Checkpoints(path, start, seconds=job.checkpoint_seconds, take=take)
    # A kill while the outputs were being finished leaves some of them finished, and newer than the run.
    begun = datetime.fromisoformat(start.started).timestamp()

    def is_finished(sink: Sink) -> bool:
        targets = targets_of(sink)
        finished = all(_is_newer(target, begun) for target in targets)
        for target in targets if finished else []:
            remove_partials(target)
        return finished

    try:
        ready = checkpoints.resume(sinks, is_finished)
    except BaseException:
        for sink in sinks:
            sink.abort()
        raise
    return checkpoints, ready


def _is_newer(target: Path, begun: float) -> bool:
    return target.is_file() and target.stat().st_mtime >= begun


def _is_there(target: Path) -> bool:
    return any(target.iterdir()) if target.is_dir() else target.exists()


@contextmanager
def noted(job: Job, source: FrameSource, targets: Sequence[Path]) -> Iterator[None]:
    """Write down that a job has begun: until `forget` is called, its outputs are not those of the whole.

    Where it is stopped or killed, or its source breaks off, a later run with `resume` begins anew then instead of
    taking them for finished. Wrong input, of which nothing was made, leaves no note. With `resume` checkpoints say it.
    """
    if job.resume:
        yield
        return
    _note(job, source)
    _record(job, targets).remove()
    try:
        yield
    except BrokenSourceError:
        raise
    except (ParameterError, SourceError):
        forget(job, source)
        raise


def finish(job: Job, checkpoints: Checkpoints, targets: Sequence[Path]) -> None:
    """Write down what a job with `resume` has made, then remove its checkpoint; OutputError where that fails."""
    _record(job, targets).write(checkpoints.start.identity)
    checkpoints.remove()


def _record(job: Job, targets: Sequence[Path]) -> Record:
    return Record(job.output / FOLDER, job.output, targets)


def _note(job: Job, source: FrameSource) -> None:
    """Write the note, where no checkpoint says as much; that it cannot be written does not stop the job."""
    path = job.output / FOLDER / FILE
    if path.exists() or not (job.save or job.event_formats):
        return
    try:
        Checkpoints(path, _beginning(job, source)).begin()
    except (OutputError, SourceError) as error:
        logger.warning("%s; a run with --resume would take the outputs for finished", error)


def forget(job: Job, source: FrameSource) -> None:
    """Remove what `noted` wrote of the same job, whose outputs are whole by now."""
    path = job.output / FOLDER / FILE
    if not path.exists():
        return
    with suppress(SourceError):  # what cannot be read is left to the run that wants to go on from there
        before = Checkpoint.read(path)
        if not before.frames and not _difference(path, before, _beginning(job, source)):
            Checkpoints(path, before).remove()


def _beginning(job: Job, source: FrameSource) -> Checkpoint:
    """Return the checkpoint before the first frame of a job."""
    if len(source.paths) > 1:
        state = InputState.of_row(source.paths)
    elif source.path is None:
        state = InputState(source.name)
    else:
        state = InputState.of(source.path, job.source if isinstance(job.source, str) else None)
    return Checkpoint(JobIdentity.of(job, state).as_dict(), started=datetime.now().isoformat())


def _difference(path: Path, old: Checkpoint, new: Checkpoint) -> str:
    """Return how the job of a checkpoint differs from the one that is to go on; empty if it is the same."""
    if old.version != new.version:
        return f"by bgsub {old.version}, this is {new.version}"
    try:
        before = JobIdentity.from_dict(old.identity)
    except (TypeError, KeyError) as error:
        raise SourceError(f"the checkpoint '{path}' is damaged: {error}; {ANEW}") from None
    return JobIdentity.from_dict(new.identity).difference(before)
