"""Going on with a job that was interrupted: what it was, where it stands, and whether it is the same one."""

from __future__ import annotations

import dataclasses
import json
import logging
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bgsub.errors import OutputError, ParameterError, SinkError, SourceError
from bgsub.storage.file_lock import hold
from bgsub.video.regions import parse_region

if TYPE_CHECKING:
    from bgsub.jobs.checkpoints import Checkpoint, Checkpoints
    from bgsub.jobs.job import Job
    from bgsub.subtractor import BackgroundSubtractor
    from bgsub.video.sinks.base import Sink
    from bgsub.video.sources.base import FrameSource

logger = logging.getLogger("bgsub")

FOLDER, FILE = ".resume", "state"
_ANEW = "--overwrite starts anew"

# They say how a job is run, not what it makes.
_HOW = {"source", "output", "parameters", "resume", "overwrite", "checkpoint_seconds"}

MakeSinks = Callable[[bool, datetime], "list[Sink]"]


class Resumption(NamedTuple):
    """A job ready to be begun or gone on with.

    Attributes
    ----------
    subtractor : BackgroundSubtractor
        The new one, or the one of the checkpoint.
    sinks : list of Sink
        As they were at the checkpoint.
    checkpoints : Checkpoints or None
        For the pipeline; None when all outputs are there already and no checkpoint is: nothing is left to do.
    """

    subtractor: BackgroundSubtractor
    sinks: list[Sink]
    checkpoints: Checkpoints | None


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
    from bgsub.jobs.checkpoints import Checkpoint, Checkpoints  # noqa: PLC0415 - they bring NumPy along

    if source.live:
        raise ParameterError(f"a run over {source.name} cannot be resumed: the source is live, no frame comes again")
    path = job.output / FOLDER / FILE
    new = Checkpoint(identity(job, source, subtractor), started=datetime.now().isoformat())
    if job.overwrite:
        Checkpoints(path, new).remove()
    if not path.exists():
        return _begin(job, path, new, subtractor, make_sinks)
    try:
        start = Checkpoint.read(path)
    except SourceError as error:
        raise SourceError(f"{error}; {_ANEW}") from None
    if difference := _difference(start, new):
        raise ParameterError(f"the checkpoint in '{path.parent}' was made {difference}; {_ANEW}")
    return _go_on(job, path, start, subtractor, make_sinks)


def alone(job: Job) -> AbstractContextManager[None]:
    """Keep other runs with `resume` out of the output folder as long as the block takes; SinkError if one is there."""
    return hold(job.output / FOLDER / "lock", f"another run with --resume works in '{job.output}'")


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
        targets = [target for sink in sinks for target in targets_of(sink)]
        missing = [target for target in (*targets, job.save_model) if target is not None and not _is_there(target)]
        if not missing:
            return Resumption(subtractor, sinks, None)
        raise SinkError(
            f"in '{job.output}' are outputs already, but not '{missing[0]}' and no checkpoint to go on from; {_ANEW}"
        ) from None
    checkpoints, sinks = _checkpoints(job, path, start, subtractor, sinks)
    # From now on outputs that are there do not mean that nothing is left to do.
    checkpoints.begin()
    return Resumption(subtractor, sinks, checkpoints)


def _go_on(
    job: Job, path: Path, start: Checkpoint, subtractor: BackgroundSubtractor, make_sinks: MakeSinks
) -> Resumption:
    from bgsub.subtractor import BackgroundSubtractor  # noqa: PLC0415

    model, start = start.model, dataclasses.replace(start, model=None)
    try:
        current = subtractor if model is None else BackgroundSubtractor.from_snapshot(*model)
    except ParameterError as error:
        raise SourceError(f"the checkpoint '{path}' is damaged: {error}; {_ANEW}") from None
    sinks = make_sinks(True, datetime.fromisoformat(start.started))
    try:
        checkpoints, ready = _checkpoints(job, path, start, current, sinks)
    except SinkError as error:
        if not start.frames:
            raise
        logger.warning("%s; starting anew", error)
        new = dataclasses.replace(start, frames=0, index=-1, skipped=0, sinks=None, progress=None)
        return _begin(dataclasses.replace(job, overwrite=True), path, new, subtractor, make_sinks)
    if start.frames:
        logger.info("going on after frame %d", start.frames)
    return Resumption(current, ready, checkpoints)


def _checkpoints(
    job: Job, path: Path, start: Checkpoint, subtractor: BackgroundSubtractor, sinks: list[Sink]
) -> tuple[Checkpoints, list[Sink]]:
    """Return the checkpoints of a run, and the sinks ready to go on; all of them are aborted when one cannot."""
    from bgsub.jobs.checkpoints import Checkpoints  # noqa: PLC0415

    # The pipeline may have something around this subtractor, such as regions of interest.
    freeze = lambda _around: subtractor.snapshot()  # noqa: E731
    checkpoints = Checkpoints(path, start, seconds=job.checkpoint_seconds, freeze=freeze)
    # A kill while the outputs were being finished leaves some of them finished, and newer than the run.
    begun = datetime.fromisoformat(start.started).timestamp()
    try:
        ready = checkpoints.resume(sinks, lambda sink: all(_is_newer(target, begun) for target in targets_of(sink)))
    except BaseException:
        for sink in sinks:
            sink.abort()
        raise
    return checkpoints, ready


def targets_of(sink: Sink) -> list[Path]:
    """Return the files, or the folder, that a sink makes; nothing if it makes none."""
    paths: list[Path] | None = getattr(sink, "paths", None)
    target: Path | None = getattr(sink, "path", None) or getattr(sink, "folder", None)
    return list(paths) if paths else [] if target is None else [target]


def _is_newer(target: Path, begun: float) -> bool:
    return target.is_file() and target.stat().st_mtime >= begun


def _is_there(target: Path) -> bool:
    return any(target.iterdir()) if target.is_dir() else target.exists()


def note_interruption(job: Job, source: FrameSource, subtractor: BackgroundSubtractor) -> None:
    """Write down that a job without `resume` was stopped early: its outputs are shorter than those of the whole.

    A later run with `resume` then begins anew instead of taking them for finished. A checkpoint that is there says
    as much, and stays; that the note cannot be written does not make the finished outputs a failure.
    """
    from bgsub.jobs.checkpoints import Checkpoint, Checkpoints  # noqa: PLC0415

    path = job.output / FOLDER / FILE
    if path.exists():
        return
    try:
        start = Checkpoint(identity(job, source, subtractor), started=datetime.now().isoformat())
        Checkpoints(path, start).begin()
    except (OutputError, SourceError) as error:
        logger.warning("%s; a run with --resume would take the outputs for finished", error)


def forget_interruption(job: Job, source: FrameSource, subtractor: BackgroundSubtractor) -> None:
    """Remove what `note_interruption` wrote of the same job, whose outputs are whole by now."""
    from bgsub.jobs.checkpoints import Checkpoint, Checkpoints  # noqa: PLC0415

    path = job.output / FOLDER / FILE
    if not path.exists():
        return
    with suppress(SourceError):  # what cannot be read is left to the run that wants to go on from there
        noted = Checkpoint.read(path)
        if not noted.frames and _difference(noted, Checkpoint(identity(job, source, subtractor))) is None:
            Checkpoints(path, noted).remove()


# -- whether it is the same job --------------------------------------------------------------------------------------


def identity(job: Job, source: FrameSource, subtractor: BackgroundSubtractor) -> dict[str, Any]:
    """Return what decides about the bytes of the outputs, in types that JSON knows: options, model and source."""
    options = {field.name: getattr(job, field.name) for field in dataclasses.fields(job) if field.name not in _HOW}
    found = {
        "options": {**options, **subtractor.get_params()},
        "model": None if job.model is None else _state_of(job.model),
        "roi": [_state_of(region.path) for region in map(parse_region, job.roi) if region.path],
        "source": {"name": source.name, **({} if source.path is None else _state_of(source.path))},
    }
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return plain


def _state_of(path: Path) -> dict[str, Any]:
    """Return size and time of change of a file; of a folder of images, number and a digest of those of all."""
    from bgsub.video.sources.images import is_image  # noqa: PLC0415

    try:
        if not path.is_dir():
            state = path.stat()
            return {"size": state.st_size, "changed": state.st_mtime_ns}
        images = sorted(image for image in path.iterdir() if is_image(image) and image.is_file())
        states = [(image.name, image.stat().st_size, image.stat().st_mtime_ns) for image in images]
    except OSError as error:
        raise SourceError(f"'{path}' cannot be read: {error.strerror or error}") from None
    return {"images": len(states), "digest": zlib.crc32(repr(states).encode())}


def _difference(old: Checkpoint, new: Checkpoint) -> str | None:
    """Return how the job of a checkpoint differs from the one that is to go on; None if it is the same."""
    if old.version != new.version:
        return f"by bgsub {old.version}, this is {new.version}"
    before, now = old.identity, new.identity
    if before["source"] != now["source"]:
        same = before["source"]["name"] == now["source"]["name"]
        return f"before {now['source']['name']} was changed" if same else f"from {before['source']['name']}"
    words = []
    for name in sorted({*before["options"], *now["options"]}):
        first, second = before["options"].get(name), now["options"].get(name)
        if first != second:
            words.append(f"--{name.replace('_', '-')} {_shown(first)}, now {_shown(second)}")
    for name in ("model", "roi"):
        if not words and before[name] != now[name]:
            words.append(f"another content of the file of --{name}")
    return f"by other options ({'; '.join(words)})" if words else None


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
