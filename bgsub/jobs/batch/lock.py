"""One batch at a time in a folder."""

from __future__ import annotations

import errno
import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bgsub.errors import SinkError
from bgsub.storage.durable_io import folder_error
from bgsub.storage.file_lock import hold

NAME, LOCKED = ".lock", ".locked"
"""What says who holds a folder, and what the operating system locks, which Windows lets nobody read."""

_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)


@dataclass(frozen=True)
class Ticket:
    """What a batch that holds a folder shows to its workers.

    Attributes
    ----------
    path : Path
        The file that says who holds the folder.
    token : str
        Of this batch; found in the file while it goes on, and where a worker sees the same folder.
    """

    path: Path
    token: str

    @property
    def valid(self) -> bool:
        """Whether the batch goes on; that the file cannot be read just now says nothing else."""
        try:
            return self.token.encode() in self.path.read_bytes()
        except OSError as error:
            return error.errno in _PASSING


@contextmanager
def hold_folder(folder: Path) -> Iterator[Ticket]:
    """Hold a folder, created if missing, while a batch runs in it.

    The operating system gives the lock of a process back when it dies, so that a dead one on this host never
    stands in the way. The file says who holds the folder, for other hosts, to which the system may not tell.

    Raises
    ------
    SinkError
        If another batch works in the folder, or it cannot be written.
    """
    ticket = Ticket(folder / NAME, uuid.uuid4().hex)

    def refusal() -> str:
        return f"another batch works in '{folder}' ({_name(read_holder(ticket.path))})"

    with hold(folder / LOCKED, refusal):
        if read_holder(ticket.path).get("host", socket.gethostname()) != socket.gethostname():
            raise SinkError(f"{refusal()}; if it is dead, remove '{ticket.path}'")
        try:
            _write(ticket.path, {"host": socket.gethostname(), "pid": os.getpid(), "token": ticket.token})
        except OSError as error:
            raise folder_error(folder, error) from None
        try:
            yield ticket
        finally:
            with suppress(OSError):
                _write(ticket.path, {})


def _write(path: Path, values: dict[str, Any]) -> None:
    # In place, as another host may go on seeing a file that was replaced.
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(values) if values else "")
        file.flush()
        os.fsync(file.fileno())


def read_holder(path: Path) -> dict[str, Any]:
    """Return what the file of a lock says: host, pid and token; nothing when nobody holds it."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _name(holder: dict[str, Any]) -> str:
    return f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'an unknown host')}"
