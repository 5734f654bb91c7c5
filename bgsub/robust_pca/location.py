"""A low-rank part about a location: what becomes of a fit that had one direction more for it."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.irls import reweighted
from bgsub.robust_pca.svd import factor_svd

_AT_REST = 1e-4  # of the low-rank part, from one round to the next
_MOST_ROUNDS = 30


def about_mean(A: np.ndarray, B: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean, (m,), of the rows of ``A B'``, and the factors of the best fit of some rank about it."""
    mean = A.mean(axis=0)
    U, values, V = factor_svd(A - mean, B)
    return B @ mean, U[:, :rank] * values[:rank], V[:, :rank]


def refined(
    X: np.ndarray, observed: np.ndarray, A: np.ndarray, B: np.ndarray, surrogate: Surrogate
) -> tuple[np.ndarray, np.ndarray]:
    """Return factors A, (n, k), and B, (m, k), at which the cost is least, found from some close by.

    Both are fitted in turns by reweighted least squares, for samples X, (n, m), about their location: what the
    direction left out held of the noise is no part of them afterwards.  O(m n k^2) for each round.
    """
    for _ in range(_MOST_ROUNDS):
        before = A, B
        A = reweighted(X, observed, A, B, surrogate)
        B = reweighted(X.T, observed.T, B, A, surrogate)
        change = np.hstack([A, -before[0]]), np.hstack([B, before[1]])  # the factors of it, as matrices would be large
        if _size(*change) <= _AT_REST * _size(A, B):
            break
    return A, B


def _size(A: np.ndarray, B: np.ndarray) -> float:
    """Return the Frobenius norm of ``A B'``."""
    return float(np.linalg.norm(factor_svd(A, B)[1]))
