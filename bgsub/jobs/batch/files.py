"""The files of a batch: its manifest and lock, its sources, and the folders of their results."""

import csv
import errno
import glob
import io
import json
import os
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, fields
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, Self

from bgsub.errors import OutputError, SinkError, SourceError, logger
from bgsub.events.tables import csv_cell
from bgsub.jobs.checkpoints import saved_frames
from bgsub.jobs.job_state import InputState, images_in
from bgsub.storage.durable_io import GrowingFile, as_sink_error, make_folder, os_errors_as, sync_folder, write_whole
from bgsub.storage.file_lock import hold
from bgsub.video.sources.images import is_image, natural_key, pages_of

_LINES, _TABLE = "manifest.jsonl", "manifest.csv"
_LOCKED = ".locked"
OWN_FILES = (_LINES, _TABLE, _LOCKED)  # names in the folder of a batch that no source may have

_COLUMNS = ("source", "state", "output", "frames", "width", "height", "foreground", "seconds", "attempts", "worker")


@dataclass(frozen=True)
class Entry:
    """How one source ended.

    Attributes
    ----------
    source : InputState
        What was read.
    options : str
        Fingerprint of the options.
    output : str
        Folder of the results, relative to that of the batch.
    state : {"done", "failed"}
        Whether the results are there.
    attempts : int
        How often it was begun.
    seconds : float
        Duration of the last attempt.
    worker : str
        Host and process of the last attempt.
    result : dict
        `JobResult.as_dict`, when done; paths of outputs are relative to `output`.
    error : str
        One line, when failed.
    """

    source: InputState
    options: str
    output: str
    state: str
    attempts: int = 1
    seconds: float = 0.0
    worker: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the entry that `asdict` described; TypeError or KeyError for anything else."""
        known = {key: values[key] for key in values.keys() & {item.name for item in fields(cls)}}
        return cls(**{**known, "source": InputState(**known["source"])})


class Manifest(AbstractContextManager["Manifest"]):
    """The last entry of each source by its path, in ``manifest.jsonl``; a line is on the disk when `append` returns."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _LINES
        self.entries: dict[str, Entry] = {}
        self._file = GrowingFile(self.path, self.path)
        with as_sink_error(self.path):
            make_folder(folder)
            self.path.touch()
            lines = self.path.read_bytes().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            logger.warning("the last line of '%s' is torn and left out", self.path)
            lines.pop()
        self._size = sum(map(len, lines))
        self._file.cut(self._size)
        for number, line in enumerate(lines, 1):
            try:
                entry = Entry.from_dict(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError):
                logger.warning("line %d of '%s' is no entry and left out", number, self.path)
            else:
                self.entries[entry.source.path] = entry

    def append(self, entry: Entry) -> None:
        """Add an entry; OutputError if it cannot be written."""
        try:
            self._file.append(json.dumps(asdict(entry), separators=(",", ":")) + "\n")
            self._size = self._file.sync()
        except SinkError as error:
            with suppress(SinkError):
                self._file.cut(self._size)
            raise OutputError(str(error)) from None
        self.entries[entry.source.path] = entry

    def write_csv(self) -> None:
        """Write ``manifest.csv`` for spreadsheets; OutputError if it cannot be written."""
        text = io.StringIO()
        writer = csv.DictWriter(text, [*_COLUMNS, "error"], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for path, entry in self.entries.items():
            row = {**entry.result, **asdict(entry), "source": path}
            writer.writerow({name: csv_cell(row[name]) if isinstance(row[name], str) else row[name] for name in row})
        write_whole(self.path.with_name(_TABLE), text.getvalue().encode(), OutputError)

    def __exit__(self, *_error: object) -> None:
        self._file.close()


def hold_folder(folder: Path) -> AbstractContextManager[None]:
    """Hold the folder of a batch, created if missing; SinkError if another batch works in it."""
    return hold(folder / _LOCKED, f"another batch works in '{folder}'")


RECORD = "result.json"  # file in every finished output folder, with the identity and the result of its job

VIDEO_SUFFIXES = frozenset(
    {".3gp", ".asf", ".avi", ".flv", ".gif", ".h264", ".h265", ".hevc", ".m2ts", ".m4v", ".mjpeg", ".mjpg", ".mkv"}
    | {".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".mxf", ".ogv", ".rm", ".ts", ".vob", ".webm", ".wmv", ".y4m"}
)


Inputs = Mapping[Path, InputState]  # the states of the sources of a batch by their absolute paths


def find_inputs(patterns: Sequence[str | os.PathLike[str]]) -> Inputs:
    """Return the sources of patterns, see `run_batch`, in natural order, each once; SourceError without a match."""
    paths = {Path(os.path.abspath(path)) for pattern in patterns for path in _expand(os.fspath(pattern))}
    found: dict[str, Path] = {}
    # A file before its links: the folder of the results is named after it.
    for path in sorted(paths, key=lambda path: (os.path.realpath(path) != str(path), natural_key(path))):
        found.setdefault(os.path.realpath(path), path)
    if not found:
        raise SourceError("a batch takes files, folders or patterns, got none")
    return {path: InputState.of(path) for path in sorted(found.values(), key=natural_key)}


def _expand(pattern: str) -> Iterator[Path]:
    with os_errors_as(SourceError, f"'{pattern}' cannot be read"):
        names = _lines(pattern[1:]) if pattern.startswith("@") else [pattern]
    for name in names:
        with os_errors_as(SourceError, f"'{name}' cannot be read"):
            yield from _found(name)


def _found(pattern: str) -> list[Path]:
    path = Path(pattern)
    if "://" in pattern:
        raise SourceError(f"a batch takes files and folders, got the address '{pattern}'")
    if path.is_dir():
        return _in_folder(path)
    if path.is_file():
        return [_readable_video(path)]
    if glob.has_magic(pattern):
        return _matches(pattern)
    raise SourceError(f"no such file or folder: '{pattern}'")


def _lines(name: str) -> list[str]:
    lines = [line.strip() for line in Path(name).read_text("utf-8-sig", "surrogateescape").splitlines()]
    if not any(lines):
        raise SourceError(f"list '{name}' is empty")
    return [line for line in lines if line]


def _in_folder(folder: Path) -> list[Path]:
    if images_in(folder):
        return [folder]
    videos = [path for path in folder.iterdir() if _is_video(path)]
    if not videos:
        below = f"{glob.escape(str(folder))}/**"
        raise SourceError(
            f"no images and no videos in folder '{folder}' itself; the pattern '{below}' takes those below"
        )
    return videos


def _matches(pattern: str) -> list[Path]:
    ending = Path(pattern).suffix.lower()
    named = bool(ending) and not glob.has_magic(ending)  # as in "*.raw": any ending is accepted if it is explicit
    matched = [Path(name) for name in glob.glob(pattern, recursive=True)]
    files = [path for path in matched if path.is_file()]
    images = [path for path in files if _is_still(path)]
    sources = [path for path in files if path not in set(images) and (named or _is_video(path))]
    sources += [path for path in matched if path.is_dir() and _has_images(path)]
    sources = [path for path in sources if not _is_result(path)]
    if not sources and images:
        raise SourceError(f"'{pattern}' matches only single images; a folder of images is one source, name the folder")
    if not sources:
        raise SourceError(f"no video and no folder of images matches '{pattern}'")
    return sources


def _is_video(path: Path) -> bool:
    return path.suffix.lower() in VIDEO_SUFFIXES and not path.name.startswith(".") and path.is_file()


def _is_still(path: Path) -> bool:
    return is_image(path) and path.suffix.lower() not in VIDEO_SUFFIXES and pages_of(path) == 1


def _has_images(folder: Path) -> bool:
    """Return whether a folder has images; log a warning if it cannot be read."""
    try:
        return bool(images_in(folder))
    except OSError as error:
        logger.warning("folder '%s' cannot be read and is left out: %s", folder, error.strerror or error)
        return False


def _readable_video(path: Path) -> Path:
    """Check a file that was named explicitly; one that a pattern matches fails later, alone."""
    if _is_still(path):
        raise SourceError(f"'{path}' is a single image; a folder of images is one source, name the folder")
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return path


def _is_result(path: Path) -> bool:
    """Return whether a path is in the results of a batch, which a pattern such as ``**`` matches as well."""
    folders = [path, *path.absolute().parents]
    return any((folder / RECORD).is_file() or ".attempt-" in folder.name for folder in folders)


_LEFTOVER = re.compile(r"\.(.+)\.(attempt|old)-[0-9a-f]{32}")


def assign_targets(inputs: Inputs, known: Mapping[str, str]) -> dict[str, str]:
    """Return a separate output folder, relative with "/", for each source by `InputState.path`; keep `known` ones."""
    wishes = _preferred_names(inputs)  # compared in lower case, because some file systems ignore the case
    stems = Counter(stem.casefold() for stem, _name in wishes.values())
    above = {parent for stem, _name in wishes.values() for parent in _parents(stem)}
    taken = {name.casefold() for name in OWN_FILES} | {target.casefold() for target in known.values()}
    result = {path: known[path] for path in wishes if path in known}

    def is_free(target: str) -> bool:
        key = target.casefold()
        inside = any(other.startswith(f"{key}/") for other in taken)
        return not (key in taken or key in above or inside or _parents(target) & taken)

    for path, (stem, name) in wishes.items():
        if path in result:
            continue
        candidates = [stem] if stems[stem.casefold()] == 1 else []
        numbered = next(text for n in count(2) if is_free(text := f"{name}-{n}"))
        result[path] = next(filter(is_free, (*candidates, name)), numbered)
        taken.add(result[path].casefold())
    return result


def _preferred_names(inputs: Inputs) -> dict[str, tuple[str, str]]:
    """Return for each source its folder without and with the ending."""
    try:
        common = Path(os.path.commonpath([path.parent for path in inputs]))
    except ValueError:  # several drives
        common = None
    result = {}
    for path, state in inputs.items():
        name = path.relative_to(common) if common else Path(path.name)
        stem = name.stem if not path.is_dir() else name.name
        short = name.with_name(stem) if stem.strip(". ") else name
        result[state.path] = (short.as_posix(), name.as_posix())
    return result


def _parents(target: str) -> set[str]:
    return {str(parent).casefold() for parent in PurePosixPath(target).parents} - {"."}


def new_attempt(target: Path) -> Path:
    """Return the folder of a new attempt, beside the final one; it is not made yet."""
    return target.with_name(f".{target.name}.attempt-{uuid.uuid4().hex}")


def unfinished(target: Path) -> Path | None:
    """Return the attempt folder with the latest checkpoint; None without any."""
    attempts = [path for path, kind in _leftovers(target.parent, {target.name}) if kind == "attempt"]
    frames = {path: saved_frames(path) for path in attempts if not path.is_symlink()}
    best = max(frames, key=lambda path: (frames[path], path), default=None)
    return best if best is not None and frames[best] else None


def as_published(text: str, target: Path) -> str:
    """Return a message with the final folder in place of the attempt's."""
    return re.sub(re.escape(f".{target.name}.attempt-") + "[0-9a-f]{32}", lambda _: target.name, text)


def remove_leftovers(targets: Iterable[Path], keep: bool = False) -> int:
    """Remove the folders of dead attempts, with `keep` only those without a checkpoint; return how many there were."""
    names: dict[Path, set[str]] = {}
    for target in targets:
        names.setdefault(target.parent, set()).add(target.name)
    dead = [item for folder, known in names.items() for item in _leftovers(folder, known)]
    dead = [(path, kind) for path, kind in dead if not (keep and kind == "attempt" and saved_frames(path))]
    for path, _kind in dead:
        shutil.rmtree(path, ignore_errors=True)
    return sum(kind == "attempt" for _path, kind in dead)


def _leftovers(folder: Path, names: set[str]) -> Iterator[tuple[Path, str]]:
    try:
        found = [(path, _LEFTOVER.fullmatch(path.name)) for path in folder.iterdir()]
    except OSError:
        return
    yield from ((path, match[2]) for path, match in found if match and match[1] in names)


def publish(attempt: Path, target: Path) -> None:
    """Give the folder of an attempt its final name, in place of an earlier result; SinkError for any other folder."""
    check_own(target)
    old = target.with_name(f".{target.name}.old-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):
        os.rename(target, old)
    os.rename(attempt, target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def check_own(target: Path) -> None:
    """Raise SinkError if the target is there and no result of a batch."""
    if target.is_dir() and ((target / RECORD).is_file() or not any(target.iterdir())):
        return
    if os.path.lexists(target):
        raise SinkError(f"'{target}' is in the way and no result of a batch; move it, or choose another folder")


def read_record(target: Path) -> dict[str, Any]:
    """Return the record of a finished folder; an empty one if it cannot be read."""
    with suppress(OSError, ValueError):
        record = json.loads((target / RECORD).read_text(encoding="utf-8"))
        return record if isinstance(record, dict) else {}
    return {}
