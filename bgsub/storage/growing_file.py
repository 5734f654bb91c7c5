"""A file of records that only grows, and can be cut back to where it was at a checkpoint."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from bgsub.errors import SinkError

_SIZES = struct.Struct("<II")


class Journal:
    """Records of a few facts and a block of bytes, one after the other in a file.

    Parameters
    ----------
    path : Path
        The file; created, or emptied, with the first record.
    target : Path
        What messages call the output that the records are for.
    """

    def __init__(self, path: Path, target: Path) -> None:
        self.path = path
        self._target = target
        self._file: BinaryIO | None = None

    def append(self, facts: dict[str, Any], data: bytes) -> None:
        """Write one record; `facts` in types that JSON knows."""
        head = json.dumps(facts, separators=(",", ":")).encode()
        try:
            if self._file is None:
                self._file = self.path.open("wb")
            self._file.write(_SIZES.pack(len(head), len(data)) + head + data)
        except OSError as error:
            raise self._failure(error) from None

    def sync(self) -> int:
        """Make the records safe on the disk; return the size of the file in bytes."""
        if self._file is None:
            return 0
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failure(error) from None
        return self._file.tell()

    def cut(self, size: int) -> None:
        """Go on behind the first `size` bytes of the file that is there; what follows them is dropped.

        Raises
        ------
        SinkError
            If the file is missing or shorter.
        """
        try:
            there = self.path.stat().st_size if self.path.exists() else 0
            if there < size:
                raise SinkError(f"'{self._target}' cannot be continued: '{self.path}' has {there} of {size} bytes")
            if size:
                self._file = self.path.open("r+b")
                self._file.truncate(size)
                self._file.seek(size)
        except OSError as error:
            raise (error if isinstance(error, SinkError) else self._failure(error)) from None

    def records(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield the records from the first one on."""
        self.sync()
        if self._file is None:
            return
        with self.path.open("rb") as file:
            while head := file.read(_SIZES.size):
                facts_size, data_size = _SIZES.unpack(head)
                yield json.loads(file.read(facts_size)), file.read(data_size)

    def close(self) -> None:
        """Close the file, which stays."""
        if self._file is not None:
            # What could not be written has been told, or is not worth telling: the output is given up.
            with suppress(OSError):
                self._file.close()
            self._file = None

    def remove(self) -> None:
        """Close and delete the file."""
        self.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _failure(self, error: OSError) -> SinkError:
        return SinkError(f"'{self._target}' cannot be written: {error.strerror or error}")
