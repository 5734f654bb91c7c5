"""Text files that grow under a partial name."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from bgsub.errors import SinkError


class PartialFile:
    """A text file in UTF-8 that grows as ``NAME.partial`` and gets its name when it is complete.

    Nothing is written to the disk before the first `write`, `checkpoint` or `finish`.

    Parameters
    ----------
    path : Path
        The final name.

    Raises
    ------
    SinkError
        From all methods, if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial_path = path.with_name(f"{path.name}.partial")
        self._file: BinaryIO | None = None

    def write(self, text: str) -> None:
        """Append a text."""
        try:
            self._opened().write(text.encode("utf-8"))
        except OSError as error:
            raise self._failure(error) from None

    def checkpoint(self) -> int:
        """Bring everything to the disk; return the number of bytes."""
        try:
            file = self._opened()
            file.flush()
            os.fsync(file.fileno())
            return file.tell()
        except OSError as error:
            raise self._failure(error) from None

    def resume(self, size: int) -> None:
        """Go on behind the first `size` bytes of the partial file; what follows them is cut off."""
        try:
            with suppress(FileNotFoundError):
                # Not "ab", which writes to the end whatever it was cut to in between.
                self._file = self.partial_path.open("r+b")
            there = 0 if self._file is None else self._file.seek(0, os.SEEK_END)
            if there < size:
                self.abort()
                raise SinkError(f"'{self.partial_path}' must hold {size} bytes to go on from, it has {there}")
            if self._file is not None:
                self._file.truncate(size)
                self._file.seek(size)
        except OSError as error:
            if isinstance(error, SinkError):
                raise
            raise self._failure(error) from None

    def complete(self) -> None:
        """End the file, still under its partial name."""
        try:
            self._opened()
            self._close()
        except OSError as error:
            raise self._failure(error) from None

    def finish(self) -> None:
        """End the file and give it its name."""
        self.complete()
        try:
            os.replace(self.partial_path, self.path)
        except OSError as error:
            raise self._failure(error) from None

    def abort(self) -> None:
        """End the file under its partial name, with what has reached it."""
        with suppress(OSError):
            self._close()

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._file = self.partial_path.open("wb")
        return self._file

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _failure(self, error: OSError) -> SinkError:
        return SinkError(f"'{self.path}' cannot be written: {error.strerror or error}")
