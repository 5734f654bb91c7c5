"""Outputs that appear under their names only when all of them are complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bgsub.errors import BgsubError, OutputError, SinkError
from bgsub.jobs.decomposition.writing import Target
from bgsub.jobs.interrupts import finishing
from bgsub.storage.durable_io import sync_folder, sync_tree
from bgsub.storage.file_lock import Claims
from bgsub.video.sinks.base import prepare_folder
from bgsub.video.sources.images import is_image


@contextmanager
def output_folder(folder: Path, targets: Sequence[Target], read: Path | None, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder for the targets; at the end of the block they are moved into `folder`.

    When the block fails, or is interrupted, nothing is left of it. With `overwrite` what exists is replaced, of folders
    only those that hold nothing but images; `read` is the input, which must not be among them. SinkError where the
    folder cannot be written, another run writes an output, or one may not be replaced; OutputError where it cannot be
    written any more.
    """
    with Claims() as claims:
        for target in targets:
            claims.take(folder / target.name)
            _check_target(folder / target.name, target, read, overwrite)
        prepare_folder(folder)
        stage = Path(tempfile.mkdtemp(prefix=".decompose-", dir=folder))
        try:
            made = stage / "new"
            made.mkdir()
            try:
                yield made
                sync_tree(made)
                with finishing():
                    _move(made, folder, targets, stage)
            except BgsubError:
                raise
            except OSError as error:
                raise OutputError(f"'{folder}' cannot be written: {error.strerror or error}") from None
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _check_target(path: Path, target: Target, read: Path | None, overwrite: bool) -> None:
    if read is not None and path.resolve() == read.resolve():
        raise SinkError(f"the output '{path}' is the input itself")
    if not path.exists():
        return
    if not overwrite:
        raise SinkError(f"the output '{path}' exists already; --overwrite replaces it")
    if path.is_dir() != target.is_folder:
        raise SinkError(f"the output '{path}' is a {'folder' if path.is_dir() else 'file'} already")
    if target.is_folder:
        other = next((found for found in path.iterdir() if found.is_dir() or not is_image(found)), None)
        if other is not None:
            raise SinkError(f"the output '{path}' holds more than images and is not replaced: '{other}'")


def _move(made: Path, folder: Path, targets: Sequence[Target], stage: Path) -> None:
    """Give the outputs their final names; folders that are in the way go to where they are removed."""
    for target in targets:
        path = folder / target.name
        if target.is_folder and path.exists():
            os.replace(path, stage / target.name)
        os.replace(made / target.name, path)
    sync_folder(folder)
