"""Files that only grow, and can be cut back to where they were at a checkpoint."""

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
from bgsub.storage.atomic import partial_name, telling
from bgsub.storage.lasting import rename, sync_folder, unlink

_SIZES = struct.Struct("<II")


class GrowingFile:
    """Bytes, or text in UTF-8, that reach the file as they are appended: a process that dies loses none of them.

    Nothing is made on the disk before the first `append` or `finish`.

    Parameters
    ----------
    target : Path
        The output that it is for: what messages name, and what `finish` makes of it.
    path : Path, optional
        The file as it grows; by default ``NAME.partial`` beside the target.

    Raises
    ------
    SinkError
        From all methods but `close` and `remove`, if the file cannot be written.
    """

    def __init__(self, target: Path, path: Path | None = None) -> None:
        self.path = path or partial_name(target)
        self._target = target
        self._file: io.FileIO | None = None

    def append(self, data: bytes | str) -> None:
        """Write behind what is there."""
        rest = memoryview(data.encode() if isinstance(data, str) else data)
        with telling(self._target):
            file = self._opened()
            while rest:  # a full disk takes a part, and refuses the next one
                rest = rest[file.write(rest) :]

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return 0 if self._file is None else self._file.tell()

    def sync(self) -> int:
        """Make everything safe against a power cut; return the size in bytes."""
        if self._file is None:
            return 0
        with telling(self._target):
            os.fsync(self._file.fileno())
            sync_folder(self.path.parent)
            return self.size

    def cut(self, size: int) -> None:
        """Go on behind the first `size` bytes of the file that is there; what follows them is dropped.

        Raises
        ------
        SinkError
            If the file is missing or shorter.
        """
        self.close()
        with telling(self._target):
            with suppress(FileNotFoundError):
                if self.path.is_symlink():
                    raise SinkError(f"'{self._target}' cannot be continued: '{self.path}' is a link")
                # Not "ab", which writes to the end whatever it was cut to in between.
                self._file = self.path.open("r+b", buffering=0)
            there = 0 if self._file is None else self._file.seek(0, os.SEEK_END)
            if there < size:
                self.close()
                raise SinkError(
                    f"'{self._target}' cannot be continued: '{self.path}' must hold {size} bytes to go on from, "
                    f"it has {there}"
                )
            if self._file is not None:
                self._file.truncate(size)
                self._file.seek(size)

    def reading(self) -> BinaryIO:
        """Return what is there so far, open for reading."""
        with telling(self._target):
            return io.BytesIO() if self._file is None else self.path.open("rb")

    def finish(self) -> None:
        """Give the file its final name."""
        with telling(self._target):
            file, self._file = self._opened(), None
            file.close()
            rename(self.path, self._target)

    def close(self) -> None:
        """Leave the file as it is."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what could not be written has been told, or the output is given up
                file.close()

    def remove(self) -> None:
        """Delete the file."""
        self.close()
        unlink(self.path)

    def _opened(self) -> io.FileIO:
        if self._file is None:
            unlink(self.path)  # a link of somebody else would lead to another file
            self._file = self.path.open("wb", buffering=0)
        return self._file


class Journal(GrowingFile):
    """Records of a few facts and a block of bytes, one after the other."""

    def add(self, facts: dict[str, Any], data: bytes) -> None:
        """Append a record; `facts` in types that JSON knows."""
        head = json.dumps(facts, separators=(",", ":")).encode()
        self.append(_SIZES.pack(len(head), len(data)) + head + data)

    def records(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield the records from the first one on."""
        with self.reading() as file:
            while head := file.read(_SIZES.size):
                facts_size, data_size = _SIZES.unpack(head)
                yield json.loads(file.read(facts_size)), file.read(data_size)
