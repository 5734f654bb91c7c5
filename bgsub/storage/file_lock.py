"""Locks on files, which the operating system takes back from a process that dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from bgsub.errors import SinkError
from bgsub.storage.atomic import no_folder
from bgsub.storage.lasting import make_folder

_PATIENCE = 0.1  # seconds: whoever has just let go of the lock removes its file
_ATTEMPTS = 5


@contextmanager
def hold(path: Path, refusal: Callable[[], str]) -> Iterator[None]:
    """Keep a file locked, which is removed at the end together with the folders that had to be made and are empty.

    Raises
    ------
    SinkError
        With the text of `refusal` if another process, or another thread, holds it; or if it cannot be written.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    lock = filelock.FileLock(path, timeout=_PATIENCE)
    try:
        _acquire(lock)
    except filelock.Timeout:
        raise SinkError(refusal()) from None
    except OSError as error:
        raise no_folder(path.parent, error) from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file, but the library does, as it lets go
            path.unlink()
        lock.release()
        with suppress(OSError):
            for folder in {path.parent: None, **dict.fromkeys(missing)}:
                folder.rmdir()


def _acquire(lock: filelock.BaseFileLock) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            make_folder(Path(lock.lock_file).parent)
            lock.acquire()
            return
        except (FileNotFoundError, FileExistsError):  # the one before was just removing the folder
            if attempt == _ATTEMPTS - 1:
                raise
