"""The scale of data and residuals, and the decisions that follow: what is noise, and how large the rank is."""

import numpy as np

# In standard deviations of normal noise, the width at which the log cost has 95 % of the efficiency of least squares.
EFFICIENT = 2.4
NORMAL_RIDGE = 1 / EFFICIENT**2  # strength of the ridge that suits normal noise
CLEAR = 2.5  # times the spectral norm of independent entries: the least singular value of a true direction

_QUANTILE = 0.25  # of the absolute residual: on the inliers while there are at most three times as many outliers
_NORMAL_QUANTILE = 0.31863936  # the same quantile of a standard normal variable
_SIDE = 50  # rows and columns of the sample for the scale
_LEAST_SHARE = 0.05  # of free entries per entry, in the correction for the degrees of freedom
_LARGEST = 1e6  # scales of the data: a larger entry is an outlier for every cost
_DECADE = 10  # a fall of mu over which ...
_STALLED = 0.65  # ... the residual of data without noise falls below this share ...
_SLOW = 10  # ... in at least so many steps
_EMPTY = 0.05  # most a singular value after a gap may be, as a share of the one before
_EDGE = 1.2  # times the spectral norm with random signs: a larger norm is no noise
_POWERS = 20


class ResidualScale:
    """The standard deviation of the inliers of a residual, from the lower quartile of some of its absolute entries."""

    def __init__(self, X: np.ndarray, observed: np.ndarray, rank: int, rng: np.random.Generator) -> None:
        rows, columns = _nonzero_lines(X)
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
        """Return the scale of the entries themselves; their root mean square if a quarter of them is zero."""
        entries = self._X[self._seen]
        scale = _quartile(np.abs(entries)) / _NORMAL_QUANTILE
        return scale or float(np.sqrt(np.mean(np.square(entries, dtype=np.float64))))

    def of_residual(self, A: np.ndarray, B: np.ndarray, mu: float = np.inf) -> float:
        """Return the scale of ``X - A B'`` for A, (n, k), and B, (m, k)."""
        # degrees of freedom count entries by weight: a fit that follows its noise leaves few more than its parameters
        residual = self._X - A[self._rows] @ B[self._columns].T
        r = np.abs(residual[self._seen])
        weighted = float(np.mean(1 / (1 + np.square(r, dtype=np.float64) / mu)))
        free = max(1 - self._used / weighted, _LEAST_SHARE)
        return _quartile(r) / (_NORMAL_QUANTILE * float(np.sqrt(free)))


def scale_of_data(X: np.ndarray, observed: np.ndarray) -> float:
    """Return the scale of the entries of X, (n, m), repeatable."""
    return ResidualScale(X, observed, 0, np.random.default_rng(0)).of_data()


def clipped(X: np.ndarray, observed: np.ndarray, most: float = _LARGEST, scale: float | None = None) -> np.ndarray:
    """Return X, (n, m), clipped at `most` scales of the data, beyond which squares lose the others; X if none is."""
    limit = most * (scale_of_data(X, observed) if scale is None else scale)
    if not 0 < limit < max(X.max(), -X.min()):
        return X
    return np.clip(X, -limit, limit).astype(X.dtype, copy=False)


class NoiseFloor:
    """The mu below which the residual of the inliers no longer falls: a smaller one would fit the noise."""

    def __init__(self) -> None:
        self.point = np.empty(0)
        self.mu = 0.0
        self._past: list[tuple[float, float]] = []

    def reached(self, mu: float, residual: float, point: np.ndarray, settled: bool) -> bool:
        """Return whether the floor is certain by now; `self.mu` and `self.point` are then the ones at the floor."""
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
    """Return whether entries of a residual of this scale are inliers at `mu`."""
    return mu > (EFFICIENT * residual) ** 2


def noise_norm(E: np.ndarray) -> float:
    """Return the spectral norm that `E`, (n, m), would have if its entries were independent."""
    n, m = E.shape
    return float((np.sqrt(n) + np.sqrt(m)) * np.linalg.norm(E) / np.sqrt(n * m))


def is_noise(E: np.ndarray, rng: np.random.Generator) -> bool:
    """Return whether no singular value of `E`, (n, m), exceeds those with random signs; overwrites `E`.  O(m n)."""
    # D. Hong, Y. Sheng and E. Dobriban, Selecting the number of components in PCA via random signs, 2020
    norm = _spectral_norm(E, rng)
    for i in range(len(E)):
        E[i] *= 1 - 2 * rng.integers(0, 2, E.shape[1], np.int8)
    return norm <= _EDGE * _spectral_norm(E, rng)


def gap(values: np.ndarray, noise: float, ridge: float) -> int | None:
    """Return how many of the falling singular `values` come before a gap and exceed `noise`; None for no gap."""
    places = np.flatnonzero((values[1:] < _EMPTY * values[:-1]) & (values[:-1] + ridge > CLEAR * noise))
    return int(places[0]) + 1 if len(places) else None


def _spectral_norm(E: np.ndarray, rng: np.random.Generator) -> float:
    """Return the largest singular value approximately, by power iteration."""
    v = np.asarray(rng.standard_normal(E.shape[1]), E.dtype)
    for _ in range(_POWERS):
        v = E.T @ (E @ (v / max(np.linalg.norm(v), np.finfo(E.dtype).tiny)))
    return float(np.sqrt(np.linalg.norm(v)))


def _nonzero_lines(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of X, (n, m), that are not all zero like a black border; all if none is.  O(m n)."""
    if X[0].all() and X[:, 0].all():
        return np.arange(X.shape[0]), np.arange(X.shape[1])
    rows, columns = (np.flatnonzero(X.any(axis=axis)) for axis in (1, 0))
    return (rows, columns) if len(rows) else (np.arange(X.shape[0]), np.arange(X.shape[1]))


def _some(places: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return places if len(places) <= _SIDE else np.sort(rng.choice(places, _SIDE, replace=False))


def _quartile(values: np.ndarray) -> float:
    place = int(_QUANTILE * len(values))
    return float(np.partition(values, place)[place])
