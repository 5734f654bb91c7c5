"""Files that appear whole or not at all, and the names under which they grow until then."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from bgsub.errors import OutputError, SinkError
from bgsub.storage.lasting import rename, unlink

DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What no other input would mend."""


def no_folder(folder: Path, error: OSError) -> SinkError:
    """Return what is wrong with a folder into which nothing can be written; a file in its place is named."""
    files = [place for place in (folder, *folder.parents) if place.is_file()]
    why = f"'{files[0]}' is a file, and a folder is wanted there" if files else error.strerror or str(error)
    kind = OutputError if error.errno in DISK_FAILURES else SinkError
    return kind(f"cannot write into folder '{folder}': {why}")


def partial_name(path: Path) -> Path:
    """Return ``NAME.EXT.partial``, which no other program takes for a file of its kind."""
    return path.with_name(f"{path.name}.partial")


def playable_name(path: Path) -> Path:
    """Return ``NAME.partial.EXT``, a file of the kind that the ending says."""
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def remove_partials(path: Path) -> None:
    """Remove what had grown for a file that is finished by now, under its partial names."""
    name = escape(path.name)
    for pattern in (f"{name}.partial", f"{name}.*.partial", f"{escape(playable_name(path).name)}*"):
        for partial in path.parent.glob(pattern):
            unlink(partial)


@contextmanager
def telling(path: Path, kind: type[SinkError] = SinkError) -> Iterator[None]:
    """Tell what the disk refuses inside the block as an error of that kind: one line that names `path`.

    That the disk is full, or broken, is an `OutputError` always.
    """
    try:
        yield
    except SinkError:
        raise
    except OSError as error:
        kind = OutputError if error.errno in DISK_FAILURES else kind
        raise kind(f"'{path}' cannot be written: {error.strerror or error}") from None


@contextmanager
def replacing(path: Path, partial: Path | None = None, *, lasting: bool = True) -> Iterator[Path]:
    """Yield a name, `partial_name` by default, that becomes `path` at the end, and is removed when the block fails.

    After a power cut what was there before is under the name, or the new file, whole: from the end of the block on the
    new one. Of many files without `lasting` some may be lost, or empty, until they are synced (`storage.lasting`).
    """
    partial = partial or partial_name(path)
    unlink(partial)  # a link of somebody else would lead to another file
    try:
        yield partial
        (rename if lasting else os.replace)(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def write_whole(path: Path, content: bytes, kind: type[SinkError] = SinkError, *, lasting: bool = True) -> None:
    """Write a file so that it appears whole or not at all; SinkError, or another `kind`, where it cannot be written.

    `lasting` is that of `replacing`.
    """
    with telling(path, kind), replacing(path, lasting=lasting) as partial:
        partial.write_bytes(content)
