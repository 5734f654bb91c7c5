"""Exact augmented Lagrange multiplier method for principal component pursuit.

Z. Lin, M. Chen, Y. Ma, "The augmented Lagrange multiplier method for exact recovery of corrupted low-rank matrices",
arXiv 1009.5055, 2010, algorithm 4. Settings of the authors' code (exact_alm_rpca): lambda = 1 / sqrt(max(m, n)),
Y = sgn(X) / max(||sgn(X)||_2, 1 / lambda), mu = 0.5 / ||sgn(X)||_2, rho = 6, inner loop until L and S change by less
than 1e-6 ||X||_F, ||X - L - S||_F / ||X||_F < 1e-7, predicted rank 5 and a tenth of n more in each outer iteration.
"""

from __future__ import annotations

import numpy as np

from ._alm import SingularValueShrinkage
from ._decomposition import Callback, Decomposition, checked_matrix, spectral_norm

SHARE_OF_CHANGE = 0.05  # error allowed to a singular value thresholding, against the change that ends the inner loop


def ealm(
    X: np.ndarray,
    *,
    lam: float | None = None,
    tolerance: float = 1e-7,
    inner_tolerance: float = 1e-6,
    rho: float = 6.0,
    max_iterations: int = 1000,
    max_inner: int = 1000,
    exact_svd: bool = False,
    callback: Callback | None = None,
) -> Decomposition:
    """Minimise ``||L||_* + lam ||S||_1`` subject to ``L + S = X``, each step to convergence.

    Parameters
    ----------
    X : ndarray, (m, n)
        Data, columns are samples.
    lam : float, optional
        Weight of the sparse part; by default 1 / sqrt(max(m, n)).
    tolerance : float
        Stops at ``||X - L - S||_F < tolerance ||X||_F``.
    inner_tolerance : float
        Change of L and of S, against ``||X||_F``, below which the inner loop ends.
    rho : float
        Growth of the penalty mu per outer iteration.
    max_iterations, max_inner : int
        Largest numbers of outer iterations, and of inner ones in each of them (the authors set no limit to these).
    exact_svd : bool
        Full singular value decompositions, as in the authors' code; slower, the same result.
    callback : callable, optional
        Called with L (a buffer: copy it to keep it) after each inner iteration; stops the method by returning True.

    Returns
    -------
    Decomposition
        L, S and the number of outer iterations.
    """
    X = checked_matrix(X)
    size = np.linalg.norm(X)
    L, S = np.zeros_like(X), np.zeros_like(X)
    if size == 0:
        return Decomposition(L, S, 0)
    lam = 1 / np.sqrt(max(X.shape)) if lam is None else lam
    signs = np.sign(X)
    norm = spectral_norm(signs)
    mu = 0.5 / norm
    dual = signs / (mu * max(norm, 1 / lam))  # Y / mu
    shrink = SingularValueShrinkage(X.shape, predicted=5, exact=exact_svd)
    for iteration in range(1, max_iterations + 1):  # noqa: B007 - returned
        target = X + dual
        shrink.predicted = min(shrink.predicted + round(0.1 * X.shape[1]), *X.shape)
        L, S, stopped = _minimise(target, L, S, mu, lam, inner_tolerance * size, max_inner, shrink, callback)
        dual = target - L - S
        if stopped or np.linalg.norm(X - L - S) < tolerance * size:
            break
        dual /= rho
        mu *= rho
    return Decomposition(L, S, iteration)


def _minimise(target, L, S, mu, lam, tolerance, most, shrink, callback):
    """Alternate between L and S at a fixed mu and dual variable; L, S, and whether the callback wants to stop."""
    for _ in range(most):
        M = target - L
        np.clip(M, -lam / mu, lam / mu, out=M)
        M += L
        new_S = target - M
        new_L = np.empty_like(L)
        shrink(M, 1 / mu, SHARE_OF_CHANGE * tolerance, new_L)
        settled = np.linalg.norm(new_L - L) < tolerance and np.linalg.norm(new_S - S) < tolerance
        L, S = new_L, new_S
        if callback is not None and callback(L):
            return L, S, True
        if settled:
            break
    return L, S, False
