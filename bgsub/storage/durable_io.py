"""Files that appear whole or not at all and survive a power cut, and the temporary names under which they grow."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from bgsub.errors import OutputError, SinkError

DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of the disk, which another input would not avoid."""

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
def as_sink_error(path: Path, kind: type[SinkError] = SinkError) -> Iterator[None]:
    """Turn an OSError of the block into one line of `kind` that names `path`; a disk failure into an `OutputError`."""
    try:
        yield
    except SinkError:
        raise
    except OSError as error:
        kind = OutputError if error.errno in DISK_FAILURES else kind
        raise kind(f"'{path}' cannot be written: {error.strerror or error}") from None


# -- names and whole files --------------------------------------------------------------------------------------------


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
    """Yield a temporary name, by default `partial_name`, and rename it to `path` if the block succeeds.

    After a power cut, `path` is the old or the new file, whole; after the block it is the new one. With `durable`
    False, files may be lost or empty after a power cut until they are synced.
    """
    partial = partial or partial_name(path)
    unlink(partial)  # a symbolic link there would lead to another file
    try:
        yield partial
        (rename if durable else os.replace)(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def write_whole(path: Path, content: bytes, kind: type[SinkError] = SinkError, *, durable: bool = True) -> None:
    """Write a file whole or not at all; raise `kind` where that fails. For `durable` see `replacing`."""
    with as_sink_error(path, kind), replacing(path, durable=durable) as partial:
        partial.write_bytes(content)


# -- syncing ----------------------------------------------------------------------------------------------------------


def sync_file(path: Path) -> None:
    """Write the content of a file to the disk; raise OSError on failure."""
    _sync(path, os.O_RDWR)


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
            _sync(folder, os.O_RDONLY)
        except OSError as error:
            if error.errno not in _CANNOT_SYNC:
                raise


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


def _sync(path: Path, flags: int) -> None:
    file = os.open(path, flags)
    try:
        os.fsync(file)
    finally:
        os.close(file)
