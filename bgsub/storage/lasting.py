"""Making files outlive a power cut: what is not synced may be lost, or be there with 0 bytes under its name."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

_AT_A_TIME = 16  # what is synced together costs the disk one write of its journal
# Said of a folder that may be written but not read, and by file systems that sync no folders.
_NOT_TO_BE_HAD = (errno.EACCES, errno.EINVAL, errno.ENOTSUP)


def sync_file(path: Path) -> None:
    """Have the content of a file on the disk before this returns; OSError when that cannot be done."""
    _sync(path, os.O_RDWR)


def sync_files(paths: Iterable[Path]) -> None:
    """Do what `sync_file` does for many files, some at a time; their names are left to `sync_folder`."""
    paths = list(paths)

    def sync(path: Path) -> None:
        with suppress(FileNotFoundError):  # somebody has taken it away by now
            sync_file(path)

    if paths:
        with ThreadPoolExecutor(_AT_A_TIME, "bgsub-sync") as pool:
            list(pool.map(sync, paths))


def sync_folder(folder: Path) -> None:
    """Have the names in a folder, renamings among them, on the disk; Windows can not and need not."""
    if os.name == "posix":
        try:
            _sync(folder, os.O_RDONLY)
        except OSError as error:
            if error.errno not in _NOT_TO_BE_HAD:
                raise


def sync_tree(folder: Path) -> None:
    """Have everything in a folder on the disk: files, names, and the folders in it."""
    for place, _folders, names in os.walk(folder):
        sync_files(Path(place, name) for name in names)
        sync_folder(Path(place))


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, where they are missing, so that their names last; OSError as `Path.mkdir`."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        sync_folder(place.parent)


def rename(file: Path, path: Path) -> None:
    """Give a finished file its name so that there is always one file under it, the old or the new one, and whole."""
    sync_file(file)
    os.replace(file, path)
    sync_folder(path.parent)


def unlink(path: Path) -> None:
    """Remove a file, if it is there and can be, and have that last."""
    with suppress(OSError):
        path.unlink()
        sync_folder(path.parent)


def _sync(path: Path, flags: int) -> None:
    file = os.open(path, flags)
    try:
        os.fsync(file)
    finally:
        os.close(file)
