"""The files of a batch in its folder: the manifest, a line for each source that ended, and the lock."""

from __future__ import annotations

import csv
import errno
import io
import json
import logging
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bgsub.errors import OutputError, SinkError
from bgsub.jobs.job_state import InputState
from bgsub.storage.durable_io import as_sink_error, folder_error, make_folder, write_whole
from bgsub.storage.file_lock import hold
from bgsub.storage.growing_file import GrowingFile

logger = logging.getLogger("bgsub")

_LINES, _TABLE = "manifest.jsonl", "manifest.csv"
_HOLDER, _LOCKED = ".lock", ".locked"  # Windows does not let anyone read a locked file
OWN_FILES = (_LINES, _TABLE, _HOLDER, _LOCKED)
"""Names in the folder of a batch that no source may have."""

_COLUMNS = ("source", "state", "output", "frames", "width", "height", "foreground", "seconds", "attempts", "worker")
_TEMPORARY = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)


@dataclass(frozen=True)
class Entry:
    """How one source ended.

    Attributes
    ----------
    source : InputState
        What was read.
    options : str
        Fingerprint of the options.
    output : str
        Folder of the results, relative to that of the batch.
    state : {"done", "failed"}
        Whether the results are there.
    attempts : int
        How often it was begun.
    seconds : float
        Duration of the last attempt.
    worker : str
        Host and process of the last attempt.
    result : dict
        `JobResult.as_dict`, when done; paths of outputs are relative to `output`.
    error : str
        One line, when failed.
    """

    source: InputState
    options: str
    output: str
    state: str
    attempts: int = 1
    seconds: float = 0.0
    worker: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the entry in types that JSON knows."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Entry:
        """Return the entry that `as_dict` described; TypeError or KeyError for anything else."""
        known = {key: values[key] for key in values.keys() & {item.name for item in fields(cls)}}
        return cls(**{**known, "source": InputState(**known["source"])})


class Manifest:
    """The last entry of each source by its path; ``manifest.jsonl`` in the folder of the batch, created if missing.

    A line is on the disk when `append` returns. The rest of a line that a kill tore is cut off.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / _LINES
        self.entries: dict[str, Entry] = {}
        self._file = GrowingFile(self.path, self.path)
        with as_sink_error(self.path):
            make_folder(folder)
            self.path.touch()
            lines = self.path.read_bytes().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            logger.warning("the last line of '%s' is torn and left out", self.path)
            lines.pop()
        self._size = sum(map(len, lines))
        self._file.cut(self._size)
        for number, line in enumerate(lines, 1):
            try:
                entry = Entry.from_dict(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError):
                logger.warning("line %d of '%s' is no entry and left out", number, self.path)
            else:
                self.entries[entry.source.path] = entry

    def append(self, entry: Entry) -> None:
        """Add an entry; OutputError if it cannot be written."""
        try:
            self._file.append(json.dumps(entry.as_dict(), separators=(",", ":")) + "\n")
            self._size = self._file.sync()
        except SinkError as error:
            with suppress(SinkError):
                self._file.cut(self._size)
            raise OutputError(str(error)) from None
        self.entries[entry.source.path] = entry

    def write_csv(self) -> None:
        """Write ``manifest.csv`` for spreadsheets; OutputError if it cannot be written."""
        text = io.StringIO()
        writer = csv.DictWriter(text, [*_COLUMNS, "error"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**entry.result, **entry.as_dict(), "source": path} for path, entry in self.entries.items())
        write_whole(self.path.with_name(_TABLE), text.getvalue().encode("utf-8", "backslashreplace"), OutputError)

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()


@dataclass(frozen=True)
class Ticket:
    """Proof for workers that the batch goes on."""

    path: Path  # the file that names the process of the batch
    token: str  # in the file while the batch goes on

    @property
    def valid(self) -> bool:
        """Whether the batch goes on and this machine sees its folder; a temporary error counts as yes."""
        try:
            return self.token.encode() in self.path.read_bytes()
        except OSError as error:
            return error.errno in _TEMPORARY


@contextmanager
def hold_folder(folder: Path) -> Iterator[Ticket]:
    """Hold the folder of a batch, created if missing; SinkError if another batch works in it.

    The operating system releases the lock of a dead process. A file names the process for other hosts, where the lock
    may not be visible.
    """
    ticket = Ticket(folder / _HOLDER, uuid.uuid4().hex)

    def refusal() -> str:
        holder = read_holder(ticket.path)
        name = f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'an unknown host')}"
        return f"another batch works in '{folder}' ({name})"

    with hold(folder / _LOCKED, refusal):
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
    # In place: another host may still see a file that was replaced.
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(values) if values else "")
        file.flush()
        os.fsync(file.fileno())


def read_holder(path: Path) -> dict[str, Any]:
    """Return host, pid and token of the batch that holds a folder; an empty dict for none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
