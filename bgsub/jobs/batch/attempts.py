"""The folders in which attempts work, beside the final ones, and what dead ones leave there."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from bgsub.jobs.resumption import kept_frames

_LEFTOVER = re.compile(r"\.(.+)\.(attempt|old)-[0-9a-f]{32}")


def new_attempt(target: Path) -> Path:
    """Return a folder for one more attempt, which is not made yet."""
    return target.with_name(f".{target.name}.attempt-{uuid.uuid4().hex}")


def unfinished(target: Path) -> Path | None:
    """Return the folder of an attempt that has a checkpoint, the farthest one; None where there is none."""
    known = {path: kept_frames(path) for path, kind in _leftovers(target.parent, {target.name}) if kind == "attempt"}
    best = max(known, key=lambda path: (known[path], path), default=None)
    return best if best is not None and known[best] else None


def as_published(text: str, target: Path) -> str:
    """Return a message about the folder of an attempt as one about the final folder."""
    return re.sub(re.escape(f".{target.name}.attempt-") + "[0-9a-f]{32}", lambda _: target.name, text)


def remove_leftovers(targets: Iterable[Path], keep: bool = False) -> int:
    """Remove what dead attempts left beside final folders; return how many there were.

    With `keep`, those that can be gone on with stay.
    """
    names: dict[Path, set[str]] = {}
    for target in targets:
        names.setdefault(target.parent, set()).add(target.name)
    dead = [item for folder, known in names.items() for item in _leftovers(folder, known)]
    dead = [(path, kind) for path, kind in dead if not (keep and kind == "attempt" and kept_frames(path))]
    for path, _kind in dead:
        shutil.rmtree(path, ignore_errors=True)
    return sum(kind == "attempt" for _path, kind in dead)


def _leftovers(folder: Path, names: set[str]) -> Iterator[tuple[Path, str]]:
    try:
        found = [(path, _LEFTOVER.fullmatch(path.name)) for path in folder.iterdir()]
    except OSError:
        return
    yield from ((path, match[2]) for path, match in found if match and match[1] in names)
