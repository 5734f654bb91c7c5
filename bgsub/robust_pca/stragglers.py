"""Samples, or features, that a fit has left in a wrong minimum: found by their weight, and regressed from nothing.

Where rows have few entries, or some of them are very large, a descent of all rows at once leaves a few behind: each of
them fits some outliers. The rows are independent once the other factor is known, and robust regression alone, from the
least squares on its moderate entries, finds most of what is lost.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.irls import robust_coefficients

_FEW = 0.75  # of the weight per entry that the median row has
_BLOCK = 1000  # rows at a time; those of a block in which none is mended end the search


def mended(
    X: np.ndarray, observed: np.ndarray, A: np.ndarray, B: np.ndarray, surrogate: Surrogate, first: float, ridge: float
) -> np.ndarray | None:
    """Return ``A``, (n, k), of ``X ~ A B'`` with the rows replaced whose objective falls by that; None where none does.

    Parameters
    ----------
    X, observed : ndarray, (n, m)
        Samples as rows, and the mask.
    B : ndarray, (m, k)
        The other factor, which stays.
    surrogate : Surrogate
        The cost, at its present mu.
    first : float
        The mu from which a regression begins.
    ridge : float
        ``ridge/2 |A|^2`` is added to the cost.
    """
    found = None
    rows = _stragglers(X, observed, A, B, surrogate)
    for begin in range(0, len(rows), _BLOCK):
        some = rows[begin : begin + _BLOCK]
        x, seen = X[some], observed[some]
        new = robust_coefficients(x, seen, B, surrogate, first)
        better = _objective(x, seen, new, B, surrogate, ridge) < _objective(x, seen, A[some], B, surrogate, ridge)
        if not better.any():
            break
        found = A.copy() if found is None else found
        found[some[better]] = new[better]
    return found


def _stragglers(X: np.ndarray, observed: np.ndarray, A: np.ndarray, B: np.ndarray, surrogate: Surrogate) -> np.ndarray:
    """Return the rows with far less weight per entry than most, the least weight first."""
    weight = np.empty(len(X))
    step = max(1, (1 << 19) // X.shape[1])
    for first in range(0, len(X), step):
        rows = slice(first, first + step)
        weights = np.where(observed[rows], surrogate.weight(X[rows] - A[rows] @ B.T), 0)
        weight[rows] = weights.sum(axis=1) / np.maximum(observed[rows].sum(axis=1), 1)
    order = np.argsort(weight, kind="stable")
    return order[weight[order] < _FEW * np.median(weight)]


def _objective(
    X: np.ndarray, observed: np.ndarray, A: np.ndarray, B: np.ndarray, surrogate: Surrogate, ridge: float
) -> np.ndarray:
    """Return that of each row, (n,)."""
    values = np.where(observed, surrogate.value(X - A @ B.T), 0).sum(axis=1, dtype=np.float64)
    return values + 0.5 * ridge * np.square(A, dtype=np.float64).sum(axis=1)
