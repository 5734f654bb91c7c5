"""Files that appear whole or not at all and survive a power cut, and files that grow and can be cut back."""

import errno
import io
import json
import os
import shutil
import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

from bgsub.errors import BgsubError, OutputError, SinkError, on_failure

AnyPath = str | os.PathLike[str]  # a path as users give it

#: Errors of the disk, which another input would not avoid.
DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

_SYNC_THREADS = 16  # files that are synced together cost the disk one write of its journal
# Errors of folders that are writable but not readable, and of file systems that cannot sync folders.
_CANNOT_SYNC = (errno.EACCES, errno.EINVAL, errno.ENOTSUP)


def folder_error(folder: Path, error: OSError) -> SinkError:
    """Return the error for a folder that cannot be written; it names a file that is in the way."""
    files = [place for place in (folder, *folder.parents) if place.is_file()]
    why = f"'{files[0]}' is a file, not a folder" if files else error.strerror or str(error)
    kind = OutputError if error.errno in DISK_FAILURES else SinkError
    return kind(f"cannot write into folder '{folder}': {why}")


@contextmanager
def os_errors_as(kind: type[BgsubError], what: str) -> Iterator[None]:
    """Turn an OSError of the block into the line ``WHAT: reason``; a disk failure of an output into `OutputError`."""
    try:
        yield
    except BgsubError:
        raise
    except OSError as error:
        if issubclass(kind, SinkError) and error.errno in DISK_FAILURES:
            kind = OutputError
        raise kind(f"{what}: {error.strerror or error}") from None


def as_sink_error(path: Path, kind: type[SinkError] = SinkError) -> AbstractContextManager[None]:
    """Turn an OSError of the block into one of `kind` that names `path`, see `os_errors_as`."""
    return os_errors_as(kind, f"'{path}' cannot be written")


def partial_name(path: Path) -> Path:
    """Return ``NAME.EXT.partial``, which other programs do not take for a file of its kind."""
    return path.with_name(f"{path.name}.partial")


def playable_name(path: Path) -> Path:
    """Return ``NAME.partial.EXT``, which keeps the file extension."""
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def remove_partials(path: Path) -> None:
    """Remove the temporary files of a finished file."""
    name = escape(path.name)
    for pattern in (f"{name}.partial", f"{name}.*.partial", f"{escape(playable_name(path).name)}*"):
        for partial in path.parent.glob(pattern):
            unlink(partial)


@contextmanager
def replacing(path: Path, partial: Path | None = None, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary name and rename it to `path` if the block succeeds; `durable` also syncs the file."""
    partial = partial or partial_name(path)
    unlink(partial)  # a symbolic link there would lead to another file
    with on_failure(lambda: unlink(partial)):
        yield partial
        (rename if durable else os.replace)(partial, path)


def write_whole(path: Path, content: bytes, kind: type[SinkError] = SinkError, *, durable: bool = True) -> None:
    """Write a file whole or not at all; raise `kind` where that fails. For `durable` see `replacing`."""
    with as_sink_error(path, kind), replacing(path, durable=durable) as partial:
        partial.write_bytes(content)


def sync_file(path: Path, flags: int = os.O_RDWR) -> None:
    """Write the content of a file to the disk; raise OSError on failure."""
    file = os.open(path, flags)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_files(paths: Iterable[Path]) -> None:
    """Sync many files in parallel, without their names (see `sync_folder`); skip missing ones."""
    paths = list(paths)

    def sync(path: Path) -> None:
        with suppress(FileNotFoundError):
            sync_file(path)

    if paths:
        with ThreadPoolExecutor(_SYNC_THREADS, "bgsub-sync") as pool:
            list(pool.map(sync, paths))


def sync_folder(folder: Path) -> None:
    """Write the names in a folder, renames included, to the disk; Windows cannot and need not."""
    if os.name == "posix":
        try:
            sync_file(folder, os.O_RDONLY)
        except OSError as error:
            if error.errno not in _CANNOT_SYNC:
                raise


def sync_written(folder: Path, files: list[Path]) -> None:
    """Sync files that were written into a folder, and their names; forget them. SinkError if that fails."""
    paths, files[:] = files[:], []
    with as_sink_error(folder):
        sync_files(paths)
        sync_folder(folder)


def sync_tree(folder: Path) -> None:
    """Sync all files and folders below a folder."""
    for place, _folders, names in os.walk(folder):
        sync_files(Path(place, name) for name in names)
        sync_folder(Path(place))


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, and sync their names; raise OSError as `Path.mkdir`."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        sync_folder(place.parent)


def rename(file: Path, path: Path) -> None:
    """Sync a finished file and rename it, so that `path` is the whole old or the whole new file at any time."""
    sync_file(file)
    os.replace(file, path)
    sync_folder(path.parent)


def unlink(path: Path) -> None:
    """Remove a file if that is possible, and sync its folder."""
    with suppress(OSError):
        path.unlink()
        sync_folder(path.parent)


_SIZES = struct.Struct("<II")


class GrowingFile:
    """Appends bytes or UTF-8 text without buffering, by default to ``NAME.partial``; SinkError if that fails."""

    def __init__(self, target: Path, path: Path | None = None) -> None:
        self.path = path or partial_name(target)
        self._target = target
        self._file: io.FileIO | None = None
        self._kept = False  # a checkpoint refers to it

    def append(self, data: bytes | str) -> None:
        """Write at the end."""
        rest = memoryview(data.encode() if isinstance(data, str) else data)
        with as_sink_error(self._target):
            file = self._opened()
            while rest:  # a full disk accepts a part and refuses the next
                rest = rest[file.write(rest) :]

    @property
    def size(self) -> int:
        """Number of bytes."""
        return 0 if self._file is None else self._file.tell()

    def sync(self) -> int:
        """Sync everything to the disk; return the size in bytes."""
        if self._file is None:
            return 0
        self._kept = True
        with as_sink_error(self._target):
            os.fsync(self._file.fileno())
            sync_folder(self.path.parent)
            return self.size

    def cut(self, size: int) -> None:
        """Continue after the first `size` bytes of the existing file and drop the rest."""
        self.close()
        with as_sink_error(self._target):
            with suppress(FileNotFoundError):
                if self.path.is_symlink():
                    raise SinkError(f"'{self._target}' cannot be continued: '{self.path}' is a symbolic link")
                self._file = self.path.open("r+b", buffering=0)  # "ab" would write at the end even after a cut
            there = 0 if self._file is None else self._file.seek(0, os.SEEK_END)
            if there < size:
                self.close()
                raise SinkError(
                    f"'{self._target}' cannot be continued: '{self.path}' must have at least {size} bytes, got {there}"
                )
            if self._file is not None:
                self._file.truncate(size)
                self._file.seek(size)

    def finish(self) -> None:
        """Give the file its final name."""
        with as_sink_error(self._target):
            file, self._file = self._opened(), None
            file.close()
            if not self._kept:
                rename(self.path, self._target)
                return
            with replacing(self._target, self.path.with_name(f"{self._target.name}.copy.partial")) as copy:
                shutil.copyfile(self.path, copy)

    def close(self) -> None:
        """Close the file, unfinished."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # an earlier call reported the error
                file.close()

    def remove(self) -> None:
        """Close the file, and delete it unless a checkpoint refers to it."""
        self.close()
        if not self._kept:
            unlink(self.path)

    def _opened(self) -> io.FileIO:
        if self._file is None:
            unlink(self.path)  # a symbolic link there would lead to another file
            self._file = self.path.open("wb", buffering=0)
        return self._file


class Journal(GrowingFile):
    """A sequence of records, each a JSON object and a block of bytes."""

    def add(self, facts: dict[str, Any], data: bytes) -> None:
        """Append a record."""
        head = json.dumps(facts, separators=(",", ":")).encode()
        self.append(_SIZES.pack(len(head), len(data)) + head + data)

    def records(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield all records."""
        with as_sink_error(self._target):
            content = io.BytesIO() if self._file is None else self.path.open("rb")
        with content as file:
            while head := file.read(_SIZES.size):
                if len(head) < _SIZES.size:
                    raise ValueError("the last record is incomplete")
                facts_size, data_size = _SIZES.unpack(head)
                yield json.loads(file.read(facts_size)), file.read(data_size)
