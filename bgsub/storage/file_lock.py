"""Locks on files, which the operating system takes back from a process that dies."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import filelock

from bgsub.errors import SinkError
from bgsub.storage.atomic import no_folder
from bgsub.storage.lasting import make_folder

logger = logging.getLogger("bgsub")

_PATIENCE = 0.1  # seconds: whoever has just let go of the lock removes its file
_ATTEMPTS = 5
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextmanager
def hold(path: Path, refusal: Callable[[], str], patience: float = _PATIENCE) -> Iterator[None]:
    """Keep a file locked, which is removed at the end together with the folders that had to be made and are empty.

    On a disk that knows no locks, as some of a network, the block runs without one, and a warning says so.

    Raises
    ------
    SinkError
        With the text of `refusal` if another process, or another thread, still holds it after `patience` seconds; or
        if it cannot be written.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    # Released by whichever thread ends the block. A soft lock would outlive a process that dies.
    lock = filelock.FileLock(path, timeout=patience, thread_local=False, fallback_to_soft=False)
    try:
        _acquire(lock)
    except filelock.Timeout:
        raise SinkError(refusal()) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise no_folder(path.parent, error) from None
        _warn(path.parent)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file, but the library does, as it lets go
            path.unlink()
        lock.release()
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()


@cache
def _warn(folder: Path) -> None:
    logger.warning("the disk of '%s' knows no locks: another run there would not be noticed", folder)


def _acquire(lock: filelock.BaseFileLock) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            make_folder(Path(lock.lock_file).parent)
            lock.acquire()
            return
        except (FileNotFoundError, FileExistsError):  # the one before was just removing the folder
            if attempt == _ATTEMPTS - 1:
                raise


class Claims:
    """Outputs that no other run may write until the end of the block, by a lock in a hidden file beside each."""

    def __init__(self) -> None:
        self._locks = ExitStack()
        self._targets: set[Path] = set()

    def take(self, target: Path, refusal: str | None = None) -> None:
        """Claim an output, also one that is claimed here already; SinkError if another run has it."""
        if target not in self._targets:
            text = refusal or f"the output '{target}' is being written by another run"
            self._locks.enter_context(hold(target.with_name(f".{target.name}.lock"), lambda: text))
            self._targets.add(target)

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_error: object) -> None:
        self._locks.close()
