"""Samples and features that a fit has left in a wrong minimum, regressed from nothing.

Where rows have few entries, or some of these are very large, a descent of all rows at once leaves a few behind: each of
them fits some outliers. The rows are independent once the other factor is known, and robust regression alone, from the
least squares on its moderate entries, finds most of what is lost.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.irls import robust_coefficients

_BLOCK = 1000  # rows at a time; a block in which none is mended is the last one


def mended(
    cost: RobustCost, point: np.ndarray, few: np.ndarray, surrogate: Surrogate, first: float, ridge: float
) -> np.ndarray:
    """Return the factors with those rows replaced whose objective falls by that.

    Parameters
    ----------
    cost : RobustCost
        Data, (n, m), and mask.
    point : ndarray, (n + m, k)
        The factor of the samples above that of the features.
    few : ndarray, (s,)
        The rows of it that are tried.
    surrogate : Surrogate
        The cost, at its present mu.
    first : float
        The mu from which a regression begins.
    ridge : float
        ``ridge/2 |row|^2`` is added to the cost.
    """
    n = len(cost.X)
    point = point.copy()
    A, B = point[:n], point[n:]
    for X, observed, rows, F, other in (
        (cost.X, cost.observed, few[few < n], A, B),
        (cost.X.T, cost.observed.T, few[few >= n] - n, B, A),
    ):
        for begin in range(0, len(rows), _BLOCK):
            some = rows[begin : begin + _BLOCK]
            x, seen = np.ascontiguousarray(X[some]), observed[some]
            new = robust_coefficients(x, seen, other, surrogate, first)
            objective = (_objective(x, seen, either, other, surrogate, ridge) for either in (new, F[some]))
            better = np.less(*objective)
            if not better.any():
                break
            F[some[better]] = new[better]
    return point


def _objective(
    X: np.ndarray, observed: np.ndarray, Y: np.ndarray, U: np.ndarray, surrogate: Surrogate, ridge: float
) -> np.ndarray:
    """Return the objective of each row of ``X ~ Y U'``, (n,)."""
    values = np.where(observed, surrogate.value(X - Y @ U.T), 0).sum(axis=1, dtype=np.float64)
    return values + 0.5 * ridge * np.square(Y, dtype=np.float64).sum(axis=1)
