"""What a batch has done, on disk: a line for each source that came to an end, safe against a kill."""

from __future__ import annotations

import csv
import io
import json
import logging
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bgsub.errors import OutputError, SinkError
from bgsub.jobs.identity import InputState
from bgsub.storage.durable_io import as_sink_error, make_folder, write_whole
from bgsub.storage.growing_file import GrowingFile

logger = logging.getLogger("bgsub")

_COLUMNS = ("source", "state", "output", "frames", "width", "height", "foreground", "seconds", "attempts", "worker")


@dataclass(frozen=True)
class Entry:
    """How one source came to an end.

    Attributes
    ----------
    source : InputState
        What was read.
    options : str
        Fingerprint of what was asked for.
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
        """Return the entry that `as_dict` described; TypeError or KeyError where it is none."""
        known = {key: values[key] for key in values.keys() & {item.name for item in fields(cls)}}
        return cls(**{**known, "source": InputState(**known["source"])})


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
        self._read(lines)

    def _read(self, lines: list[bytes]) -> None:
        for number, line in enumerate(lines, 1):
            try:
                entry = Entry.from_dict(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError):
                logger.warning("line %d of '%s' is no entry and left out", number, self.path)
                continue
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
        """Write ``manifest.csv`` for people and spreadsheets, whole or not at all; OutputError if it cannot be."""
        write_whole(self.path.with_suffix(".csv"), self._table().encode("utf-8", "backslashreplace"), OutputError)

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
