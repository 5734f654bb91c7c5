"""File locks, which the operating system releases when a process dies."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import filelock

from bgsub.errors import SinkError, logger
from bgsub.storage.durable_io import folder_error, make_folder

_LOCK = ".bgsub.lock"  # ending of the names of lock files

_PATIENCE = 0.1  # seconds: a run that has just released the lock removes its file
_ATTEMPTS = 5
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextmanager
def hold(path: Path, refusal: str, patience: float = _PATIENCE) -> Iterator[None]:
    """Keep a file locked, without locks of the system with a warning; SinkError with `refusal` if another has it."""
    missing = [folder for folder in path.parents if not folder.exists()]
    # Any thread may end the block. A soft lock would survive a process that dies.
    lock = filelock.FileLock(path, timeout=patience, thread_local=False, fallback_to_soft=False)
    try:
        _acquire(lock)
    except filelock.Timeout:
        raise SinkError(refusal) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise folder_error(path.parent, error) from None
        _warn(path.parent)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows cannot remove an open file; the library does on release
            path.unlink()
        lock.release()
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()


@cache
def _warn(folder: Path) -> None:
    logger.warning("the file system of '%s' has no locks: another run there would not be detected", folder)


def _acquire(lock: filelock.BaseFileLock) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            make_folder(Path(lock.lock_file).parent)
            lock.acquire()
            return
        except (FileNotFoundError, FileExistsError):  # another run was removing the folder
            if attempt == _ATTEMPTS - 1:
                raise


def check_links(target: Path, results: Path) -> None:
    """Raise SinkError if links inside a folder of results lead a target out of it, or to a folder of another user."""
    folder, top = (Path(os.path.abspath(path)) for path in (target if target.is_dir() else target.parent, results))
    real, inside = Path(os.path.realpath(folder)), Path(os.path.realpath(top))
    if not folder.is_relative_to(top) or real == inside / folder.relative_to(top):
        return
    if not real.is_relative_to(inside):
        raise SinkError(f"'{folder}' is a symbolic link to '{real}'; links must stay inside the results folder")
    if os.name == "posix" and real.exists() and real.stat().st_uid != os.geteuid():
        raise SinkError(f"'{folder}' is a symbolic link to '{real}', which belongs to another user")


class Claims(ExitStack):
    """Locks outputs against other runs until the end of the block; links in `results`, if given, must stay inside."""

    def __init__(self, results: Path | None = None) -> None:
        super().__init__()
        self._results = results
        self._targets: set[Path] = set()
        self._folders: set[Path] = set()

    def take(self, target: Path, refusal: str | None = None) -> None:
        """Lock an output, once; raise SinkError if another run has it, or as `check_links`."""
        if target not in self._targets:
            if self._results is not None:
                check_links(target, self._results)
            refusal = refusal or f"the output '{target}' is being written by another run"
            self.enter_context(hold(target.with_name(f".{target.name}{_LOCK}"), refusal))
            self._targets.add(target)
            if target.parent not in self._folders:
                self._folders.add(target.parent)
                for path in target.parent.glob(f".*{_LOCK}"):
                    with suppress(SinkError), hold(path, "", patience=0.0):
                        logger.debug("removing the lock '%s' of a killed run", path)
