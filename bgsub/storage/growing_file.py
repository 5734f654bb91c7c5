"""Append-only files that can be cut back to their size at a checkpoint."""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from bgsub.errors import SinkError
from bgsub.storage.durable_io import as_sink_error, partial_name, rename, sync_folder, unlink

_SIZES = struct.Struct("<II")


class GrowingFile:
    """Append bytes or UTF-8 text without buffering: a process that dies loses none of it.

    The file is created by the first `append` or `finish`.

    Parameters
    ----------
    target : Path
        The finished output; messages name it.
    path : Path, optional
        The growing file; by default ``NAME.partial`` beside the target.

    Raises
    ------
    SinkError
        In all methods except `close` and `remove`, if the file cannot be written.
    """

    def __init__(self, target: Path, path: Path | None = None) -> None:
        self.path = path or partial_name(target)
        self._target = target
        self._file: io.FileIO | None = None

    def append(self, data: bytes | str) -> None:
        """Write at the end."""
        rest = memoryview(data.encode() if isinstance(data, str) else data)
        with as_sink_error(self._target):
            file = self._opened()
            while rest:  # a full disk accepts a part and refuses the next
                rest = rest[file.write(rest) :]

    @property
    def size(self) -> int:
        """Number of bytes."""
        return 0 if self._file is None else self._file.tell()

    def sync(self) -> int:
        """Sync everything to the disk; return the size in bytes."""
        if self._file is None:
            return 0
        with as_sink_error(self._target):
            os.fsync(self._file.fileno())
            sync_folder(self.path.parent)
            return self.size

    def cut(self, size: int) -> None:
        """Continue after the first `size` bytes of the existing file and drop the rest."""
        self.close()
        with as_sink_error(self._target):
            with suppress(FileNotFoundError):
                if self.path.is_symlink():
                    raise SinkError(f"'{self._target}' cannot be continued: '{self.path}' is a symbolic link")
                # "ab" would write at the end even after a cut.
                self._file = self.path.open("r+b", buffering=0)
            there = 0 if self._file is None else self._file.seek(0, os.SEEK_END)
            if there < size:
                self.close()
                raise SinkError(
                    f"'{self._target}' cannot be continued: '{self.path}' must have at least {size} bytes, got {there}"
                )
            if self._file is not None:
                self._file.truncate(size)
                self._file.seek(size)

    def reading(self) -> BinaryIO:
        """Open the content so far for reading."""
        with as_sink_error(self._target):
            return io.BytesIO() if self._file is None else self.path.open("rb")

    def finish(self) -> None:
        """Give the file its final name."""
        with as_sink_error(self._target):
            file, self._file = self._opened(), None
            file.close()
            rename(self.path, self._target)

    def close(self) -> None:
        """Close the file, unfinished."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # an earlier call reported the error
                file.close()

    def remove(self) -> None:
        """Delete the file."""
        self.close()
        unlink(self.path)

    def _opened(self) -> io.FileIO:
        if self._file is None:
            unlink(self.path)  # a symbolic link there would lead to another file
            self._file = self.path.open("wb", buffering=0)
        return self._file


class Journal(GrowingFile):
    """A sequence of records, each a JSON object and a block of bytes."""

    def add(self, facts: dict[str, Any], data: bytes) -> None:
        """Append a record."""
        head = json.dumps(facts, separators=(",", ":")).encode()
        self.append(_SIZES.pack(len(head), len(data)) + head + data)

    def records(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield all records."""
        with self.reading() as file:
            while head := file.read(_SIZES.size):
                facts_size, data_size = _SIZES.unpack(head)
                yield json.loads(file.read(facts_size)), file.read(data_size)
