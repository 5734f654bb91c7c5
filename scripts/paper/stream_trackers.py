"""Synthetic streams whose subspace is known, and the trackers of experiment 6 under one signature.

A sample is ``x = U(t) c + s + n`` of length m: the low-rank part has entries of unit variance (c Gaussian), the
outliers s are uniform in [-5, 5] on a share of the entries, as in the paper's experiments with matrices, and n is
Gaussian with a standard deviation of 1e-3. All k principal angles between U(0) and U(t) grow by the same number of
radians per sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from baselines.grasta import Grasta
from baselines.grouse import Grouse

from bgsub import RobustPCA, SubspaceTracker

SCALE = 0.2  # of what SubspaceTracker is given: the outliers reach its full scale 1, where its defaults belong
NOISE = 1e-3
MAGNITUDE = 5.0
AUTHORS_STEP = 1e-2  # GRASTA's constant angle for a subspace that is known already


@dataclass(frozen=True)
class Stream:
    """A stream of samples.

    Parameters
    ----------
    dimension, rank, length : int
        m, k and the number of samples.
    speed : float
        Radians by which the subspace turns per sample; 0 for a static one.
    observed : float
        Share of the entries that are observed, each by itself at random.
    outliers : float
        Share of the entries with an outlier.
    seed : int
        Seed; low-rank part, noise, outliers and masks are drawn one by one, so that streams differ in nothing else.
    """

    dimension: int
    rank: int
    length: int
    speed: float
    observed: float
    outliers: float
    seed: int

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield U(t), (m, k), the sample, (m,), and which entries are observed, (m,) bool or None for all."""
        m, k = self.dimension, self.rank
        basis, low_rank, noise, outliers, masks = (np.random.default_rng([self.seed, part]) for part in range(5))
        Q = np.linalg.qr(basis.standard_normal((m, 2 * k)))[0]
        for t in range(self.length):
            U = Q[:, :k] * np.cos(self.speed * t) + Q[:, k:] * np.sin(self.speed * t)
            x = U @ low_rank.standard_normal(k) * np.sqrt(m / k) + NOISE * noise.standard_normal(m)
            x += np.where(outliers.random(m) < self.outliers, outliers.uniform(-MAGNITUDE, MAGNITUDE, m), 0.0)
            yield U, x, masks.random(m) < self.observed if self.observed < 1 else None

    def first_basis(self) -> np.ndarray:
        """Return the random U, (m, k), that every tracker begins from: the one SubspaceTracker draws by itself."""
        return np.linalg.qr(np.random.default_rng(self.seed).standard_normal((self.dimension, self.rank)))[0]


@lru_cache(maxsize=4)
def batch(stream: Stream, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return U, (m, k), and coefficients, (count, k), that robust PCA finds in the first samples."""
    samples = [(x, mask) for (_, x, mask), _ in zip(stream, range(count), strict=False)]
    X = np.stack([x for x, _ in samples])
    observed = None if samples[0][1] is None else np.stack([mask for _, mask in samples])
    model = RobustPCA(stream.rank).fit(X if observed is None else np.where(observed, X, 0.0), observed=observed)
    return model.components_.T, model.coefficients_


class Tracker(Protocol):
    """What all trackers have."""

    U: np.ndarray

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> object:
        """Take a sample, (m,), and which of its entries are observed."""


class Bgsub:
    """`bgsub.SubspaceTracker` with its defaults but mu, on samples of scale `SCALE`."""

    def __init__(self, stream: Stream, mu: float | None, start: tuple[np.ndarray, np.ndarray] | None) -> None:
        self._tracker = SubspaceTracker(stream.rank, mu=mu, random_state=stream.seed)
        if start is not None:
            self._tracker.initialise(start[0].T, SCALE * start[1])

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> None:
        """Take a sample, (m,), and which of its entries are observed."""
        self._tracker.partial_fit(SCALE * x, observed)

    @property
    def U(self) -> np.ndarray:
        """Orthonormal basis, (m, k)."""
        return self._tracker.components_.T.astype(np.float64)


def _bgsub(mu: float | None) -> Callable[[Stream, tuple[np.ndarray, np.ndarray] | None], Tracker]:
    return lambda stream, start: Bgsub(stream, mu, start)


def _grasta(stream: Stream, start: tuple[np.ndarray, np.ndarray] | None, step: float | None = None) -> Tracker:
    U = stream.first_basis() if start is None else start[0]
    return Grasta(stream.rank, stream.dimension, constant_step=step, U=U)


def _grasta_constant(stream: Stream, start: tuple[np.ndarray, np.ndarray] | None) -> Tracker:
    return _grasta(stream, start, AUTHORS_STEP)


def _grouse(stream: Stream, start: tuple[np.ndarray, np.ndarray] | None) -> Tracker:
    U = stream.first_basis() if start is None else start[0]
    return Grouse(stream.rank, stream.dimension, rule="greedy" if stream.speed else "diminishing", U=U)


TRACKERS = {
    "bgsub": _bgsub(None),
    "bgsub, mu = 0.01": _bgsub(0.01),
    "GRASTA": _grasta,
    "GRASTA, constant step": _grasta_constant,
    "GROUSE": _grouse,
}


def angle(U: np.ndarray, V: np.ndarray) -> float:
    """Return the largest principal angle, in radians, between the spans of two orthonormal bases, (m, k)."""
    return float(np.arcsin(min(np.linalg.norm(V - U @ (U.T @ V), 2), 1.0)))
