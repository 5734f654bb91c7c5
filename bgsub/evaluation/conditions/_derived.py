"""Labelled sequences derived from others, lazily, and labelled sequences held in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np

from bgsub.errors import ParameterError
from bgsub.evaluation.conditions._moment import Moment, Stream, Transform
from bgsub.evaluation.metrics import OUTSIDE
from bgsub.evaluation.sequences import Labelled


class Derived:
    """A labelled sequence as another camera, light or scene would have shown it.

    Nothing is held in memory: every pass over the frames derives them anew, and every pass is the same. The
    region of interest of the original is written into the masks (code 85), as it may move with the picture.

    Parameters
    ----------
    sequence : Labelled
        The original.
    name : str
        Name of the derived sequence.
    transform : callable
        What is done to the stream of moments.
    seed : int, default 0
        Seed of everything random.
    every : int, default 1
        Keep every so manieth frame only.
    """

    roi: np.ndarray | None = None

    def __init__(self, sequence: Labelled, name: str, transform: Transform, *, seed: int = 0, every: int = 1) -> None:
        if seed < 0:
            raise ParameterError(f"seed must be 0 or more, got {seed!r}")
        self.name = name
        self._sequence, self._transform, self._seed, self._every = sequence, transform, seed, every
        self._latest: tuple[int, np.ndarray | None] | None = None

    def __len__(self) -> int:
        return math.ceil(len(self._sequence) / self._every)

    def frames(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and picture of all frames in order."""
        for moment in self._transform(self._originals()):
            self._latest = (moment.number, moment.truth)
            yield moment.number, moment.frame

    def truth(self, number: int) -> np.ndarray | None:
        """Return the mask of a frame, (h, w), uint8, or None if it is not scored.

        For the frame that `frames` gave last it is at hand; for any other the sequence is derived up to it.
        """
        if self._latest is None or self._latest[0] != number:
            moments = self._transform(self._originals())
            return next((moment.truth for moment in moments if moment.number == number), None)
        return self._latest[1]

    def _originals(self) -> Stream:
        tick, has_begun = 0, False
        roi = self._sequence.roi
        for number, frame in islice(self._sequence.frames(), 0, None, self._every):
            truth = self._sequence.truth(number)
            if truth is not None and roi is not None:
                truth = np.where(roi, truth, OUTSIDE).astype(np.uint8)
            has_begun = has_begun or truth is not None
            yield Moment(number, tick, frame, truth, self._seed)
            tick += has_begun


class Recording:
    """The first frames of a labelled sequence, held in memory for many runs.

    Parameters
    ----------
    sequence : Labelled
        The original; it is read once.
    count : int, optional
        Number of frames; all by default.
    """

    def __init__(self, sequence: Labelled, count: int | None = None) -> None:
        if count is not None and count < 1:
            raise ParameterError(f"count must be at least 1, got {count!r}")
        self.name = sequence.name
        self._frames: dict[int, np.ndarray] = {}
        self._truths: dict[int, np.ndarray | None] = {}
        for number, frame in islice(sequence.frames(), count):
            self._frames[number], self._truths[number] = frame, sequence.truth(number)
        self.roi = sequence.roi

    def __len__(self) -> int:
        return len(self._frames)

    def frames(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and picture of all frames in order."""
        return iter(self._frames.items())

    def truth(self, number: int) -> np.ndarray | None:
        """Return the mask of a frame, (h, w), uint8, or None if it is not scored."""
        return self._truths.get(number)
