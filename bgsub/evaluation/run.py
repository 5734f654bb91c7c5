"""Side-by-side runs: every frame to a method in order, scores where there are masks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

import numpy as np

from bgsub.errors import ParameterError, SourceError
from bgsub.evaluation.metrics import Confusion, confusion
from bgsub.evaluation.sequences import Labelled, Sequence, numbered, read_codes

METHODS = ("bgsub", "mog2", "knn")

OnFrame = Callable[[int, np.ndarray, np.ndarray, np.ndarray | None], None]

_COLUMNS = ("recall", "specificity", "fpr", "fnr", "pwc", "precision", "f_measure")
_HEADS = ("sequence", "method", "recall", "specificity", "FPR", "FNR", "PWC", "precision", "F", "ms/frame")


class Method(Protocol):
    """A background subtractor: frame in, mask out."""

    def apply(self, image: np.ndarray) -> np.ndarray:
        """Return the mask (h, w), uint8, of the next frame."""


@dataclass(frozen=True)
class Score:
    """What one method reached on one sequence.

    Attributes
    ----------
    sequence, method : str
        Their names.
    confusion : Confusion
        The pixels of all scored frames.
    frames : int
        Number of scored frames.
    milliseconds : float
        Median time of one frame, over all frames; nan where no method ran.
    """

    sequence: str
    method: str
    confusion: Confusion
    frames: int
    milliseconds: float = math.nan


def make_method(name: str) -> Method:
    """Return a fresh method with its default settings.

    Parameters
    ----------
    name : {"bgsub", "mog2", "knn"}
        This package, or OpenCV's BackgroundSubtractorMOG2 or BackgroundSubtractorKNN.

    Raises
    ------
    ParameterError
        If there is no such method.
    """
    if name == "bgsub":
        from bgsub.subtractor import BackgroundSubtractor  # noqa: PLC0415 - it brings Numba along

        return BackgroundSubtractor()
    from bgsub._opencv import cv2  # noqa: PLC0415 - the metrics work without it

    if name == "mog2":
        return cv2.createBackgroundSubtractorMOG2()
    if name == "knn":
        return cv2.createBackgroundSubtractorKNN()
    raise ParameterError(f"method must be one of {', '.join(METHODS)}, got {name!r}")


def evaluate(
    sequence: Labelled,
    method: str | Method = "bgsub",
    *,
    name: str | None = None,
    on_frame: OnFrame | None = None,
) -> Score:
    """Feed all frames from the first one on to a method and score those that have a mask.

    Parameters
    ----------
    sequence : Sequence or SceneSequence
        The frames and masks.
    method : str or object with ``apply(frame) -> mask``
        A name for `make_method`, or a fresh background subtractor.
    name : str, optional
        Name of the method in the score; by default the one given or the name of the type.
    on_frame : callable, optional
        Called after each frame with ``(number, frame, mask, truth or None)``.

    Returns
    -------
    Score
        The counts and the median time of ``apply``, without reading and scoring.

    Raises
    ------
    ParameterError
        If there is no such method, or it returns something that is no mask.
    SourceError
        If a file cannot be read, or a mask differs from its frame in size.
    """
    label = name or (method if isinstance(method, str) else type(method).__name__)
    subtractor = make_method(method) if isinstance(method, str) else method
    total, scored, times = Confusion(), 0, []
    for number, frame in sequence.frames():
        start = time.perf_counter()
        mask = subtractor.apply(frame)
        times.append(time.perf_counter() - start)
        truth = sequence.truth(number)
        if truth is not None:
            _same_size(sequence.name, number, truth, "groundtruth", frame)
            total += confusion(mask, truth, sequence.roi)
            scored += 1
        if on_frame is not None:
            on_frame(number, frame, mask, truth)
    return Score(sequence.name, label, total, scored, 1000 * median(times))


def score_results(sequence: Sequence, results: str | Path, *, name: str | None = None) -> Score:
    """Score masks that some program has written: ``bin%06d.png``, one for each scored frame.

    Parameters
    ----------
    sequence : Sequence
        The frames and true masks.
    results : path
        Folder of the masks.
    name : str, optional
        Name of the method in the score; by default the name of the folder.

    Raises
    ------
    SourceError
        If the folder or the mask of a scored frame is missing, or a mask differs from its frame in size.
    """
    folder = Path(results)
    found = numbered(folder, "bin")
    total = Confusion()
    for number in sequence.scored:
        if number not in found:
            raise SourceError(f"folder {folder} has no mask for frame {number} (bin{number:06d}.png)")
        truth = sequence.truth(number)
        assert truth is not None
        mask = read_codes(found[number])
        _same_size(sequence.name, number, mask, found[number].name, truth)
        total += confusion(mask, truth, sequence.roi)
    return Score(sequence.name, name or folder.resolve().name, total, len(sequence.scored))


def format_table(scores: Iterable[Score]) -> str:
    """Return the scores as a text table, one line each; ``-`` where a ratio is not defined."""
    rows: list[tuple[str, ...]] = [_HEADS]
    for score in scores:
        values = [_number(getattr(score.confusion, column), 4) for column in _COLUMNS]
        rows.append((score.sequence, score.method, *values, _number(score.milliseconds, 2)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS))]
    lines = [
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def _number(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _same_size(sequence: str, number: int, mask: np.ndarray, what: str, other: np.ndarray) -> None:
    if mask.shape != other.shape[:2]:
        size, wanted = (f"{shape[1]}x{shape[0]}" for shape in (mask.shape, other.shape))
        raise SourceError(f"mask of frame {number} of {sequence} ({what}) is {size}, the frame is {wanted}")
