"""Sequences in trees of folders: a video, a category, or the whole data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from bgsub.errors import SourceError
from bgsub.evaluation.files import list_folder
from bgsub.evaluation.sequences import Sequence

_PARTS = ("input", "groundtruth")


def find_sequences(folders: Iterable[str | Path]) -> list[Sequence]:
    """Find all sequences in folders and check them, so that a long run does not end at the last one.

    Parameters
    ----------
    folders : iterable of path
        Each a sequence (it holds ``input`` or ``groundtruth``), or a folder in which sequences are found at any
        depth, such as a category or the tree ``dataset/<category>/<video>`` of changedetection.net. Hidden
        folders are left out.

    Returns
    -------
    list of Sequence
        In the order of the folders, by name within each; a sequence that is met twice counts once.

    Raises
    ------
    SourceError
        If a folder is missing or holds no sequence, a sequence is broken (`Sequence.check`), or two have
        category and name in common.

    Examples
    --------
    >>> from bgsub.evaluation import find_sequences
    >>> [sequence.name for sequence in find_sequences(["."])]
    ['sequence']
    """
    found: dict[Path, Path] = {}
    for folder in map(Path, folders):
        below = list(_below(folder, set()))
        if not below:
            raise SourceError(f"no sequence in {folder}: a sequence is a folder that holds input and groundtruth")
        for path in below:
            found.setdefault(path.resolve(), path)
    sequences = [Sequence(path) for path in found.values()]
    _refuse_namesakes(sequences)
    for sequence in sequences:
        sequence.check()
    return sequences


def _below(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """Yield the sequences in a folder; `seen` ends the circles that links can make."""
    inside = sorted(path for path in list_folder(folder) if path.is_dir() and not path.name.startswith("."))
    if any(path.name in _PARTS for path in inside):
        yield folder
        return
    seen.add(folder.resolve())
    for path in inside:
        if path.resolve() not in seen:
            yield from _below(path, seen)


def _refuse_namesakes(sequences: list[Sequence]) -> None:
    names: dict[tuple[str, str], Sequence] = {}
    for sequence in sequences:
        other = names.setdefault((sequence.category, sequence.name), sequence)
        if other is not sequence:
            name = f"{sequence.category}/{sequence.name}"
            raise SourceError(f"{other.folder} and {sequence.folder} are both called {name}; score one at a time")
