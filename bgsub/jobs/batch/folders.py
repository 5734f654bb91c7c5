"""The folders of a batch: one for each source, those of unfinished attempts, and how an attempt gets its final name."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

from bgsub.errors import SinkError
from bgsub.jobs.batch.finding import RECORD, Input
from bgsub.jobs.batch.manifest import OWN_FILES
from bgsub.jobs.checkpoints import saved_frames
from bgsub.storage.durable_io import sync_folder

_LEFTOVER = re.compile(r"\.(.+)\.(attempt|old)-[0-9a-f]{32}")


def assign_targets(inputs: Sequence[Input], known: Mapping[str, str]) -> dict[str, str]:
    """Return an output folder for each source, by the path of its state; no folder is shared or inside another.

    A folder is named after the path of the source under the folder that all share, without the ending, or with it or a
    number where two would clash. Sources of an earlier run keep their `known` folders. All are relative, with "/".
    """
    wishes = _preferred_names(inputs)
    stems = Counter(_key(stem) for stem, _name in wishes.values())
    above = {parent for stem, _name in wishes.values() for parent in _parents(stem)}
    taken = {_key(name) for name in OWN_FILES} | {_key(target) for target in known.values()}
    result = {source.state.path: known[source.state.path] for source in inputs if source.state.path in known}

    def is_free(target: str) -> bool:
        key = _key(target)
        inside = any(other.startswith(f"{key}/") for other in taken)
        return not (key in taken or key in above or inside or _parents(target) & taken)

    for path, (stem, name) in wishes.items():
        if path in result:
            continue
        candidates = [stem] if stems[_key(stem)] == 1 else []
        numbered = next(text for n in count(2) if is_free(text := f"{name}-{n}"))
        result[path] = next(filter(is_free, (*candidates, name)), numbered)
        taken.add(_key(result[path]))
    return result


def _preferred_names(inputs: Sequence[Input]) -> dict[str, tuple[str, str]]:
    """Return for each source its folder without and with the ending."""
    try:
        common = Path(os.path.commonpath([source.path.parent for source in inputs]))
    except ValueError:  # several drives
        common = None
    result = {}
    for source in inputs:
        name = source.path.relative_to(common) if common else Path(source.path.name)
        stem = name.stem if not source.path.is_dir() else name.name
        short = name.with_name(stem) if stem.strip(". ") else name
        result[source.state.path] = (short.as_posix(), name.as_posix())
    return result


def _parents(target: str) -> set[str]:
    return {_key(str(parent)) for parent in PurePosixPath(target).parents} - {"."}


def _key(target: str) -> str:
    """Return a name for comparisons: some file systems ignore the case."""
    return target.casefold()


def new_attempt(target: Path) -> Path:
    """Return the folder of a new attempt, beside the final one; it is not made yet."""
    return target.with_name(f".{target.name}.attempt-{uuid.uuid4().hex}")


def unfinished(target: Path) -> Path | None:
    """Return the attempt folder with the latest checkpoint; None without any."""
    frames = {path: saved_frames(path) for path, kind in _leftovers(target.parent, {target.name}) if kind == "attempt"}
    best = max(frames, key=lambda path: (frames[path], path), default=None)
    return best if best is not None and frames[best] else None


def as_published(text: str, target: Path) -> str:
    """Return a message with the final folder in place of the attempt's."""
    return re.sub(re.escape(f".{target.name}.attempt-") + "[0-9a-f]{32}", lambda _: target.name, text)


def remove_leftovers(targets: Iterable[Path], keep: bool = False) -> int:
    """Remove the folders of dead attempts, with `keep` only those without a checkpoint; return how many there were."""
    names: dict[Path, set[str]] = {}
    for target in targets:
        names.setdefault(target.parent, set()).add(target.name)
    dead = [item for folder, known in names.items() for item in _leftovers(folder, known)]
    dead = [(path, kind) for path, kind in dead if not (keep and kind == "attempt" and saved_frames(path))]
    for path, _kind in dead:
        shutil.rmtree(path, ignore_errors=True)
    return sum(kind == "attempt" for _path, kind in dead)


def _leftovers(folder: Path, names: set[str]) -> Iterator[tuple[Path, str]]:
    try:
        found = [(path, _LEFTOVER.fullmatch(path.name)) for path in folder.iterdir()]
    except OSError:
        return
    yield from ((path, match[2]) for path, match in found if match and match[1] in names)


def publish(attempt: Path, target: Path) -> None:
    """Give the folder of an attempt its final name, in place of an earlier result; SinkError for any other folder."""
    check_own(target)
    old = target.with_name(f".{target.name}.old-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):
        os.rename(target, old)
    os.rename(attempt, target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def check_own(target: Path) -> None:
    """Raise SinkError if the target is there and no result of a batch."""
    if target.is_dir() and ((target / RECORD).is_file() or not any(target.iterdir())):
        return
    if os.path.lexists(target):
        raise SinkError(f"'{target}' is in the way and no result of a batch; move it, or choose another folder")


def read_record(target: Path) -> dict[str, Any]:
    """Return the record of a finished folder; an empty one if it cannot be read."""
    try:
        record = json.loads((target / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
