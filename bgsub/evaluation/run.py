"""Side-by-side runs: every frame to a method in order, scores where there are masks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.evaluation.files import read_codes
from bgsub.evaluation.methods import Method, make_method
from bgsub.evaluation.metrics import Confusion, confusion
from bgsub.evaluation.results import find_masks
from bgsub.evaluation.sequences import Labelled, Sequence, size_of
from bgsub.numerics.compilation import working_time

OnFrame = Callable[[int, np.ndarray, np.ndarray, np.ndarray | None], None]


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
    category : str
        Category of the sequence; empty where it has none.
    length : int
        Number of all frames.
    """

    sequence: str
    method: str
    confusion: Confusion
    frames: int
    milliseconds: float = math.nan
    category: str = ""
    length: int = 0


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
        If there is no such method, it returns something that is no mask, or OpenCV refuses the frames.
    SourceError
        If a file cannot be read, or a mask differs from its frame in size.

    Examples
    --------
    >>> from bgsub.evaluation import Sequence, evaluate
    >>> score = evaluate(Sequence("sequence"))
    >>> score.method, score.frames, score.confusion.f_measure > 0.5
    ('bgsub', 60, True)
    """
    label = name or (method if isinstance(method, str) else type(method).__name__)
    subtractor = make_method(method) if isinstance(method, str) else method
    total, scored, times = Confusion(), 0, []
    for number, frame in sequence.frames():
        start = working_time()
        mask = _apply(subtractor, frame, label, sequence.name)
        times.append(working_time() - start)
        truth = sequence.truth(number)
        if truth is not None:
            _same_size(sequence.name, number, truth, "groundtruth", frame)
            total += confusion(mask, truth, sequence.roi)
            scored += 1
        if on_frame is not None:
            on_frame(number, frame, mask, truth)
    category = getattr(sequence, "category", "")
    return Score(sequence.name, label, total, scored, 1000 * median(times), category, len(times))


def score_results(
    sequence: Sequence, results: str | Path, *, name: str | None = None, on_frame: OnFrame | None = None
) -> Score:
    """Score masks that some program has written: ``bin%06d.png``, one for each scored frame.

    Parameters
    ----------
    sequence : Sequence
        The frames and true masks.
    results : path
        Folder of the masks.
    name : str, optional
        Name of the method in the score; by default the name of the folder.
    on_frame : callable, optional
        Called after each scored frame with ``(number, frame, mask, truth)``; without it no frame is read.

    Returns
    -------
    Score
        Without a time.

    Raises
    ------
    SourceError
        If the folder or the mask of a scored frame is missing, or a mask differs from its frame in size.

    Examples
    --------
    >>> from bgsub.evaluation import MaskWriter, Sequence, evaluate, score_results
    >>> sequence = Sequence("sequence")
    >>> score = evaluate(sequence, "knn", on_frame=MaskWriter("masks", sequence))
    >>> folder = f"masks/{sequence.category}/{sequence.name}"
    >>> score_results(sequence, folder, name="stored").method
    'stored'
    """
    folder = Path(results)
    found = find_masks(sequence, folder)
    total = Confusion()
    for number in sequence.scored:
        truth = sequence.truth(number)
        assert truth is not None
        mask = read_codes(found[number])
        _same_size(sequence.name, number, mask, found[number].name, truth)
        total += confusion(mask, truth, sequence.roi)
        if on_frame is not None:
            on_frame(number, sequence.frame(number), mask, truth)
    label, category = name or folder.resolve().name, getattr(sequence, "category", "")
    return Score(sequence.name, label, total, len(sequence.scored), category=category, length=len(sequence))


def _apply(method: Method, frame: np.ndarray, name: str, sequence: str) -> np.ndarray:
    try:
        return method.apply(frame)
    except cv2.error as error:
        reason = " ".join(str(getattr(error, "err", "") or error).split())
        raise ParameterError(
            f"{name} does not take the frames of {sequence}, {frame.dtype} of shape {frame.shape}: {reason}"
        ) from None


def _same_size(sequence: str, number: int, mask: np.ndarray, what: str, other: np.ndarray) -> None:
    if mask.shape != other.shape[:2]:
        raise SourceError(
            f"mask of frame {number} of {sequence} ({what}) is {size_of(mask)}, the frame is {size_of(other)}"
        )
