"""Inexact augmented Lagrange multiplier method for principal component pursuit.

Z. Lin, M. Chen, Y. Ma, "The augmented Lagrange multiplier method for exact recovery of corrupted low-rank matrices",
arXiv 1009.5055, 2010, algorithm 5. Settings of the authors' code (inexact_alm_rpca): lambda = 1 / sqrt(max(m, n)),
mu = 1.25 / ||X||_2, rho = 1.5, mu at most 1e7 times its start, ||X - L - S||_F / ||X||_F < 1e-7, predicted rank 10.
"""

from __future__ import annotations

import numpy as np

from ._alm import SingularValueShrinkage
from ._decomposition import Callback, Decomposition, checked_matrix, spectral_norm

SHARE_OF_RESIDUAL = 0.05  # error allowed to a singular value thresholding, against the last primal residual


def ialm(
    X: np.ndarray,
    *,
    lam: float | None = None,
    tolerance: float = 1e-7,
    rho: float = 1.5,
    max_iterations: int = 1000,
    exact_svd: bool = False,
    callback: Callback | None = None,
) -> Decomposition:
    """Minimise ``||L||_* + lam ||S||_1`` subject to ``L + S = X``, inexactly in each step.

    Parameters
    ----------
    X : ndarray, (m, n)
        Data, columns are samples.
    lam : float, optional
        Weight of the sparse part; by default 1 / sqrt(max(m, n)).
    tolerance : float
        Stops at ``||X - L - S||_F < tolerance ||X||_F``.
    rho : float
        Growth of the penalty mu per iteration.
    max_iterations : int
        Largest number of iterations.
    exact_svd : bool
        Full singular value decompositions; slower, the same result.
    callback : callable, optional
        Called with L (a buffer: copy it to keep it) after each iteration; stops the method by returning True.

    Returns
    -------
    Decomposition
        L, S and the number of iterations.
    """
    X = checked_matrix(X)
    size = np.linalg.norm(X)
    L = np.zeros_like(X)
    if size == 0:
        return Decomposition(L, L.copy(), 0)
    lam = 1 / np.sqrt(max(X.shape)) if lam is None else lam
    norm = spectral_norm(X)
    mu = 1.25 / norm
    largest_mu = 1e7 * mu
    dual = X / (mu * max(norm, np.abs(X).max() / lam))  # Y / mu
    target, M, residual = np.empty_like(X), np.empty_like(X), size
    shrink = SingularValueShrinkage(X.shape, predicted=10, exact=exact_svd)
    for iteration in range(1, max_iterations + 1):  # noqa: B007 - returned
        np.add(X, dual, out=target)
        # S = shrink(target - L, lam / mu), hence target - S = L + clip(target - L)
        np.subtract(target, L, out=M)
        np.clip(M, -lam / mu, lam / mu, out=M)
        M += L
        shrink(M, 1 / mu, SHARE_OF_RESIDUAL * residual, L)
        np.subtract(target, M, out=target)  # S
        M -= L  # Y / mu of the next step
        dual -= M
        residual = np.linalg.norm(dual)
        stopped = callback is not None and callback(L)
        if stopped or residual < tolerance * size:
            break
        larger = min(rho * mu, largest_mu)
        np.multiply(M, mu / larger, out=dual)
        mu = larger
    return Decomposition(L, target, iteration)
