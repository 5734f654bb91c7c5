"""Robust regression row by row, by iteratively reweighted least squares, of which no step raises the cost."""

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.svd import factor_svd

_BLOCK = 1 << 19  # entries of the temporary matrices
_HALVING = 0.5  # of mu, from one step to the next
_MOST_STEPS = 100  # at the last mu
_LARGEST = 30.0  # quartiles of the absolute entries of a sample; larger entries are clipped for the start
_TOLERANCE = 1e-9  # of the coefficients, in double precision
_REFINED = 1e-4  # relative change of the low-rank part that ends a refinement
_MOST_ROUNDS = 30
_REFIT_ROWS = 1000  # at a time; a block without improvement ends the refit


def reweighted(
    X: np.ndarray, observed: np.ndarray, Y: np.ndarray, U: np.ndarray, surrogate: Surrogate | None
) -> np.ndarray:
    """Return the rows, (n, k), after one reweighted least-squares step for ``X ~ Y U'``.  O(m n k^2 + n k^3)."""
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
        floor = 16 * np.finfo(X.dtype).eps * np.trace(gram, axis1=1, axis2=2) + np.finfo(np.float32).tiny
        gram += floor[:, None, None] * np.eye(Y.shape[1])
        new[rows] = Y[rows] + np.linalg.solve(gram, pull[:, :, None])[:, :, 0]
    return new


def least_squares(X: np.ndarray, observed: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return least-squares coefficients, (n, k), as a start; very large entries of a sample are clipped."""
    size = np.sort(np.where(observed, np.abs(X), X.dtype.type(np.inf)), axis=1)
    quartile = np.take_along_axis(size, observed.sum(axis=1, keepdims=True) // 4, axis=1)
    limit = np.where((quartile > 0) & np.isfinite(quartile), _LARGEST * quartile, X.dtype.type(np.inf))
    return reweighted(np.clip(X, -limit, limit), observed, np.zeros((len(X), U.shape[1]), X.dtype), U, None)


def robust_coefficients(
    X: np.ndarray, observed: np.ndarray, U: np.ndarray, surrogate: Surrogate, first: float
) -> np.ndarray:
    """Return the coefficients, (n, k), that minimise the cost of each sample, from the least-squares fit."""
    Y = least_squares(X, observed, U)  # at the last mu alone, a sample with many outliers stays in a wrong minimum
    steps = max(0, int(np.ceil(np.log(first / surrogate.mu) / -np.log(_HALVING))))
    for mu in np.geomspace(first, surrogate.mu, steps + 1)[:steps]:
        Y = reweighted(X, observed, Y, U, Surrogate(surrogate.name, float(mu), surrogate.p))
    active = np.arange(len(X))
    least = max(_TOLERANCE, 64 * float(np.finfo(X.dtype).eps))
    for _ in range(_MOST_STEPS):
        new = reweighted(X[active], observed[active], Y[active], U, surrogate)
        moved = np.linalg.norm(new - Y[active], axis=1) > least * np.linalg.norm(new, axis=1)
        Y[active] = new
        active = active[moved]
        if not len(active):
            break
    return Y


def refine(
    X: np.ndarray, observed: np.ndarray, A: np.ndarray, B: np.ndarray, surrogate: Surrogate
) -> tuple[np.ndarray, np.ndarray]:
    """Return factors A, (n, k), and B, (m, k), of least cost, from close ones.  O(m n k^2) for each round."""
    for _ in range(_MOST_ROUNDS):
        before = A, B
        A = reweighted(X, observed, A, B, surrogate)
        B = reweighted(X.T, observed.T, B, A, surrogate)
        change = np.hstack([A, -before[0]]), np.hstack([B, before[1]])
        if _norm(*change) <= _REFINED * _norm(A, B):
            break
    return A, B


def refit_rows(
    cost: RobustCost, point: np.ndarray, few: np.ndarray, surrogate: Surrogate, first: float, ridge: float
) -> np.ndarray:
    """Return the factors, (n + m, k), after regressing the rows `few`; a row is replaced if its objective falls."""
    # if rows have few or very large entries, a joint descent leaves some of them in a wrong minimum
    n = len(cost.X)
    point = point.copy()
    A, B = point[:n], point[n:]
    for X, observed, rows, F, other in (
        (cost.X, cost.observed, few[few < n], A, B),
        (cost.X.T, cost.observed.T, few[few >= n] - n, B, A),
    ):
        for begin in range(0, len(rows), _REFIT_ROWS):
            some = rows[begin : begin + _REFIT_ROWS]
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


def _norm(A: np.ndarray, B: np.ndarray) -> float:
    """Return the Frobenius norm of ``A B'``."""
    return float(np.linalg.norm(factor_svd(A, B)[1]))


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
