"""Synthetic streams whose subspace is known (experiment 6).

A sample is ``x = U(t) c`` of length m, with an object before it and outliers s and noise n upon it: the low-rank part
has entries of unit variance (c Gaussian), s is uniform in [-5, 5] on a share of the entries, as in the paper's
experiments with matrices, and n is Gaussian. All k principal angles between U(0) and U(t) grow by the same number of
radians per sample, until the subspace changes at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

MAGNITUDE = 5.0
OBJECT_LEVEL, OBJECT_CONTRAST = 2.5, 0.5  # an object has values from 2 to 3
OBJECT_SAMPLES = 200  # in which it crosses the whole range of the entries


@dataclass(frozen=True)
class Stream:
    """A stream of samples; each random component has its own generator, so that streams differ in one component only.

    Parameters
    ----------
    dimension, rank, length : int
        m, k and the number of samples.
    speed : float
        Radians by which the subspace turns per sample; 0 for a still one.
    observed : float
        Share of the entries that are observed, each by itself at random.
    outliers : float
        Share of the entries with an outlier.
    noise : float
        Signal-to-noise ratio in dB, of the low-rank part to n; inf for no noise.
    block : float
        Share of the entries that an object covers: a contiguous block with a smooth pattern of its own, which moves
        on by m / 200 entries per sample and returns at the other end. It replaces what is behind it.
    change : int
        Sample, counted from 0, at which another random subspace begins; 0 for never.
    rank_after : int
        Rank from the change on; 0 for the same.
    kept : int
        Number of directions that survive the change.
    seed : int
        Seed of all generators.
    """

    dimension: int = 500
    rank: int = 5
    length: int = 3000
    speed: float = 0.0
    observed: float = 1.0
    outliers: float = 0.1
    noise: float = 60.0
    block: float = 0.0
    change: int = 0
    rank_after: int = 0
    kept: int = 0
    seed: int = 0

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield U(t), (m, k), the sample, (m,), and which entries are observed, (m,) bool or None for all."""
        m = self.dimension
        low_rank, noise, outliers, masks = (self._generator(part) for part in (1, 2, 3, 4))
        deviation, pattern = 10 ** (-self.noise / 20), self.object_pattern()
        for t, U in enumerate(self._bases()):
            k = U.shape[1]
            x = U @ low_rank.standard_normal(k) * np.sqrt(m / k)
            x[self.covered(t)] = pattern
            x += deviation * noise.standard_normal(m)
            x += np.where(outliers.random(m) < self.outliers, outliers.uniform(-MAGNITUDE, MAGNITUDE, m), 0.0)
            yield U, x, masks.random(m) < self.observed if self.observed < 1 else None

    def _bases(self) -> Iterator[np.ndarray]:
        """Yield U(t), (m, k): it turns from the first half of an orthonormal Q, (m, 2 k), towards the second."""
        first, later = self._generator(0), self._generator(5)
        k, turned = self.rank, 0.0
        Q = np.linalg.qr(first.standard_normal((self.dimension, 2 * k)))[0]
        U = Q[:, :k]
        for t in range(self.length):
            if t == self.change > 0:
                k, turned, kept = self.rank_after or self.rank, 0.0, U[:, : self.kept]
                fresh = later.standard_normal((self.dimension, 2 * k - self.kept))
                Q = np.linalg.qr(np.hstack([kept, fresh]))[0]
            U = Q[:, :k] * np.cos(turned) + Q[:, k:] * np.sin(turned)
            turned += self.speed
            yield U

    def covered(self, t: int) -> np.ndarray:
        """Return the entries that the object covers at sample t, (block m,), in the order of its pattern."""
        m = self.dimension
        return (t * m // OBJECT_SAMPLES + np.arange(round(self.block * m))) % m

    def object_pattern(self) -> np.ndarray:
        """Return the values of the object, (block m,): three harmonics of random phase and weight about a level."""
        rng, place = self._generator(6), np.linspace(0, 1, round(self.block * self.dimension))
        weights, phases = rng.dirichlet(np.ones(3)), rng.random(3)
        waves = np.cos(2 * np.pi * (np.outer(place, (1, 2, 3)) + phases))
        return OBJECT_LEVEL + OBJECT_CONTRAST * waves @ weights

    def _generator(self, part: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, part])

    @property
    def largest_rank(self) -> int:
        """The rank that a tracker is given."""
        return max(self.rank, self.rank_after)

    def first_basis(self) -> np.ndarray:
        """Return the random U, (m, largest rank), of the start: the one that SubspaceTracker draws itself."""
        shape = self.dimension, self.largest_rank
        return np.linalg.qr(np.random.default_rng(self.seed).standard_normal(shape))[0]


def angle(U: np.ndarray, V: np.ndarray) -> float:
    """Return the largest principal angle, in radians, of a true subspace to the one found.

    Parameters
    ----------
    U : ndarray, (m, j)
        Orthonormal basis that was found; where j > k, its best directions count.
    V : ndarray, (m, k)
        Orthonormal basis of the truth.

    Returns
    -------
    float
        pi / 2 where j < k, and where U is not finite.
    """
    if not np.isfinite(U).all():
        return np.pi / 2
    return float(np.arcsin(min(np.linalg.norm(V - U @ (U.T @ V), 2), 1.0)))
