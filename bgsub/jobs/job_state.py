"""The state of a job on disk: what it is made of, whether its outputs are finished, and where it resumes.

``OUTPUT/.resume`` holds the checkpoint (``state``) of a job that has begun, and a record (``done-*.json``) of each set
of outputs that a job with `resume` has finished. A job without `resume` only writes the checkpoint before its first
frame, so that a later one with `resume` does not take its outputs for complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bgsub.errors import BrokenSourceError, OutputError, ParameterError, SinkError, SourceError
from bgsub.jobs.checkpoints import FILE, FOLDER, START_ANEW, Checkpoint, Checkpoints
from bgsub.jobs.job import Job
from bgsub.jobs.outputs import all_targets, targets_of
from bgsub.parameters import SubtractorParameters
from bgsub.storage.durable_io import remove_partials, unlink, write_whole
from bgsub.subtractor.subtractor import BackgroundSubtractor
from bgsub.video.regions import absolute_region, parse_region
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import FrameSource
from bgsub.video.sources.images import is_image

logger = logging.getLogger("bgsub")

# Fields that do not change the outputs, or that are compared in another way.
_OTHER_FIELDS = {"source", "output", "parameters", "resume", "overwrite", "checkpoint_seconds"}

Sizes = dict[str, list[int]]


@dataclass(frozen=True)
class InputState:
    """The state of an input: a changed input has another one."""

    path: str  # absolute, without links; the name of a source without a file
    size: int = 0  # bytes; of a folder, those of all its images
    mtime_ns: int = 0  # last change in nanoseconds; of a folder, that of its newest image
    images: int = 0  # of a folder, a checksum over names, sizes and times of its images

    @classmethod
    def of(cls, path: Path, name: str | os.PathLike[str] | None = None) -> InputState:
        """Return the state of a file or a folder of images, opened by a `name` such as ``in*.png``, or SourceError."""
        try:
            files = sorted(images_in(path)) if path.is_dir() else [path]
        except OSError as error:
            raise SourceError(f"'{path}' cannot be read: {error.strerror or error}") from None
        return cls._of(files, name or path, several=path.is_dir())

    @classmethod
    def of_row(cls, paths: Sequence[Path]) -> InputState:
        """Return the state of files in a row; SourceError if one cannot be found."""
        return cls._of(paths, f"{paths[0]} to {paths[-1].name}", several=True)

    @classmethod
    def _of(cls, files: Sequence[Path], name: str | os.PathLike[str], several: bool) -> InputState:
        try:
            states = [file.stat() for file in files]
        except OSError as error:
            raise SourceError(f"'{name}' cannot be read: {error.strerror or error}") from None
        sizes, times = [state.st_size for state in states], [state.st_mtime_ns for state in states]
        rows = [(file.name, *values) for file, *values in zip(files, sizes, times, strict=True)]
        checksum = zlib.crc32(repr(rows).encode("utf-8", "surrogatepass")) if several else 0
        return cls(os.path.realpath(name), sum(sizes), max(times, default=0), checksum)


def images_in(folder: Path) -> list[Path]:
    """Return the images of a folder, in no order; OSError if it cannot be read."""
    return [path for path in folder.iterdir() if is_image(path) and path.is_file()]


@dataclass(frozen=True)
class JobIdentity:
    """Everything that decides about the bytes of the outputs of a job, in types that JSON knows."""

    source: InputState
    # Fields of the job and parameters of the method, with defaults. Paths are absolute, or relative to the output
    # folder if they are inside.
    options: dict[str, Any]
    files: dict[str, Any]  # size and time of the files that options name, by option

    @classmethod
    def of(cls, job: Job, source: InputState) -> JobIdentity:
        """Return the identity of a job with a source in that state."""
        options = {
            field.name: relative_name(value, job.output) if isinstance(value, Path) else value
            for field in fields(job)
            if field.name not in _OTHER_FIELDS
            for value in [getattr(job, field.name)]
        }
        regions = {"roi": job.roi, "privacy": job.privacy}
        options |= {name: [absolute_region(text) for text in texts] for name, texts in regions.items()}
        options |= {name: len(getattr(job, name)) for name in ("on_event", "webhook")}  # they may have passwords
        options |= SubtractorParameters.of(job.parameters).as_dict()
        options["fps"] = [job.fps, job.parameters["fps"]] if "fps" in job.parameters else job.fps
        del options["on_change"]  # the frames of a source are alike
        paths = {name: [parse_region(text).path for text in texts] for name, texts in regions.items()}
        paths["model"] = [job.model]
        files = {name: [_file_state(path) for path in named if path is not None] for name, named in paths.items()}
        return cls(source, json.loads(json.dumps(options, default=str)), files)

    def as_dict(self) -> dict[str, Any]:
        """Return the identity in types that JSON knows."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> JobIdentity:
        """Return the identity that `as_dict` described; TypeError or KeyError for anything else."""
        if not isinstance(values["options"], dict) or not isinstance(values["files"], dict):
            raise TypeError("options and files are dicts")
        return cls(InputState(**values["source"]), values["options"], values["files"])

    @property
    def fingerprint(self) -> str:
        """A digest of the options, without the source."""
        text = json.dumps([self.options, self.files], sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]

    def difference(self, earlier: JobIdentity) -> str:
        """Return how something `earlier` was made, such as "before 'a.mp4' was changed"; empty if it is the same."""
        if earlier.source.path != self.source.path:
            return f"from '{earlier.source.path}'"
        if earlier.source != self.source:
            return f"before '{self.source.path}' was changed"
        changes = []
        for name in sorted({*earlier.options, *self.options}):
            before, now = earlier.options.get(name), self.options.get(name)
            if before != now:
                changes.append(f"--{name.replace('_', '-')} {_shown(before)}, now {_shown(now)}")
        contents = [name for name in self.files if earlier.files.get(name) != self.files[name]]
        changes = changes or [f"another content of the file of --{name}" for name in contents]
        return f"by other options ({'; '.join(changes)})" if changes else ""


def _file_state(path: Path) -> list[int] | None:
    try:
        state = path.stat()
    except OSError:  # the job reports it
        return None
    return [state.st_size, state.st_mtime_ns]


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def relative_name(path: Path, folder: Path) -> str:
    """Return the path relative to a folder that it is in, or else absolute."""
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else os.path.abspath(path)


def sizes_of(outputs: Iterable[Path], folder: Path) -> Sizes:
    """Return bytes and number of files of each output by its `relative_name`; OSError where one is missing."""
    found = {}
    for output in outputs:
        if output.is_dir():
            with os.scandir(output) as entries:
                sizes = [entry.stat().st_size for entry in entries if entry.is_file()]
        else:
            sizes = [output.stat().st_size]
        found[relative_name(output, folder)] = [sum(sizes), len(sizes)]
    return found


def change_since(sizes: Sizes, folder: Path) -> str:
    """Return which of the outputs has another size than noted in `sizes`; empty if none has."""

    def in_words(size: int, count: int) -> str:
        return f"{size} bytes" if count == 1 else f"{size} bytes in {count} files"

    for name, (size, count) in sizes.items():
        path = folder / name
        try:
            [[size_now, count_now]] = sizes_of([path], folder).values()
        except OSError as error:
            return f"'{path}' cannot be read: {error.strerror or error}"
        if (size_now, count_now) != (size, count):
            return f"'{path}' has {in_words(size_now, count_now)}, when it was finished {in_words(size, count)}"
    return ""


class _Record:
    """The record of finished outputs, a small file in a folder that other jobs may share."""

    def __init__(self, job: Job, targets: Sequence[Path]) -> None:
        self._names = {relative_name(target, job.output) for target in targets}
        digest = hashlib.sha256("\0".join(sorted(self._names)).encode("utf-8", "surrogateescape")).hexdigest()
        self.path = job.output / FOLDER / f"done-{digest[:12]}.json"
        self._output, self._targets = job.output, targets

    def write(self, identity: dict[str, Any]) -> None:
        """Write identity and sizes of the outputs; OutputError if that fails."""
        existing = [target for target in self._targets if target.exists()]
        record = {"identity": identity, "outputs": sizes_of(existing, self._output)}
        write_whole(self.path, json.dumps(record, indent=1).encode(), OutputError)

    def check(self, identity: JobIdentity) -> None:
        """Raise ParameterError or SinkError if the record shows other options, another source or changed outputs.

        The record of another set with some of the outputs counts as well. Without a record there is nothing to check.
        """
        for path in (self.path, *sorted(self.path.parent.glob("done-*.json"))):
            try:
                record = json.loads(path.read_bytes())
                if path != self.path and self._names.isdisjoint(record["outputs"]):
                    continue
                difference = identity.difference(JobIdentity.from_dict(record["identity"]))
                change = "" if difference else change_since(record["outputs"], self._output)
            except FileNotFoundError:
                continue
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                raise SinkError(f"'{path}' cannot be read: {error}; {START_ANEW}") from None
            if difference:
                raise ParameterError(f"the outputs in '{self._output}' were made {difference}; {START_ANEW}")
            if change:
                raise SinkError(f"{change}; {START_ANEW}")
            return


MakeSinks = Callable[[bool, datetime], list[Sink]]
Resumption = tuple[BackgroundSubtractor, list[Sink], Checkpoints | None]
"""Subtractor and sinks at the checkpoint, and the checkpoints; None if all outputs are finished already."""


def prepare(job: Job, source: FrameSource, subtractor: BackgroundSubtractor, make_sinks: MakeSinks) -> Resumption:
    """Return where a job with `resume` begins or continues; the source is opened and the subtractor new.

    `make_sinks` is called with whether outputs may be replaced and with the start of the (first) run.

    ParameterError if the source is live, or the checkpoint was made by other options or from another source;
    SourceError for a damaged checkpoint; SinkError if outputs are there already or cannot be continued.
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
        raise SourceError(f"{error}; {START_ANEW}") from None
    if difference := _difference(path, start, new):
        raise ParameterError(f"the checkpoint in '{path.parent}' was made {difference}; {START_ANEW}")
    return _continue(job, path, start, subtractor, make_sinks)


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
        missing = [target for target in targets if not _exists(target)]
        if not missing:
            _Record(job, targets).check(JobIdentity.from_dict(start.identity))
            return subtractor, sinks, None
        raise SinkError(
            f"in '{job.output}' are outputs already, but not '{missing[0]}' and no checkpoint to go on from; "
            f"{START_ANEW}"
        ) from None
    checkpoints, sinks = _resumed(job, path, start, sinks)
    checkpoints.begin()  # before the record goes: one of both must say whether the outputs are finished
    unlink(_Record(job, all_targets(sinks, job.save_model)).path)
    return subtractor, sinks, checkpoints


def _continue(
    job: Job, path: Path, start: Checkpoint, subtractor: BackgroundSubtractor, make_sinks: MakeSinks
) -> Resumption:
    model, start = start.model, replace(start, model=None)
    try:
        current = subtractor if model is None else BackgroundSubtractor.from_snapshot(*model)
    except ParameterError as error:
        raise SourceError(f"the checkpoint '{path}' is damaged: {error}; {START_ANEW}") from None
    sinks = make_sinks(True, datetime.fromisoformat(start.started))
    try:
        checkpoints, ready = _resumed(job, path, start, sinks)
    except SinkError as error:
        if not start.frames:
            raise
        logger.warning("%s; starting over", error)
        return _begin(replace(job, overwrite=True), path, start.beginning, subtractor, make_sinks)
    if start.frames:
        logger.info("going on after %d frames", start.frames)
    return current, ready, checkpoints


def _resumed(job: Job, path: Path, start: Checkpoint, sinks: list[Sink]) -> tuple[Checkpoints, list[Sink]]:
    """Return the checkpoints of a run and its sinks at the start; abort all sinks if one cannot continue."""
    checkpoints = Checkpoints(path, start, seconds=job.checkpoint_seconds)
    # A kill while the outputs were being finished leaves some of them finished, and newer than the run.
    begun = datetime.fromisoformat(start.started).timestamp()

    def is_finished(sink: Sink) -> bool:
        targets = targets_of(sink)
        finished = all(target.is_file() and target.stat().st_mtime >= begun for target in targets)
        for target in targets if finished else []:
            remove_partials(target)
        return finished

    try:
        return checkpoints, checkpoints.resume(sinks, is_finished)
    except BaseException:
        for sink in sinks:
            sink.abort()
        raise


def _exists(target: Path) -> bool:
    return any(target.iterdir()) if target.is_dir() else target.exists()


@contextlib.contextmanager
def marked_unfinished(job: Job, source: FrameSource, targets: Sequence[Path]) -> Iterator[None]:
    """Mark the outputs of a job without `resume` as unfinished until `clear_mark` is called.

    After a stop, a kill or a broken source, a later job with `resume` starts over instead of taking its outputs for
    finished. Wrong input, which makes no outputs, leaves no mark. With `resume` the checkpoint is the mark.
    """
    if job.resume:
        yield
        return
    path = job.output / FOLDER / FILE
    if not path.exists() and (job.save or job.event_formats):
        try:
            Checkpoints(path, _beginning(job, source)).begin()
        except (OutputError, SourceError) as error:
            logger.warning("%s; a run with --resume would take the outputs for finished", error)
    unlink(_Record(job, targets).path)
    try:
        yield
    except BrokenSourceError:
        raise
    except (ParameterError, SourceError):
        clear_mark(job, source)
        raise


def clear_mark(job: Job, source: FrameSource) -> None:
    """Remove the mark of `marked_unfinished` of the same job; the outputs are finished."""
    path = job.output / FOLDER / FILE
    if not path.exists():
        return
    with contextlib.suppress(SourceError):  # a damaged checkpoint is left to a run with `resume`
        before = Checkpoint.read(path)
        if not before.frames and not _difference(path, before, _beginning(job, source)):
            Checkpoints(path, before).remove()


def finish(job: Job, checkpoints: Checkpoints, targets: Sequence[Path]) -> None:
    """Write the record of a job with `resume`, then remove its checkpoint; OutputError if that fails."""
    _Record(job, targets).write(checkpoints.start.identity)
    checkpoints.remove()


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
    """Return how the job of a checkpoint differs from the present one; empty if it is the same."""
    if old.version != new.version:
        return f"by bgsub {old.version}, this is {new.version}"
    try:
        before = JobIdentity.from_dict(old.identity)
    except (TypeError, KeyError) as error:
        raise SourceError(f"the checkpoint '{path}' is damaged: {error}; {START_ANEW}") from None
    return JobIdentity.from_dict(new.identity).difference(before)
