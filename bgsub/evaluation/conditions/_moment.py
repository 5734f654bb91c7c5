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
    """One frame, its mask and its time."""

    number: int  # number of the frame in its sequence
    tick: int  # frames since the first scored one; 0 before it, so that timed events fall into the scored part
    frame: np.ndarray  # (h, w, 3) BGR or (h, w), uint8 or uint16
    truth: np.ndarray | None  # (h, w), uint8, in the codes of changedetection.net; None where it is not scored
    seed: int  # of the derived sequence

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
    """Turn ``change(moment, *args) -> moment`` into a maker: ``maker(*args)`` is the change of a whole stream."""

    @wraps(change)
    def maker(*args: Rest.args, **kwargs: Rest.kwargs) -> Transform:
        return lambda stream: (change(moment, *args, **kwargs) for moment in stream)

    return maker
