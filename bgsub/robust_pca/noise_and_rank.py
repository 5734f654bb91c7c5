"""What is noise, and how many directions there are: the judgements of a graduated fit."""

from __future__ import annotations

import numpy as np

# In deviations of normal noise, the width at which the log cost has 95 % of the efficiency of least squares.
EFFICIENT = 2.4
NORMAL_RIDGE = 1 / EFFICIENT**2  # strength of the ridge that suits normal noise
_DECADE = 10  # a fall of mu over which ...
_STALLED = 0.65  # ... the residual of data without noise falls below this share ...
_SLOW = 10  # ... if it takes at least so many steps
CLEAR = 2.5  # times the spectral norm of independent entries: the least singular value of a true direction ...
_EMPTY = 0.05  # ... and the share of it that the next one must not have for a gap
_EDGE = 1.2  # times the same norm: what stands out of noise
_POWERS = 20


class NoiseFloor:
    """Where the residual of the inliers no longer follows mu: the rest is noise, and a smaller mu would fit it."""

    def __init__(self) -> None:
        self.point = np.empty(0)
        self.mu = 0.0
        self._past: list[tuple[float, float]] = []

    def reached(self, mu: float, residual: float, point: np.ndarray, settled: bool) -> bool:
        """Tell whether the floor is known by now; `mu` and `point` are then those at which it was met."""
        self._past.append((mu, residual))
        if is_within(residual, mu):
            self.mu = 0.0
            return False
        if self.mu == 0:
            self.mu, self.point = mu, point
        while len(self._past) > 1 and self._past[1][0] >= _DECADE * mu:
            self._past.pop(0)
        before, most = self._past[0][0], max(residual for _, residual in self._past)
        slow = len(self._past) >= _SLOW  # a mu that falls faster follows the residual
        return slow and settled and before >= _DECADE * mu and residual > _STALLED * most


def is_within(residual: float, mu: float) -> bool:
    """Tell whether a residual of that scale is that of inliers at `mu`."""
    return mu > (EFFICIENT * residual) ** 2


def noise_norm(E: np.ndarray) -> float:
    """Return the spectral norm that `E`, (n, m), would have if its entries were independent."""
    n, m = E.shape
    return float((np.sqrt(n) + np.sqrt(m)) * np.linalg.norm(E) / np.sqrt(n * m))


def is_noise(E: np.ndarray, rng: np.random.Generator) -> bool:
    """Tell whether `E`, (n, m), has no singular value that stands out of those with random signs.  O(m n).

    Random signs leave nothing of a low rank, and the sizes of the entries as they are. `E` has them afterwards.

    References
    ----------
    D. Hong, Y. Sheng and E. Dobriban, Selecting the number of components in PCA via random signs, 2020.
    """
    norm = _spectral_norm(E, rng)
    for i in range(len(E)):
        E[i] *= 1 - 2 * rng.integers(0, 2, E.shape[1], np.int8)
    return norm <= _EDGE * _spectral_norm(E, rng)


def _spectral_norm(E: np.ndarray, rng: np.random.Generator) -> float:
    """Return the largest singular value nearly, by power iteration."""
    v = np.asarray(rng.standard_normal(E.shape[1]), E.dtype)
    for _ in range(_POWERS):
        v = E.T @ (E @ (v / max(np.linalg.norm(v), np.finfo(E.dtype).tiny)))
    return float(np.sqrt(np.linalg.norm(v)))


def gap(values: np.ndarray, noise: float, ridge: float) -> int | None:
    """Return how many of the falling singular `values` are before a gap and stand out of `noise`; None for no gap."""
    places = np.flatnonzero((values[1:] < _EMPTY * values[:-1]) & (values[:-1] + ridge > CLEAR * noise))
    return int(places[0]) + 1 if len(places) else None
