"""All methods on all sequences, one score after the other, with what is to be kept of their masks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.evaluation.methods import Method
from bgsub.evaluation.results import MaskWriter, find_masks, find_results
from bgsub.evaluation.run import OnFrame, Score, evaluate, score_results
from bgsub.evaluation.sequences import Sequence
from bgsub.evaluation.sheet import Sheet
from bgsub.evaluation.worst import WorstFrames

Progress = Callable[[str, int], AbstractContextManager[Any]]
"""Makes a context manager out of a label and a number of frames; what it yields has ``update()``."""


def compare(
    sequences: Iterable[Sequence],
    methods: Mapping[str, Callable[[], Method]],
    *,
    masks: str | Path | None = None,
    sheet: Sheet | None = None,
    worst: int = 8,
    progress: Progress | None = None,
) -> Iterator[Score]:
    """Yield the score of each method on each sequence, in this order of nesting: sequences, methods.

    Parameters
    ----------
    sequences : iterable of Sequence
        As `find_sequences` finds them.
    methods : mapping of str to callable
        By the name to report, what makes a fresh method.
    masks : path, optional
        Root of a tree in which to write all masks (`MaskWriter`); of several methods, each has a folder of its
        name in it.
    sheet : Sheet, optional
        Gets a section for each score.
    worst : int, default 8
        Most frames in a section.
    progress : callable, optional
        Called for each run with a label and the number of frames.

    Yields
    ------
    Score

    Raises
    ------
    ParameterError, SourceError, SinkError
        As `evaluate` and `MaskWriter`.

    Examples
    --------
    >>> from functools import partial
    >>> from bgsub.evaluation import compare, find_sequences, format_table, make_method
    >>> methods = {name: partial(make_method, name) for name in ("bgsub", "mog2")}
    >>> scores = list(compare(find_sequences(["sequence"]), methods, masks="masks"))
    >>> [(score.method, score.frames) for score in scores]
    [('bgsub', 60), ('mog2', 60)]
    >>> table = format_table(scores)
    """
    for sequence in sequences:
        for name, make in methods.items():
            observers: list[OnFrame] = []
            if masks is not None:
                observers.append(MaskWriter(Path(masks) / name if len(methods) > 1 else masks, sequence))
            with _observed(sequence, name, sheet, worst, progress, len(sequence), observers) as on_frame:
                score = evaluate(sequence, make(), name=name, on_frame=on_frame)
            yield score


def compare_results(
    sequences: Iterable[Sequence],
    results: str | Path,
    *,
    sheet: Sheet | None = None,
    worst: int = 8,
    progress: Progress | None = None,
) -> Iterator[Score]:
    """Yield the score of the stored masks of each sequence; all are looked up before the first is scored.

    Parameters
    ----------
    results : path
        The tree of masks, ``results/<category>/<video>/bin%06d.png``, or without the categories; its name is that of
        the method.
    sequences, sheet, worst, progress
        As for `compare`.

    Yields
    ------
    Score

    Raises
    ------
    SourceError
        If masks are missing, or as `score_results`.

    Examples
    --------
    >>> from bgsub.evaluation import MaskWriter, Sequence, compare_results, evaluate
    >>> sequence = Sequence("sequence")
    >>> score = evaluate(sequence, "mog2", on_frame=MaskWriter("masks", sequence))
    >>> [stored.confusion == score.confusion for stored in compare_results([sequence], "masks")]
    [True]
    """
    sequences = list(sequences)
    folders = [find_results(sequence, results, alone=len(sequences) == 1) for sequence in sequences]
    for sequence, folder in zip(sequences, folders, strict=True):
        find_masks(sequence, folder)
    name = Path(results).resolve().name
    for sequence, folder in zip(sequences, folders, strict=True):
        with _observed(sequence, name, sheet, worst, progress, len(sequence.scored), []) as on_frame:
            score = score_results(sequence, folder, name=name, on_frame=on_frame)
        yield score


@contextmanager
def _observed(
    sequence: Sequence,
    name: str,
    sheet: Sheet | None,
    worst: int,
    progress: Progress | None,
    length: int,
    observers: list[OnFrame],
) -> Iterator[OnFrame]:
    """Yield what passes each frame on to all who watch a run; the sheet gets its worst frames at the end."""
    # The worst frames of one event are alike: at this distance they come from all over the run.
    kept = WorstFrames(worst, sequence.roi, gap=max(1, len(sequence.scored) // (4 * worst)))
    if sheet is not None:
        observers = [*observers, kept]
    with progress(f"{sequence.name}, {name}", length) if progress else nullcontext() as bar:

        def on_frame(number: int, frame: np.ndarray, mask: np.ndarray, truth: np.ndarray | None) -> None:
            for observer in observers:
                observer(number, frame, mask, truth)
            if bar is not None:
                bar.update()

        yield on_frame
    if sheet is not None:
        sheet.add(f"{sequence.category}/{sequence.name}, {name}", kept.frames())
