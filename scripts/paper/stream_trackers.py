"""The trackers of experiment 6 under one signature.

All begin from the same random basis, `Stream.first_basis`, but NORST, which is meant for a start by robust PCA of the
first samples and has it here by `bgsub.RobustPCA`; these samples are then spent. Settings are the authors' (see
`baselines`); where there is a choice:

NORST's threshold is the size of the sample, as its authors have it for real data, which is above many of these
outliers; `NORST (told)` has a threshold and a window that were chosen on these streams, 0.3 and 20. `bgsub before` has
the constant mu and forgetting of earlier versions, which belong to data of full scale 1, and so the samples times 0.2.
`GRASTA (constant step)` has the step with which its authors track what has been learnt. OR-PCA is given columns of norm
one, to which its authors' weights belong. GROUSE has the rule of its authors' code on still subspaces, with a step that
is as long at every m as theirs at 500, and on those that move the greedy step, which does not depend on the scale.
GROUSE and PETRELS are not robust and do not claim to be; GROUSE without outliers and objects is the yardstick of what
robustness costs. OR-PCA and incremental robust PCA know no missing entries and are asked about complete streams only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np
from baselines import Grasta, Grouse, IncrementalRobustPCA, Norst, OnlineRobustPCA, Petrels
from stream import Stream

from bgsub import RobustPCA, SubspaceTracker

BEFORE = {"mu": 0.06, "forgetting": 0.05}
BEFORE_SCALE = 0.2  # the outliers reach 1
GRASTA_STEP = 1e-2  # angle of a step, in radians
GROUSE_STEP = 0.1 * 500
START = 200  # samples


class Tracker(Protocol):
    """What all trackers have."""

    @property
    def U(self) -> np.ndarray:
        """Orthonormal basis, (m, k)."""

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> object:
        """Take a sample, (m,), and which of its entries are observed."""


class Bgsub:
    """`bgsub.SubspaceTracker`, which draws `Stream.first_basis` itself."""

    def __init__(self, stream: Stream, **settings: Any) -> None:
        self._tracker = SubspaceTracker(**{"rank": stream.largest_rank, "random_state": stream.seed, **settings})

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> None:
        """Take a sample, (m,), and which of its entries are observed."""
        self._tracker.partial_fit(x, observed)

    @property
    def U(self) -> np.ndarray:
        """Orthonormal basis, (m, k), float64."""
        return self._tracker.components_.T.astype(np.float64)


class Scaled:
    """A tracker that is given the samples times a factor."""

    def __init__(self, tracker: Tracker, scale: float) -> None:
        self._tracker, self._scale = tracker, scale

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> None:
        """Take a sample, (m,), and which of its entries are observed."""
        self._tracker.update(self._scale * x, observed)

    @property
    def U(self) -> np.ndarray:
        """Orthonormal basis, (m, k)."""
        return self._tracker.U


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
    missing : bool
        Whether it takes samples with missing entries.
    clean : bool
        It is given the stream without outliers and objects.
    start : int
        Number of samples that its own start spends, of short streams at most a fifth.
    """

    make: Callable[[Stream], Tracker]
    colour: str
    line: str = "-"
    robust: bool = True
    missing: bool = True
    clean: bool = False
    start: int = 0

    def stream(self, stream: Stream) -> Stream:
        """Return the stream that the method is given in place of `stream`."""
        return replace(stream, outliers=0.0, block=0.0) if self.clean else stream

    def takes(self, stream: Stream) -> bool:
        """Say whether the method can be asked about a stream."""
        return self.missing or stream.observed == 1

    def spent(self, stream: Stream) -> int:
        """Return the number of samples that are spent before the first update."""
        return min(self.start, stream.length // 5)


def batch(stream: Stream, count: int) -> np.ndarray:
    """Return U, (m, k), that robust PCA finds in the first samples."""
    samples = list(islice(((x, observed) for _, x, observed in stream), count))
    X = np.stack([x for x, _ in samples])
    if stream.observed == 1:
        return RobustPCA(stream.largest_rank).fit(X).components_.T
    observed = np.stack([mask for _, mask in samples])
    return RobustPCA(stream.largest_rank).fit(np.where(observed, X, 0.0), observed=observed).components_.T


def _sizes(stream: Stream) -> dict[str, Any]:
    return {"rank": stream.largest_rank, "dimension": stream.dimension}


def _from_first(tracker: Callable[..., Tracker], **settings: Any) -> Callable[[Stream], Tracker]:
    return lambda stream: tracker(**_sizes(stream), U=stream.first_basis(), **settings)


def _grouse(stream: Stream) -> Tracker:
    if stream.speed or stream.change:
        return _from_first(Grouse, rule="greedy")(stream)
    return _from_first(Grouse, rule="diminishing", step=GROUSE_STEP / stream.dimension)(stream)


def _norst(**settings: Any) -> Callable[[Stream], Tracker]:
    return lambda stream: Norst(**_sizes(stream), U=batch(stream, METHODS["NORST"].spent(stream)), **settings)


def _online(stream: Stream) -> Tracker:
    return Scaled(_from_first(OnlineRobustPCA)(stream), stream.dimension**-0.5)


def _before(stream: Stream) -> Tracker:
    return Scaled(Bgsub(stream, **BEFORE), BEFORE_SCALE)


def _auto(stream: Stream) -> Tracker:
    return Bgsub(stream, rank="auto")


OURS, BEFORE_NAME, AUTO, YARDSTICK = "bgsub", "bgsub before", "bgsub (auto rank)", "GROUSE (no outliers)"
COMPARED = {
    OURS: Method(Bgsub, "tab:blue"),
    BEFORE_NAME: Method(_before, "tab:cyan", "--"),
    "GRASTA": Method(_from_first(Grasta), "tab:green"),
    "GRASTA (constant step)": Method(_from_first(Grasta, constant_step=GRASTA_STEP), "tab:olive", "--"),
    "NORST": Method(_norst(), "tab:red", start=START),
    "NORST (told)": Method(_norst(threshold=0.3, window=20), "tab:red", "--", start=START),
    "OR-PCA": Method(_online, "tab:purple", missing=False),
    "incremental robust PCA": Method(_from_first(IncrementalRobustPCA), "tab:brown", missing=False),
    "PETRELS": Method(_from_first(Petrels), "tab:gray", "--", robust=False),
    "GROUSE": Method(_grouse, "tab:orange", "--", robust=False),
    YARDSTICK: Method(_grouse, "tab:orange", ":", robust=False, clean=True),
}
METHODS = COMPARED | {AUTO: Method(_auto, "tab:pink")}
RIVALS = tuple(name for name, method in COMPARED.items() if method.robust and name not in (OURS, BEFORE_NAME))
