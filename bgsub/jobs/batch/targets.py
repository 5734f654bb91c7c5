"""One output folder for each source: named after it, never shared, never one inside another."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path, PurePosixPath

from bgsub.jobs.batch.finding import Input
from bgsub.jobs.batch.lock import LOCKED, NAME

_RESERVED = ("manifest.jsonl", "manifest.csv", NAME, LOCKED)


def assign_targets(inputs: Sequence[Input], known: Mapping[str, str]) -> dict[str, str]:
    """Choose an output folder for each source.

    Parameters
    ----------
    inputs : sequence of Input
        The sources.
    known : mapping of str to str
        Folders that sources have already from an earlier run; they keep them, whatever else is named now.

    Returns
    -------
    dict of str to str
        From the path of the state to a folder relative to that of the batch, with "/": the path under the
        folder that all sources share, without ending; with the ending where two would clash, numbered where
        that is not enough.
    """
    wished = _wishes(inputs)
    stems = Counter(_key(stem) for stem, _name in wished.values())
    above = {parent for stem, _name in wished.values() for parent in _parents(stem)}
    taken = {_key(name) for name in _RESERVED} | {_key(target) for target in known.values()}
    result = {source.state.path: known[source.state.path] for source in inputs if source.state.path in known}
    for path, (stem, name) in wished.items():
        if path in result:
            continue
        candidates = [stem] if stems[_key(stem)] == 1 else []
        for candidate in (*candidates, name, *_first_free(name, taken, above)):
            if _is_free(candidate, taken, above):
                break
        result[path] = candidate
        taken.add(_key(candidate))
    return result


def _wishes(inputs: Sequence[Input]) -> dict[str, tuple[str, str]]:
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


def _first_free(name: str, taken: set[str], above: set[str]) -> list[str]:
    return [next(text for n in count(2) if _is_free(text := f"{name}-{n}", taken, above))]


def _is_free(target: str, taken: set[str], above: set[str]) -> bool:
    key = _key(target)
    inside = any(other.startswith(f"{key}/") for other in taken)
    return not (key in taken or key in above or inside or _parents(target) & taken)


def _parents(target: str) -> set[str]:
    return {_key(str(parent)) for parent in PurePosixPath(target).parents} - {"."}


def _key(target: str) -> str:
    """Folders that differ in case only are one on some systems."""
    return target.casefold()
