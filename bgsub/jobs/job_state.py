"""The state of a job on disk: what it is made of, whether its outputs are finished, and where it resumes.

``OUTPUT/.resume`` has the checkpoint (``state``) of a job that has begun, and a record (``done-*.json``) of each set
of outputs that a job with `resume` has finished. A job without `resume` removes the record of its outputs.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from bgsub.errors import OutputError, ParameterError, SinkError, SourceError, logger
from bgsub.jobs.checkpoints import FILE, FOLDER, START_ANEW, Checkpoint, Checkpoints
from bgsub.jobs.job import Job
from bgsub.jobs.outputs import all_targets
from bgsub.parameters import SubtractorParameters
from bgsub.storage.durable_io import os_errors_as, unlink, write_whole
from bgsub.subtractor.opencv_names import in_our_words
from bgsub.subtractor.subtractor import BackgroundSubtractor
from bgsub.video.regions import absolute_region, parse_region
from bgsub.video.sinks.base import Sink, abort_on_error
from bgsub.video.sources.base import FrameSource
from bgsub.video.sources.images import is_image

# Fields that do not change the outputs, or that are compared in another way.
_OTHER_FIELDS = {"source", "output", "parameters", "insecure", "resume", "overwrite", "checkpoint_seconds"}

Sizes = dict[str, int]


@dataclass(frozen=True)
class InputState:
    """The state of an input: a changed input has another one."""

    path: str  # absolute, without links; the name of a source without a file
    size: int = 0  # bytes; of a folder, those of all its images
    mtime_ns: int = 0  # last change in nanoseconds; of a folder, that of its newest image
    images: int = 0  # of a folder, a checksum over names, sizes and times of its images

    @classmethod
    def of(cls, path: Path, *others: Path, name: str | None = None) -> Self:
        """Return the state of a file, of files in a row, or of a folder of images, opened by `name`; or SourceError."""
        name = name or (f"{path} to {others[-1].name}" if others else str(path))
        several = path.is_dir() or bool(others)
        with os_errors_as(SourceError, f"'{name}' cannot be read"):
            files = sorted(images_in(path)) if path.is_dir() else [path, *others]
            states = [file.stat() for file in files]
        sizes, times = [state.st_size for state in states], [state.st_mtime_ns for state in states]
        rows = [(file.name, *values) for file, *values in zip(files, sizes, times, strict=True)]
        checksum = zlib.crc32(repr(rows).encode("utf-8", "surrogatepass")) if several else 0
        return cls(os.path.realpath(name), sum(sizes), max(times, default=0), checksum)


def images_in(folder: Path) -> list[Path]:
    """Return the images of a folder, in no order; OSError if it cannot be read."""
    return [path for path in folder.iterdir() if is_image(path) and path.is_file()]


@dataclass(frozen=True)
class JobIdentity:
    """Everything that the bytes of the outputs of a job depend on, in JSON types."""

    source: InputState
    # Fields of the job and parameters of the method, with defaults. Paths are absolute, or relative to the output
    # folder if they are inside.
    options: dict[str, Any]
    files: dict[str, Any]  # size and time of the files that options name, by option

    @classmethod
    def of(cls, job: Job, source: InputState) -> Self:
        """Return the identity of a job with a source in that state."""
        options = {
            name: relative_name(value, job.output) if isinstance(value, Path) else value
            for name, value in vars(job).items()
            if name not in _OTHER_FIELDS
        }
        regions = {"roi": job.roi, "ignore": job.ignore, "privacy": job.privacy}
        options |= {name: [absolute_region(text) for text in texts] for name, texts in regions.items()}
        options |= {name: len(getattr(job, name)) for name in ("on_event", "webhook")}  # they may have passwords
        options |= SubtractorParameters.of(in_our_words((), job.parameters)).as_dict()
        options["fps"] = [job.fps, job.parameters["fps"]] if "fps" in job.parameters else job.fps
        for name in ("on_change", "threads"):  # the frames of a source are alike; results are the same with any number
            del options[name]
        paths = {name: [parse_region(text).path for text in texts] for name, texts in regions.items()}
        paths["model"] = [job.model]
        files = {name: [_file_state(path) for path in named if path is not None] for name, named in paths.items()}
        return cls(source, json.loads(json.dumps(options, default=str)), files)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the identity that `asdict` described; TypeError or KeyError for anything else."""
        if not isinstance(values["options"], dict) or not isinstance(values["files"], dict):
            raise TypeError("options and files are dicts")
        return cls(InputState(**values["source"]), values["options"], values["files"])

    @property
    def fingerprint(self) -> str:
        """A digest of the options, without the source."""
        text = json.dumps([self.options, self.files], sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]

    def difference(self, earlier: Self) -> str:
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
    """Return the bytes of each output by its `relative_name`; OSError where one is missing."""
    return {relative_name(output, folder): _size(output) for output in outputs}


def _size(output: Path) -> int:
    return sum(path.stat().st_size for path in (output.iterdir() if output.is_dir() else [output]))


def change_since(sizes: Sizes, folder: Path) -> str:
    """Return which of the outputs has another size than noted in `sizes`; empty if none has."""
    for name, size in sizes.items():
        path = folder / name
        try:
            if (now := _size(path)) != size:
                return f"'{path}' has {now} bytes, when it was finished {size} bytes"
        except OSError as error:
            return f"'{path}' cannot be read: {error.strerror or error}"
    return ""


def _record_path(job: Job, targets: Sequence[Path]) -> Path:
    """Return the file for the record of finished outputs; other jobs may share its folder."""
    names = sorted({relative_name(target, job.output) for target in targets})
    digest = hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()
    return job.output / FOLDER / f"done-{digest[:12]}.json"


def _check_record(job: Job, targets: Sequence[Path], identity: JobIdentity) -> None:
    """Raise ParameterError or SinkError unless a job with `resume` has finished the same outputs."""
    path = _record_path(job, targets)
    try:
        record = json.loads(path.read_bytes())
        difference = identity.difference(JobIdentity.from_dict(record["identity"]))
        change = "" if difference else change_since(record["outputs"], job.output)
    except FileNotFoundError:
        made = next((target for target in targets if target.exists()), job.output)
        change = f"'{made}' exists already, and with just these outputs no run with --resume has finished"
        difference = ""
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SinkError(f"'{path}' cannot be read: {error}; {START_ANEW}") from None
    if difference:
        raise ParameterError(f"the outputs in '{job.output}' were made {difference}; {START_ANEW}")
    if change:
        raise SinkError(f"{change}; {START_ANEW}")


def remove_record(job: Job, targets: Sequence[Path]) -> None:
    """Remove the record of outputs that are about to be replaced."""
    unlink(_record_path(job, targets))


MakeSinks = Callable[[bool, datetime], list[Sink]]
#: Subtractor and sinks at the checkpoint, and the checkpoints; None if all outputs are finished already.
Resumption = tuple[BackgroundSubtractor, list[Sink], Checkpoints | None]


def prepare(job: Job, source: FrameSource, subtractor: BackgroundSubtractor, make_sinks: MakeSinks) -> Resumption:
    """Return where a job with `resume` begins or continues; `make_sinks` takes whether to overwrite and the start."""
    if source.live:
        raise ParameterError(f"a run over {source.name} cannot be resumed: the source is live, no frame comes again")
    path = job.output / FOLDER / FILE
    if source.path is None and len(source.paths) < 2:
        state = InputState(source.name)
    else:
        state = InputState.of(*source.paths, name=job.source if isinstance(job.source, str) else None)
    identity = JobIdentity.of(job, state)
    new = Checkpoint(asdict(identity), started=datetime.now().isoformat())
    if job.overwrite or not path.exists():
        return _begin(job, new, subtractor, make_sinks)
    try:
        start = Checkpoint.read(path)
        difference = f"by bgsub {start.version}, this is {new.version}" if start.version != new.version else ""
        difference = difference or identity.difference(JobIdentity.from_dict(start.identity))
    except SourceError as error:
        raise SourceError(f"{error}; {START_ANEW}") from None
    except (TypeError, KeyError) as error:
        raise SourceError(f"the checkpoint '{path}' is damaged: {error}; {START_ANEW}") from None
    if difference:
        raise ParameterError(f"the checkpoint in '{path.parent}' was made {difference}; {START_ANEW}")
    return _continue(job, start, subtractor, make_sinks)


def _begin(job: Job, start: Checkpoint, subtractor: BackgroundSubtractor, make_sinks: MakeSinks) -> Resumption:
    started = datetime.fromisoformat(start.started)
    try:
        sinks = make_sinks(job.overwrite, started)
    except SinkError:
        sinks = make_sinks(True, started)
        for sink in sinks:
            sink.abort()
        _check_record(job, all_targets(sinks, job.save_model), JobIdentity.from_dict(start.identity))
        return subtractor, sinks, None
    checkpoints = _resumed(job, start, sinks)
    checkpoints.begin()
    remove_record(job, all_targets(sinks, job.save_model))
    return subtractor, sinks, checkpoints


def _continue(job: Job, start: Checkpoint, subtractor: BackgroundSubtractor, make_sinks: MakeSinks) -> Resumption:
    model, start = start.model, replace(start, model=None)
    try:
        current = subtractor if model is None else BackgroundSubtractor.from_snapshot(*model)
    except ParameterError as error:
        raise SourceError(f"the checkpoint '{job.output / FOLDER / FILE}' is damaged: {error}; {START_ANEW}") from None
    sinks = make_sinks(True, datetime.fromisoformat(start.started))
    try:
        checkpoints = _resumed(job, start, sinks)
    except SinkError as error:
        if not start.frames:
            raise
        logger.warning("%s; starting over", error)
        return _begin(replace(job, overwrite=True), start.beginning, subtractor, make_sinks)
    if start.frames:
        logger.info("going on after %d frames", start.frames)
    return current, sinks, checkpoints


def _resumed(job: Job, start: Checkpoint, sinks: list[Sink]) -> Checkpoints:
    """Return the checkpoints of a run whose sinks continue at the start; abort all sinks if one cannot continue."""
    checkpoints = Checkpoints(job.output / FOLDER / FILE, start, seconds=job.checkpoint_seconds)
    with abort_on_error(sinks):
        checkpoints.resume(sinks)
    return checkpoints


def finish(job: Job, checkpoints: Checkpoints, targets: Sequence[Path]) -> None:
    """Write the record of a job with `resume`, then remove what it would resume from; OutputError if that fails."""
    existing = [target for target in targets if target.exists()]
    record = {"identity": checkpoints.start.identity, "outputs": sizes_of(existing, job.output)}
    write_whole(_record_path(job, targets), json.dumps(record, indent=1).encode(), OutputError)
    checkpoints.remove()
