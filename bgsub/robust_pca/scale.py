"""The scale of the data, and that of what a fit leaves of them."""

from __future__ import annotations

import numpy as np

_QUANTILE = 0.25  # of the absolute residual: it stays on the inliers while there are more outliers than inliers
_NORMAL_QUANTILE = 0.31863936  # the same quantile of a standard normal variable
_SIDE = 50  # rows and columns of the sample from which the scale is taken
_LEAST_SHARE = 0.05  # of free entries per entry, in the correction for the degrees of freedom
_LARGEST = 1e6  # scales of the data: beyond it an entry is an outlier for every cost


class ResidualScale:
    """The standard deviation of the inliers of a residual, from the lower quartile of some of its absolute entries.

    Parameters
    ----------
    X : ndarray, (n, m)
        Samples as rows.
    observed : ndarray, (n, m), bool
        Entries that count.
    rank : int
        Rank of the fit: k (m + n - k) of the entries are used up by it.
    rng : Generator
        Draws the rows and columns that are looked at.
    """

    def __init__(self, X: np.ndarray, observed: np.ndarray, rank: int, rng: np.random.Generator) -> None:
        rows, columns = _live(X)
        n, m = len(rows), len(columns)
        self._rows, self._columns = _some(rows, rng), _some(columns, rng)
        self._seen = observed[np.ix_(self._rows, self._columns)]
        if not self._seen.any():
            self._rows, self._columns = np.arange(X.shape[0]), np.arange(X.shape[1])
            self._seen = observed
        self._X = X[np.ix_(self._rows, self._columns)]
        counted = observed if X.shape == (n, m) else observed[np.ix_(rows, columns)]
        self._used = rank * max(m + n - rank, 0) / max(int(np.count_nonzero(counted)), 1)

    def of_data(self) -> float:
        """Return the scale of the entries themselves; their root mean square where a quarter of them is zero."""
        entries = self._X[self._seen]
        scale = _quartile(np.abs(entries)) / _NORMAL_QUANTILE
        return scale or float(np.sqrt(np.mean(np.square(entries, dtype=np.float64))))

    def of_residual(self, A: np.ndarray, B: np.ndarray, mu: float = np.inf) -> float:
        """Return the scale of ``X - A B'`` for A, (n, k), and B, (m, k).

        Only entries with a weight, that of ``log`` at `mu`, count as observed where what the fit has used up is
        allowed for: a fit that follows its own noise leaves hardly more of them than it has parameters.
        """
        residual = self._X - A[self._rows] @ B[self._columns].T
        r = np.abs(residual[self._seen])
        weighted = float(np.mean(1 / (1 + np.square(r, dtype=np.float64) / mu)))
        free = max(1 - self._used / weighted, _LEAST_SHARE)
        return _quartile(r) / (_NORMAL_QUANTILE * float(np.sqrt(free)))


def scale_of_data(X: np.ndarray, observed: np.ndarray) -> float:
    """Return the scale of the entries of X, (n, m), always that of the same ones."""
    return ResidualScale(X, observed, 0, np.random.default_rng(0)).of_data()


def clipped(X: np.ndarray, observed: np.ndarray, most: float = _LARGEST, scale: float | None = None) -> np.ndarray:
    """Return X, (n, m), with its entries cut at `most` scales of the data; X itself where none is larger.

    Entries so large that their squares would drown all others are cut by default. The `scale` is given where known.
    """
    limit = most * (scale_of_data(X, observed) if scale is None else scale)
    if not 0 < limit < max(X.max(), -X.min()):
        return X
    return np.clip(X, -limit, limit).astype(X.dtype, copy=False)


def _live(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and the columns of X, (n, m), that are not zero throughout; all if none is.  O(m n).

    The others, like the black border of a film, are fitted exactly from the start and tell nothing about the rest.
    """
    if X[0].all() and X[:, 0].all():
        return np.arange(X.shape[0]), np.arange(X.shape[1])
    rows, columns = (np.flatnonzero(X.any(axis=axis)) for axis in (1, 0))
    return (rows, columns) if len(rows) else (np.arange(X.shape[0]), np.arange(X.shape[1]))


def _some(places: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return places if len(places) <= _SIDE else np.sort(rng.choice(places, _SIDE, replace=False))


def _quartile(values: np.ndarray) -> float:
    place = int(_QUANTILE * len(values))
    return float(np.partition(values, place)[place])
