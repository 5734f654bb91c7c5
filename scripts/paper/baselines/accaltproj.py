"""Accelerated alternating projections.

H. Cai, J.-F. Cai, K. Wei, "Accelerated alternating projections for robust principal component analysis", Journal of
Machine Learning Research 20 (2019), algorithms 1 to 3. Settings of the authors' code (AccAltProj.m):
beta = 1 / (2 (m n)^(1/4)), beta_init = 4 beta, gamma = 0.5, no trimming, at most 100 iterations,
||X - L - S||_F / ||X||_F < 1e-5. The authors advise a larger gamma for harder problems: at rank 40 of 400 and
20 % outliers 0.5 fails and 0.7 recovers to 2e-8 in 37 iterations, at rank 20 and 40 % outliers it takes 0.9 and 116.
"""

from __future__ import annotations

import numpy as np

from ._decomposition import Callback, Decomposition, checked_matrix, checked_rank, spectral_norm, truncated_svd


def accaltproj(
    X: np.ndarray,
    rank: int,
    *,
    beta: float | None = None,
    beta_init: float | None = None,
    gamma: float = 0.5,
    incoherence: float | None = None,
    tolerance: float = 1e-5,
    max_iterations: int = 100,
    callback: Callback | None = None,
) -> Decomposition:
    """Alternate between hard thresholding and a projection on the tangent space of the rank-r matrices.

    Parameters
    ----------
    X : ndarray, (m, n)
        Data, columns are samples.
    rank : int
        Rank of L, from 1 to min(m, n).
    beta, beta_init : float, optional
        Threshold against the largest singular value, in the iterations and at the start.
    gamma : float
        Decay of the threshold per iteration, between 0 and 1: larger is slower and solves harder problems.
    incoherence : float, optional
        The paper's mu, which switches trimming on (algorithm 2); the authors' code does without by default, and
        their example takes 1.1 times the true one. Below the true one trimming cuts what belongs to L.
    tolerance : float
        Stops at ``||X - L - S||_F < tolerance ||X||_F``.
    max_iterations : int
        Largest number of iterations.
    callback : callable, optional
        Called with L (a buffer: copy it to keep it) after each iteration; stops the method by returning True.

    Returns
    -------
    Decomposition
        L, S and the number of iterations.
    """
    X = checked_matrix(X)
    rank = checked_rank(rank, X)
    beta = 0.5 * X.size**-0.25 if beta is None else beta
    beta_init = 4 * beta if beta_init is None else beta_init
    size = np.linalg.norm(X)
    if size == 0:
        return Decomposition(np.zeros_like(X), np.zeros_like(X), 0)
    work, kept = np.empty_like(X), np.empty(X.shape, bool)
    rest, L = X.copy(), np.zeros_like(X)  # rest: X - S
    _remove_outliers(rest, beta_init * spectral_norm(X), work, kept)
    U, s, V = truncated_svd(rest, rank)
    np.matmul(U * s, V.T, out=L)
    np.subtract(X, L, out=rest)
    _remove_outliers(rest, beta * s[0], work, kept)
    iteration = 0
    for iteration in range(1, max_iterations + 1):
        if incoherence is not None:
            U, V = _trimmed(U, s[:rank], V, incoherence)
        rest += L
        U, s, V = _projected(rest, U, V)
        np.matmul(U * s[:rank], V.T, out=L)
        np.subtract(X, L, out=rest)
        _remove_outliers(rest, beta * (s[rank] + gamma**iteration * s[0]), work, kept)
        if (callback is not None and callback(L)) or np.linalg.norm(rest) < tolerance * size:
            break
    return Decomposition(L, X - L - rest, iteration)


def _remove_outliers(residual, threshold, work, kept):
    """Set entries larger than the threshold to 0, in place."""
    np.abs(residual, out=work)
    np.less_equal(work, threshold, out=kept)
    np.multiply(residual, kept, out=residual)  # several times faster than an assignment through a mask


def _projected(Z, U, V):
    """Truncated SVD of Z projected on the tangent space at U V': U (m, r), s (2 r,), V (n, r); equation (6) ff."""
    rank = U.shape[1]
    ZV, ZtU = Z @ V, Z.T @ U
    core = U.T @ ZV
    Q1, R1 = np.linalg.qr(ZtU - V @ core.T)
    Q2, R2 = np.linalg.qr(ZV - U @ core)
    M = np.zeros((rank + len(R2), rank + len(R1)))
    M[:rank, :rank], M[:rank, rank:], M[rank:, :rank] = core, R1.T, R2
    A, s, Bt = np.linalg.svd(M)
    return np.hstack([U, Q2]) @ A[:, :rank], s, np.hstack([V, Q1]) @ Bt[:rank].T


def _trimmed(U, s, V, incoherence):
    """Shorten the rows of U and V that the incoherence forbids, then make both orthonormal again (algorithm 2)."""
    bases = []
    for basis in (U, V):
        largest = np.sqrt(incoherence * basis.shape[1] / len(basis))
        lengths = np.linalg.norm(basis, axis=1, keepdims=True)
        bases.append(np.linalg.qr(basis * np.minimum(1, largest / np.maximum(lengths, largest))))
    (Q1, R1), (Q2, R2) = bases
    A, _, Bt = np.linalg.svd(R1 * s @ R2.T)
    return Q1 @ A, Q2 @ Bt.T
