"""What a batch has done, on disk: a line for each source that came to an end, safe against a kill."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import logging
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bgsub.errors import OutputError, SinkError
from bgsub.jobs.batch.finding import Identity
from bgsub.jobs.job import Job
from bgsub.storage.atomic import replacing
from bgsub.video.regions import parse_region

logger = logging.getLogger("bgsub")

# Of a job, what says nothing about its results.
_NO_OPTIONS = ("source", "output", "resume", "overwrite", "checkpoint_seconds")
_COLUMNS = ("source", "state", "output", "frames", "width", "height", "foreground", "seconds", "attempts", "worker")


@dataclass(frozen=True)
class Entry:
    """How one source came to an end.

    Attributes
    ----------
    source : Identity
        What was read.
    options : str
        Fingerprint of what was asked for; see `fingerprint`.
    output : str
        Folder of the results, relative to that of the batch.
    state : {"done", "failed"}
        Whether the results are there.
    attempts : int
        How often it was begun.
    seconds : float
        Duration of the last attempt.
    worker : str
        Who did it.
    result : dict
        `JobResult.as_dict`, when done; paths of outputs are relative to `output`.
    error : str
        One line, when failed.
    """

    source: Identity
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
        """Return the entry that `as_dict` described; TypeError or KeyError where it is none."""
        known = {key: values[key] for key in values.keys() & {item.name for item in fields(cls)}}
        return cls(**{**known, "source": Identity(**known["source"])})


class Manifest:
    """The entries of a batch by the path of their source, the last one of each; ``manifest.jsonl`` on disk.

    Parameters
    ----------
    folder : Path
        Of the batch; created if missing.

    Raises
    ------
    SinkError
        If the file cannot be read or written.

    Notes
    -----
    A line is on the disk when `append` returns. The rest of a line that a kill tore is cut off.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "manifest.jsonl"
        self.entries: dict[str, Entry] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise SinkError(f"'{self.path}' cannot be written: {error.strerror or error}") from None
        self._read()

    def _read(self) -> None:
        self._file.seek(0)
        whole, _newline, torn = self._file.read().rpartition(b"\n")
        if torn:
            logger.warning("the last line of '%s' is torn and left out", self.path)
            self._file.truncate(len(whole) + bool(whole))
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                entry = Entry.from_dict(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError):
                logger.warning("line %d of '%s' is no entry and left out", number, self.path)
                continue
            self.entries[entry.source.path] = entry

    def append(self, entry: Entry) -> None:
        """Add an entry; OutputError if it cannot be written."""
        line = json.dumps(entry.as_dict(), separators=(",", ":")).encode("ascii") + b"\n"
        end = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(end)
            raise OutputError(f"'{self.path}' cannot be written: {error.strerror or error}") from None
        self.entries[entry.source.path] = entry

    def write_csv(self) -> None:
        """Write ``manifest.csv`` for people and spreadsheets, whole or not at all; OutputError if it cannot be."""
        path = self.path.with_suffix(".csv")
        try:
            with replacing(path) as partial:
                partial.write_text(self._table(), encoding="utf-8", errors="backslashreplace", newline="")
        except OSError as error:
            raise OutputError(f"'{path}' cannot be written: {error.strerror or error}") from None

    def _table(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow([*_COLUMNS, "error"])
        for entry in self.entries.values():
            row = {**entry.result, **entry.as_dict(), "source": entry.source.path}
            writer.writerow([row.get(column, "") for column in (*_COLUMNS, "error")])
        return text.getvalue()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def fingerprint(job: Job) -> str:
    """Return what tells two jobs apart that have the same source: all options, and the state of files they read."""
    values = {item.name: _told(getattr(job, item.name), job.output) for item in fields(job)}
    values["roi"] = [[text, _told(parse_region(text).path, job.output)] for text in job.roi]
    text = json.dumps({key: value for key, value in values.items() if key not in _NO_OPTIONS}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def _told(value: Any, output: Path) -> Any:
    if isinstance(value, dict):
        return {str(key): _told(item, output) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_told(item, output) for item in value]
    if isinstance(value, Path):
        return _told_path(value, output)
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _told_path(path: Path, output: Path) -> Any:
    if path.is_relative_to(output):
        return path.relative_to(output).as_posix()
    try:
        state = path.stat()
    except OSError:
        return str(path)
    return [str(path), state.st_size, state.st_mtime_ns]
