"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bgsub.errors import SinkError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield ``NAME.partial``, which becomes `path` at the end of the block, and is removed when that fails."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it appears whole or not at all; SinkError where it cannot be written."""
    try:
        with replacing(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise SinkError(f"'{path}' cannot be written: {error.strerror or error}") from None
