"""Whether two jobs are the same one: equal options and an unchanged input make equal outputs."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from bgsub.errors import SourceError
from bgsub.jobs.job import Job
from bgsub.parameters import SubtractorParameters
from bgsub.video.regions import absolute_region, parse_region
from bgsub.video.sources.images import is_image

# They say how a job is run, not what it makes.
_HOW = {"source", "output", "parameters", "resume", "overwrite", "checkpoint_seconds"}


@dataclass(frozen=True)
class InputState:
    """What tells one state of an input from another."""

    path: str  # absolute, without links; of what is no file, its name
    size: int = 0  # bytes; of a folder, those of all its images
    mtime_ns: int = 0  # last change in nanoseconds; of a folder, that of its newest image
    images: int = 0  # of a folder, a checksum over names, sizes and times of its images

    @classmethod
    def of(cls, path: Path, name: str | os.PathLike[str] | None = None) -> InputState:
        """Return the state of a file or a folder of images, which was opened by a `name` such as ``frames/in*.png``.

        Raises
        ------
        SourceError
            If it cannot be found, or the folder cannot be read.
        """
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
    """What decides about the bytes of the outputs of a job, in types that JSON knows."""

    source: InputState  # what is read
    # Fields of the job and parameters of the method, the defaults among them. Paths are absolute, or relative to the
    # output folder when they lie in it.
    options: dict[str, Any]
    files: dict[str, Any]  # size and time of change of the files that options name, by the option

    @classmethod
    def of(cls, job: Job, source: InputState) -> JobIdentity:
        """Return the identity of a job with a source in that state."""
        told = {field.name: _told(getattr(job, field.name), job.output) for field in fields(job)}
        options = {name: value for name, value in told.items() if name not in _HOW}
        regions = {"roi": job.roi, "privacy": job.privacy}
        options |= {name: [absolute_region(text) for text in texts] for name, texts in regions.items()}
        options |= {name: len(getattr(job, name)) for name in ("on_event", "webhook")}  # with passwords, perhaps
        options |= SubtractorParameters.of(job.parameters).as_dict()
        del options["on_change"]  # the frames of a source are alike
        paths = {name: [parse_region(text).path for text in texts] for name, texts in regions.items()}
        paths["model"] = [job.model]
        files = {name: [_state_of(path) for path in named if path is not None] for name, named in paths.items()}
        return cls(source, json.loads(json.dumps(options, default=str)), files)

    def as_dict(self) -> dict[str, Any]:
        """Return the identity in types that JSON knows."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> JobIdentity:
        """Return the identity that `as_dict` described; TypeError or KeyError where it is none."""
        if not isinstance(values["options"], dict) or not isinstance(values["files"], dict):
            raise TypeError("options and files are dicts")
        return cls(InputState(**values["source"]), values["options"], values["files"])

    @property
    def fingerprint(self) -> str:
        """What tells options apart, whatever the source."""
        text = json.dumps([self.options, self.files], sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]

    def difference(self, earlier: JobIdentity) -> str:
        """Return how something `earlier` was made, such as "before 'a.mp4' was changed"; empty if it is the same."""
        if earlier.source.path != self.source.path:
            return f"from '{earlier.source.path}'"
        if earlier.source != self.source:
            return f"before '{self.source.path}' was changed"
        words = []
        for name in sorted({*earlier.options, *self.options}):
            before, now = earlier.options.get(name), self.options.get(name)
            if before != now:
                words.append(f"--{name.replace('_', '-')} {_shown(before)}, now {_shown(now)}")
        contents = [name for name in self.files if earlier.files.get(name) != self.files[name]]
        words = words or [f"another content of the file of --{name}" for name in contents]
        return f"by other options ({'; '.join(words)})" if words else ""


def _told(value: Any, output: Path) -> Any:
    if not isinstance(value, Path):
        return value
    inside = value.is_relative_to(output)
    return value.relative_to(output).as_posix() if inside else os.path.abspath(value)


def _state_of(path: Path) -> list[int] | None:
    try:
        state = path.stat()
    except OSError:  # the job will say so
        return None
    return [state.st_size, state.st_mtime_ns]


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
