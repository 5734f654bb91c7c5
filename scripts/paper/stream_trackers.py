"""The trackers of experiment 6 under one signature.

All begin from the same random basis, `Stream.first_basis`. Settings, where they are not the authors' for streams:
`bgsub before` has the constant mu and forgetting of earlier versions, which belong to data of full scale 1, and so the
samples times 0.2. `GRASTA (constant step)` has the step with which its authors track what has been learnt. GROUSE has
the rule of its authors' code on still subspaces, with a step that is as long at every m as theirs at 500, and on those
that move the greedy step, which does not depend on the scale. It is not robust and does not claim to be: without
outliers and objects it is the yardstick of what robustness costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from baselines.grasta import Grasta
from baselines.grouse import Grouse
from stream import Stream

from bgsub import SubspaceTracker
from bgsub.errors import ParameterError

BEFORE = {"mu": 0.06, "forgetting": 0.05}
BEFORE_SCALE = 0.2  # the outliers reach 1
GRASTA_STEP = 1e-2  # angle of a step, in radians
GROUSE_STEP = 0.1 * 500


class Tracker(Protocol):
    """What all trackers have."""

    @property
    def U(self) -> np.ndarray:
        """Orthonormal basis, (m, k)."""

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> object:
        """Take a sample, (m,), and which of its entries are observed."""


class Bgsub:
    """`bgsub.SubspaceTracker`, which draws `Stream.first_basis` by itself."""

    def __init__(self, stream: Stream, scale: float = 1.0, **settings: Any) -> None:
        self._scale = scale
        self._tracker = SubspaceTracker(**{"rank": stream.largest_rank, "random_state": stream.seed, **settings})

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> None:
        """Take a sample, (m,), and which of its entries are observed."""
        self._tracker.partial_fit(self._scale * x, observed)

    @property
    def U(self) -> np.ndarray:
        """Orthonormal basis, (m, k), float64."""
        return self._tracker.components_.T.astype(np.float64)


@dataclass(frozen=True)
class Method:
    """A tracker and its part in the comparison.

    Parameters
    ----------
    make : callable
        Takes a stream, of which it may read the first samples to begin, and returns the tracker.
    colour, line : str
        How its curve looks.
    robust : bool
        Whether it claims to withstand outliers.
    clean : bool
        It is given the stream without outliers and objects.
    start : int
        Number of samples that its own start spends, of short streams at most a fifth.
    """

    make: Callable[[Stream], Tracker]
    colour: str
    line: str = "-"
    robust: bool = True
    clean: bool = False
    start: int = 0

    def stream(self, stream: Stream) -> Stream:
        """Return the stream that the method is given in place of `stream`."""
        return replace(stream, outliers=0.0, block=0.0) if self.clean else stream

    def spent(self, stream: Stream) -> int:
        """Return the number of samples that are spent before the first update."""
        return min(self.start, stream.length // 5)


def _size(stream: Stream) -> dict[str, Any]:
    return {"rank": stream.largest_rank, "dimension": stream.dimension, "U": stream.first_basis()}


def _grasta(stream: Stream) -> Tracker:
    return Grasta(**_size(stream))


def _grasta_constant(stream: Stream) -> Tracker:
    return Grasta(**_size(stream), constant_step=GRASTA_STEP)


def _grouse(stream: Stream) -> Tracker:
    if stream.speed or stream.change:
        return Grouse(**_size(stream), rule="greedy")
    return Grouse(**_size(stream), step=GROUSE_STEP / stream.dimension, rule="diminishing")


def _before(stream: Stream) -> Tracker:
    return Bgsub(stream, BEFORE_SCALE, **BEFORE)


def _auto(stream: Stream) -> Tracker:
    return Bgsub(stream, rank="auto")


def _finds_rank() -> bool:
    """Say whether SubspaceTracker takes ``rank="auto"``."""
    try:
        SubspaceTracker(rank="auto")  # type: ignore[arg-type,unused-ignore]
    except ParameterError:
        return False
    return True


OURS, BEFORE_NAME, AUTO, YARDSTICK = "bgsub", "bgsub before", "bgsub (auto rank)", "GROUSE (no outliers)"
COMPARED = {
    OURS: Method(Bgsub, "tab:blue"),
    BEFORE_NAME: Method(_before, "tab:cyan", "--"),
    "GRASTA": Method(_grasta, "tab:green"),
    "GRASTA (constant step)": Method(_grasta_constant, "tab:olive", "--"),
    "GROUSE": Method(_grouse, "tab:orange", "--", robust=False),
    YARDSTICK: Method(_grouse, "tab:orange", ":", robust=False, clean=True),
}
METHODS = COMPARED | ({AUTO: Method(_auto, "tab:purple")} if _finds_rank() else {})
RIVALS = tuple(name for name, method in COMPARED.items() if method.robust and name not in (OURS, BEFORE_NAME))
