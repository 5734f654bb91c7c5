"""Locks on files, which the operating system takes back from a process that dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from bgsub.errors import SinkError


def try_lock(file: IO[str]) -> bool:
    """Lock an open file for this process if nobody else has; return whether that was so."""
    try:
        import fcntl  # noqa: PLC0415 - Windows has none
    except ImportError:
        return _lock_on_windows(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_on_windows(file: IO[str]) -> bool:
    import msvcrt  # noqa: PLC0415 - Windows only

    place = file.tell()
    file.seek(1 << 30)  # Windows lets nobody read what is locked
    try:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    finally:
        file.seek(place)
    return True


@contextmanager
def hold(path: Path, refusal: str) -> Iterator[None]:
    """Keep a file locked, which is removed at the end together with the folders that had to be made and are empty.

    Raises
    ------
    SinkError
        With the text `refusal` if another process, or another thread, holds it; or if it cannot be written.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    try:
        file = _open_locked(path)
    except OSError as error:
        raise SinkError(f"cannot write into folder '{path.parent}': {error.strerror or error}") from None
    if file is None:
        raise SinkError(refusal)
    try:
        yield
    finally:
        if os.name == "nt":  # which removes no open file
            file.close()
        with suppress(OSError):
            path.unlink()
        file.close()
        with suppress(OSError):
            for folder in {path.parent: None, **dict.fromkeys(missing)}:
                folder.rmdir()


def _open_locked(path: Path) -> IO[str] | None:
    """Return the file, locked; None if another has locked it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - closed by `hold`
        except FileNotFoundError:  # the one before has just removed the folder
            continue
        if not try_lock(file):
            file.close()
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()  # the one before removed it between our opening and our locking
