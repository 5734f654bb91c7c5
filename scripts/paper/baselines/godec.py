"""GoDec: low-rank and sparse parts of given rank and cardinality.

T. Zhou, D. Tao, "GoDec: randomized low-rank and sparse matrix decomposition in noisy case", ICML 2011, algorithm 2:
bilateral random projections with power scheme. As in the authors' code (GoDec.m) the low-rank part is X - S projected
on an orthonormal basis of the second projection. Stated by the authors: 100 iterations at most, power 0 or more, with
no value recommended; power 0 stays at a relative error of 1e-2 even on easy problems (rank 20 of 400, 10 % outliers),
2 and 5 reach 1e-7 there in the same number of iterations.
"""

from __future__ import annotations

import numpy as np

from bgsub.errors import ParameterError

from ._decomposition import Callback, Decomposition, checked_matrix, checked_rank


def godec(
    X: np.ndarray,
    rank: int,
    cardinality: int,
    *,
    power: int = 2,
    tolerance: float = 1e-7,
    max_iterations: int = 100,
    seed: int = 0,
    callback: Callback | None = None,
) -> Decomposition:
    """Minimise ``||X - L - S||_F`` over L of the given rank and S with the given number of entries.

    Parameters
    ----------
    X : ndarray, (m, n)
        Data, columns are samples.
    rank : int
        Rank of L, from 1 to min(m, n).
    cardinality : int
        Number of entries of S that are not 0, from 0 to m n.
    power : int
        Power iterations of the random projection, the paper's q; 0 or more.
    tolerance : float
        Stops at ``||X - L - S||_F < tolerance ||X||_F``.
    max_iterations : int
        Largest number of iterations; 100 in the authors' code.
    seed : int
        Seed of the random projections.
    callback : callable, optional
        Called with L after each iteration; stops the method by returning True.

    Returns
    -------
    Decomposition
        L, S and the number of iterations.

    Raises
    ------
    ParameterError
        If a parameter is outside its range.
    """
    X = checked_matrix(X)
    rank = checked_rank(rank, X)
    if not 0 <= cardinality <= X.size:
        raise ParameterError(f"cardinality must be from 0 to m n = {X.size}, got {cardinality!r}")
    if power < 0:
        raise ParameterError(f"power must be 0 or more, got {power!r}")
    rng = np.random.default_rng(seed)
    size = np.linalg.norm(X)
    L, S, rest = np.zeros_like(X), np.zeros_like(X), X.copy()  # rest: X - S
    iteration = 0
    while size and iteration < max_iterations:
        iteration += 1
        Q = _row_space(rest, rank, power, rng)
        np.matmul(rest @ Q, Q.T, out=L)
        np.subtract(X, L, out=rest)
        outliers = _largest(rest, cardinality)
        S[:] = 0
        S.flat[outliers] = rest.flat[outliers]
        rest.flat[outliers] = 0
        if (callback is not None and callback(L)) or np.linalg.norm(rest) < tolerance * size:
            break
        rest += L
    return Decomposition(L, S, iteration)


def _row_space(A, rank, power, rng):
    """Orthonormal basis (n, rank) of the second of two bilateral random projections of A."""
    Y2 = rng.standard_normal((A.shape[1], rank))
    for _ in range(power + 1):
        Y2 = A.T @ (A @ Y2)
    return np.linalg.qr(Y2)[0]


def _largest(A, count):
    """Flat positions of the ``count`` entries of largest magnitude."""
    if count == 0:
        return np.empty(0, np.intp)
    return np.argpartition(np.abs(A).ravel(), A.size - count)[A.size - count :]
