"""One frame of a labelled stream, and what every condition needs to change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np

Rest = ParamSpec("Rest")


@dataclass(frozen=True)
class Moment:
    """One frame, its mask and its time.

    Attributes
    ----------
    number : int
        Number of the frame in its sequence.
    tick : int
        Frames since the first scored one; 0 before it, so that timed events fall into the scored part.
    frame : ndarray, (h, w, 3) BGR or (h, w), uint8 or uint16
        The picture.
    truth : ndarray, (h, w), uint8, or None
        The mask in the codes of changedetection.net; None where the frame is not scored.
    seed : int
        Seed of the derived sequence.
    """

    number: int
    tick: int
    frame: np.ndarray
    truth: np.ndarray | None
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator of this frame, the same at every call."""
        return np.random.default_rng((self.seed, self.number))

    @property
    def levels(self) -> np.ndarray:
        """The frame in grey levels from 0 to 255, float32, whatever its depth."""
        return self.frame.astype(np.float32) * np.float32(255 / np.iinfo(self.frame.dtype).max)

    def seen(self, levels: np.ndarray) -> Moment:
        """Return the moment with other grey levels (0 to 255), clipped and rounded as a sensor does."""
        full = int(np.iinfo(self.frame.dtype).max)
        values = np.clip(np.rint(levels * np.float32(full / 255)), 0, full)
        return replace(self, frame=values.astype(self.frame.dtype))


Stream = Iterator[Moment]
Transform = Callable[[Stream], Stream]


def per_frame(change: Callable[Concatenate[Moment, Rest], Moment]) -> Callable[Rest, Transform]:
    """Turn a change of one moment into a maker of transforms of whole streams.

    Parameters
    ----------
    change : callable
        ``change(moment, *args) -> moment``.

    Returns
    -------
    callable
        ``maker(*args)`` returns the transform that applies `change` with these arguments to every moment.
    """

    @wraps(change)
    def maker(*args: Rest.args, **kwargs: Rest.kwargs) -> Transform:
        return lambda stream: (change(moment, *args, **kwargs) for moment in stream)

    return maker
