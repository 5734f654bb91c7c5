"""The files of a batch in its folder: the manifest, a line for each source that ended, and the lock."""

from __future__ import annotations

import csv
import io
import json
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bgsub.errors import OutputError, SinkError, logger
from bgsub.events.writers import csv_cell
from bgsub.jobs.job_state import InputState
from bgsub.storage.durable_io import GrowingFile, as_sink_error, make_folder, write_whole
from bgsub.storage.file_lock import hold

_LINES, _TABLE = "manifest.jsonl", "manifest.csv"
_LOCKED = ".locked"
#: Names in the folder of a batch that no source may have.
OWN_FILES = (_LINES, _TABLE, _LOCKED)

_COLUMNS = ("source", "state", "output", "frames", "width", "height", "foreground", "seconds", "attempts", "worker")


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


class Manifest(AbstractContextManager["Manifest"]):
    """The last entry of each source by its path, in ``manifest.jsonl``; a line is on the disk when `append` returns."""

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
        for path, entry in self.entries.items():
            row = {**entry.result, **entry.as_dict(), "source": path}
            writer.writerow({name: csv_cell(row[name]) if isinstance(row[name], str) else row[name] for name in row})
        write_whole(self.path.with_name(_TABLE), text.getvalue().encode(), OutputError)

    def __exit__(self, *_error: object) -> None:
        self._file.close()


def hold_folder(folder: Path) -> AbstractContextManager[None]:
    """Hold the folder of a batch, created if missing; SinkError if another batch works in it."""
    return hold(folder / _LOCKED, lambda: f"another batch works in '{folder}'")
