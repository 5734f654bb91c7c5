"""One batch at a time in a folder."""

from __future__ import annotations

import json
import os
import socket
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from bgsub.errors import SinkError
from bgsub.storage.file_lock import try_lock

NAME = ".lock"


class FolderLock:
    """Holds a folder while a batch runs in it; a context manager.

    The operating system gives the lock of a process back when it dies, so that a dead one on this host never
    stands in the way. The file says who holds the folder, for other hosts, to which the system may not tell.

    Parameters
    ----------
    folder : Path
        Created if missing.

    Attributes
    ----------
    token : str
        Of this run; workers find it in the file while the batch goes on.

    Raises
    ------
    SinkError
        If another batch works in the folder, or the file cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.token = uuid.uuid4().hex
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "a+", encoding="utf-8")  # noqa: SIM115 - closed by `release`
        except OSError as error:
            raise SinkError(f"cannot write into folder '{folder}': {error.strerror or error}") from None
        try:
            self._take(folder)
        except BaseException:
            self._file.close()
            raise

    def _take(self, folder: Path) -> None:
        alone = try_lock(self._file)
        holder = read_holder(self.path)
        if not alone:
            raise SinkError(f"another batch works in '{folder}' ({_name(holder)})")
        if holder and holder.get("host") != socket.gethostname():
            raise SinkError(f"another batch works in '{folder}' ({_name(holder)}); if it is dead, remove '{self.path}'")
        self._write({"host": socket.gethostname(), "pid": os.getpid(), "token": self.token})

    def _write(self, values: dict[str, Any]) -> None:
        self._file.truncate(0)
        self._file.write(json.dumps(values) if values else "")
        self._file.flush()
        os.fsync(self._file.fileno())

    def release(self) -> None:
        """Give the folder back."""
        with suppress(OSError):
            self._write({})
        self._file.close()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


def read_holder(path: Path) -> dict[str, Any]:
    """Return what the file of a lock says: host, pid and token; nothing when nobody holds it."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _name(holder: dict[str, Any]) -> str:
    return f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'an unknown host')}"
