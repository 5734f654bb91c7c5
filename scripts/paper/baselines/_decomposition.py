"""What every batch baseline returns, and the checks that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import svds

from bgsub.errors import ParameterError

Callback = Callable[[np.ndarray], bool | None]
DENSE_SIZE = 48


class Decomposition(NamedTuple):
    """The two parts of a data matrix.

    Attributes
    ----------
    low_rank : ndarray, (m, n), float64
        The low-rank part; columns are samples.
    sparse : ndarray, (m, n), float64
        The outliers; 0 where an entry was not observed.
    iterations : int
        Iterations (batch methods) or columns visited (streaming methods) that were spent.
    """

    low_rank: np.ndarray
    sparse: np.ndarray
    iterations: int


def checked_matrix(X: np.ndarray) -> np.ndarray:
    """Return X as a C-contiguous float64 matrix.

    Raises
    ------
    ParameterError
        If X is no matrix, is empty or has an entry that is not finite.
    """
    X = np.ascontiguousarray(X, dtype=np.float64)
    if X.ndim != 2 or not X.size:
        raise ParameterError(f"X must be a matrix (m, n) with entries, got shape {X.shape}")
    if not np.isfinite(X).all():
        raise ParameterError("X must be finite in all entries, got NaN or infinity")
    return X


def checked_rank(rank: int, X: np.ndarray) -> int:
    """Return the rank if it fits X, from 1 to min(m, n); else raise ParameterError."""
    if not 1 <= rank <= min(X.shape):
        raise ParameterError(f"rank must be from 1 to min(m, n) = {min(X.shape)}, got {rank!r}")
    return rank


def spectral_norm(X: np.ndarray) -> float:
    """Return the largest singular value to 6 digits or more, by Lanczos iteration where that is cheaper."""
    if min(X.shape) <= DENSE_SIZE:
        return float(np.linalg.norm(X, 2))
    start = np.random.default_rng(0).standard_normal(min(X.shape))
    return float(svds(X, 1, v0=start, tol=1e-3, return_singular_vectors=False)[0])


def truncated_svd(X: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the leading singular triplets U (m, rank), s (rank,) descending, V (n, rank).

    Lanczos bidiagonalisation (PROPACK, as in the authors' codes) where the rank is small.
    """
    if min(X.shape) > DENSE_SIZE and rank <= min(X.shape) // 5:
        start = np.random.default_rng(0).standard_normal(X.shape[0])
        try:
            U, s, Vt = svds(X, rank, v0=start, solver="propack")
            return U[:, ::-1], s[::-1], Vt[::-1].T
        except np.linalg.LinAlgError:
            pass  # PROPACK's fixed number of Lanczos steps was too small for this spectrum
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    return U[:, :rank], s[:rank], Vt[:rank].T
