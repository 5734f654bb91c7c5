"""Robust regression row by row, by iteratively reweighted least squares: no row depends on another one.

Each surrogate is a concave function of the squared residual, so that its weight is the curvature of a quadratic that
touches it and lies above: solving the weighted problem never raises the cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgsub.numerics.surrogates import Surrogate

_BLOCK = 1 << 19  # entries of the temporary matrices
_HALVING = 0.5  # of mu, from one step to the next
_MOST_STEPS = 100  # at the last mu
_LARGEST = 30.0  # quartiles of the absolute entries of a sample up to which an entry counts for the start
_AT_REST = 1e-9  # of the coefficients, in double precision


@dataclass(frozen=True)
class Past:
    """What is known of the rows from before: ``(Y - rows) moment (Y - rows)' / 2`` is added to the cost."""

    rows: np.ndarray  # (n, k), where the rows were
    moment: np.ndarray  # (k, k), how firmly they were known

    def cost(self, Y: np.ndarray) -> float:
        """Return what being at `Y`, (n, k), costs."""
        change = (Y - self.rows).astype(np.float64)
        return 0.5 * float(np.vdot(change @ self.moment, change))


def reweighted(
    X: np.ndarray,
    observed: np.ndarray,
    Y: np.ndarray,
    U: np.ndarray,
    surrogate: Surrogate | None,
    past: Past | None = None,
) -> np.ndarray:
    """Return one reweighted least-squares step from the rows `Y` of ``X ~ Y U'``.

    Parameters
    ----------
    X : ndarray, (n, m)
        Samples as rows; 0 where missing.
    observed : ndarray, (n, m), bool
        The mask.
    Y : ndarray, (n, k)
        Present coefficients.
    U : ndarray, (m, k)
        Basis; any columns.
    surrogate : Surrogate or None
        The cost; None for plain least squares.
    past : Past, optional
        A term that keeps the rows where they were.

    Returns
    -------
    ndarray, (n, k)
        O(m n k^2 + n k^3).
    """
    new = np.empty_like(Y)
    step = max(1, _BLOCK // len(U))
    for first in range(0, len(X), step):
        rows = slice(first, first + step)
        residual = np.where(observed[rows], X[rows] - Y[rows] @ U.T, X.dtype.type(0))
        weight = observed[rows].astype(X.dtype)
        if surrogate is not None:
            weight *= surrogate.weight(residual)
        gram = _weighted_grams(weight, U).astype(np.float64)
        pull = ((weight * residual) @ U).astype(np.float64)
        if past is not None:
            gram += past.moment
            pull += (past.rows[rows] - Y[rows]) @ past.moment
        floor = 16 * np.finfo(X.dtype).eps * np.trace(gram, axis1=1, axis2=2) + np.finfo(np.float32).tiny
        gram += floor[:, None, None] * np.eye(Y.shape[1])
        new[rows] = Y[rows] + np.linalg.solve(gram, pull[:, :, None])[:, :, 0]
    return new


def least_squares(X: np.ndarray, observed: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return least-squares coefficients, (n, k), as a start: entries far beyond their sample's others are cut."""
    size = np.sort(np.where(observed, np.abs(X), X.dtype.type(np.inf)), axis=1)
    quartile = np.take_along_axis(size, observed.sum(axis=1, keepdims=True) // 4, axis=1)
    limit = np.where((quartile > 0) & np.isfinite(quartile), _LARGEST * quartile, X.dtype.type(np.inf))
    return reweighted(np.clip(X, -limit, limit), observed, np.zeros((len(X), U.shape[1]), X.dtype), U, None)


def robust_coefficients(
    X: np.ndarray, observed: np.ndarray, U: np.ndarray, surrogate: Surrogate, first: float
) -> np.ndarray:
    """Return the coefficients, (n, k), of samples that minimise the cost, found from the least-squares fit.

    Parameters
    ----------
    X, observed, U
        As for `reweighted`.
    surrogate : Surrogate
        The cost, at its last mu.
    first : float
        The mu from which it falls: at the last mu alone, a sample with many outliers stays in a wrong minimum.
    """
    Y = least_squares(X, observed, U)
    steps = max(0, int(np.ceil(np.log(first / surrogate.mu) / -np.log(_HALVING))))
    for mu in np.geomspace(first, surrogate.mu, steps + 1)[:steps]:
        Y = reweighted(X, observed, Y, U, Surrogate(surrogate.name, float(mu), surrogate.p))
    active = np.arange(len(X))
    least = max(_AT_REST, 64 * float(np.finfo(X.dtype).eps))
    for _ in range(_MOST_STEPS):
        new = reweighted(X[active], observed[active], Y[active], U, surrogate)
        moved = np.linalg.norm(new - Y[active], axis=1) > least * np.linalg.norm(new, axis=1)
        Y[active] = new
        active = active[moved]
        if not len(active):
            break
    return Y


def _weighted_grams(weight: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return ``U' diag(w) U``, (n, k, k), for each row w of `weight`, (n, m)."""
    m, k = U.shape
    grams = np.zeros((len(weight), k * k), weight.dtype)
    step = max(1, _BLOCK // (k * k))
    for first in range(0, m, step):
        part = U[first : first + step]
        products = (part[:, :, None] * part[:, None, :]).reshape(len(part), k * k)
        grams += weight[:, first : first + step] @ products
    return grams.reshape(-1, k, k)
