"""Making files outlive a power cut: what is not synced may be lost, or be there with 0 bytes under its name."""

from __future__ import annotations

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Have the content of a file on the disk before this returns; OSError when that cannot be done."""
    _sync(path, os.O_RDWR)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder, renamings among them, on the disk; Windows can not and need not."""
    if os.name == "posix":
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    file = os.open(path, flags)
    try:
        os.fsync(file)
    finally:
        os.close(file)
