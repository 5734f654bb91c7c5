"""File locks, which the operating system releases when a process dies."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import filelock

from bgsub.errors import SinkError
from bgsub.storage.durable_io import folder_error, make_folder

logger = logging.getLogger("bgsub")

_LOCK = ".bgsub.lock"  # ending of the names of lock files

_PATIENCE = 0.1  # seconds: a run that has just released the lock removes its file
_ATTEMPTS = 5
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextmanager
def hold(path: Path, refusal: Callable[[], str], patience: float = _PATIENCE) -> Iterator[None]:
    """Keep a file locked, without locks of the system with a warning; SinkError with `refusal` if another has it."""
    missing = [folder for folder in path.parents if not folder.exists()]
    # Any thread may end the block. A soft lock would survive a process that dies.
    lock = filelock.FileLock(path, timeout=patience, thread_local=False, fallback_to_soft=False)
    try:
        _acquire(lock)
    except filelock.Timeout:
        raise SinkError(refusal()) from None
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


class Claims(ExitStack):
    """Lock outputs against other runs until the end of the block, by a hidden lock file beside each.

    Lock files that killed runs left in the same folder are removed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._targets: set[Path] = set()
        self._folders: set[Path] = set()

    def take(self, target: Path, refusal: str | None = None) -> None:
        """Lock an output, once; raise SinkError if another run has it."""
        if target not in self._targets:
            text = refusal or f"the output '{target}' is being written by another run"
            self.enter_context(hold(target.with_name(f".{target.name}{_LOCK}"), lambda: text))
            self._targets.add(target)
            if target.parent not in self._folders:
                self._folders.add(target.parent)
                _remove_dead(target.parent)


def _remove_dead(folder: Path) -> None:
    for path in folder.glob(f".*{_LOCK}"):
        with suppress(SinkError), hold(path, str, patience=0.0):
            logger.debug("removing the lock '%s' of a killed run", path)
