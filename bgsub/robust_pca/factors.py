"""The cost of robust PCA as a function of both factors at once, and the scale of what they leave.

References
----------
T. Tong, C. Ma and Y. Chi, Accelerating ill-conditioned low-rank matrix estimation via scaled gradient descent, 2021,
for the metric.
"""

from __future__ import annotations

import numpy as np

from bgsub.robust_pca.conjugate_gradient import Line
from bgsub.robust_pca.halves import RobustFit

_QUANTILE = 0.25  # of the absolute residual: it stays on the inliers while there are more outliers than inliers
_NORMAL_QUANTILE = 0.31863936  # the same quantile of a standard normal variable
_SIDE = 50  # rows and columns of the sample from which the scale is taken
_LEAST_SHARE = 0.05  # of free entries per entry, in the correction for the degrees of freedom


class FactorProblem:
    """``h(X - A B') + ridge/2 (|A|^2 + |B|^2)`` as a function of A, (n, k), and B, (m, k).

    The ridge is the nuclear norm of A B' in disguise: over all factors of one product its least value is ``ridge``
    times the sum of the singular values.

    Parameters
    ----------
    fit : RobustFit
        The cost.
    point : ndarray, (n + m, k)
        A above B.
    ridge : float
        In intensity, like the singular values of a matrix of such entries.

    Notes
    -----
    The metric is scaled: A is preconditioned by ``(B'B + ridge)^-1`` and B by ``(A'A + ridge)^-1``.  With curvature one
    at zero these bound the two diagonal blocks of the Hessian, whatever the singular values, and a step length of
    about one is natural.
    """

    def __init__(self, fit: RobustFit, point: np.ndarray, ridge: float) -> None:
        self.fit, self.point, self.ridge = fit, point, ridge

    @property
    def A(self) -> np.ndarray:
        """The factor of the samples, (n, k)."""
        return self.point[: len(self.fit.X)]

    @property
    def B(self) -> np.ndarray:
        """The factor of the features, (m, k)."""
        return self.point[len(self.fit.X) :]

    def evaluate(self, point: np.ndarray) -> float:
        """Return the objective at `point`.  O(m n k)."""
        n = len(self.fit.X)
        return self.fit.evaluate(point[n:], point[:n].T) + self._penalty(point)

    def evaluate_again(self) -> float:
        """Return the objective at `point`, which was evaluated last, with the present surrogate and ridge.  O(m n)."""
        return self.fit.evaluate_again() + self._penalty(self.point)

    def gradient(self) -> np.ndarray:
        """Return the gradient at the point evaluated last, (n + m, k).  O(m n k)."""
        g = self.point.dtype.type(self.ridge) * self.point
        n = len(self.fit.X)
        g[:n] -= self.fit.influence @ self.B
        g[n:] -= self.fit.influence.T @ self.A
        return g

    def precondition(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient in the scaled metric, (n + m, k).  O((m + n) k^2)."""
        n = len(self.fit.X)
        z = np.empty_like(gradient)
        np.matmul(gradient[:n], self._inverse(self.B), out=z[:n])
        np.matmul(gradient[n:], self._inverse(self.A), out=z[n:])
        return z

    def curve(self, direction: np.ndarray) -> Line:
        """Return the straight line along `direction`, (n + m, k)."""
        return Line(self, direction)

    def _penalty(self, point: np.ndarray) -> float:
        return 0.5 * self.ridge * float(np.vdot(point, point))

    def _inverse(self, factor: np.ndarray) -> np.ndarray:
        """Return ``(F'F + ridge)^-1``, (k, k), with a floor where directions have died out."""
        gram = (factor.T @ factor).astype(np.float64)
        floor = self.ridge + 16 * np.finfo(factor.dtype).eps * np.trace(gram) + np.finfo(np.float32).tiny
        gram.flat[:: len(gram) + 1] += floor
        return np.linalg.inv(gram).astype(factor.dtype)


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


def _live(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and the columns of X, (n, m), that are not zero throughout; all if none is.  O(m n).

    The others, like the black border of a film, are fitted exactly from the start and tell nothing about the rest.
    """
    rows, columns = (np.flatnonzero(X.any(axis=axis)) for axis in (1, 0))
    return (rows, columns) if len(rows) else (np.arange(X.shape[0]), np.arange(X.shape[1]))


def _some(places: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return places if len(places) <= _SIDE else np.sort(rng.choice(places, _SIDE, replace=False))


def _quartile(values: np.ndarray) -> float:
    place = int(_QUANTILE * len(values))
    return float(np.partition(values, place)[place])
