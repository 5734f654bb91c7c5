"""The rows of U from the coefficients of the first frames: a small robust regression per pixel, many at a time.

The sums over the frames are matrix products of a block of pixels, the solutions run over its pixels. Let the BLAS have
one thread (`bgsub.numerics.threads.one_blas_thread`), or the digits depend on their number.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.numerics.threads import in_bands
from bgsub.tracking import _kernels

BLOCK = 1024
_RIDGE = np.float32(1.0 + 1e-5)
_LEAST_PIVOT = np.float32(1e-20)
# A reweighting of a block changes nothing to speak of where all residuals are below this share of its scale.
_REACH = 0.5


def fit_rows(
    X: np.ndarray,
    scale: np.float32,
    Y: np.ndarray,
    surrogate: Surrogate,
    mus: np.ndarray,
    U: np.ndarray,
    threads: int = 1,
) -> None:
    """Fit each row of U to its pixel's history, given the coefficients: one small robust problem per pixel.

    Least squares, then reweighted least squares with one weighted solve per entry of `mus` (the rows of U separate
    once Y is known). A block of pixels begins with the first mu that any of its residuals comes near: it changes the
    low-rank part by a few tenths of a grey level at most, by hundredths on average, and saves half of the solves.

    Parameters
    ----------
    X : ndarray, (n, m), any real dtype
        Frames; ``scale * X`` is in [0, 1].
    scale : float32
        Reciprocal of the full scale.
    Y : ndarray, (n, k), float32
        Coefficients of the frames.
    surrogate : Surrogate
        Which cost; its mu is not used.
    mus : ndarray, (iterations,), float32
        Smoothing parameters from large to small; the last is always used.
    U : ndarray, (k, m), float32, output
        The fitted rows.  O(m n k^2 iterations).
    threads : int, default 1
        Most threads to use; the result does not depend on it.
    """
    start = np.linalg.pinv(Y.astype(np.float64)).astype(np.float32)
    j, q = np.tril_indices(Y.shape[1])
    y = np.ascontiguousarray(Y.T)
    products = y[j] * y[q]
    reach = np.array([_REACH * surrogate.at_mu(mu).scale for mu in mus[:-1].tolist()] + [0.0])

    def fit(begin: int, end: int, _: int) -> None:
        for first in range(begin, end, BLOCK):
            x = np.multiply(X[:, first : min(first + BLOCK, end)], scale, dtype=np.float32)
            low_rank, omega, weighted = np.empty((3, *x.shape), np.float32)
            u = start @ x
            largest = float(np.abs(np.subtract(x, Y @ u, out=omega)).max())
            for mu in mus[reach <= largest]:
                np.matmul(Y, u, out=low_rank)
                _kernels.weigh(x, low_rank, surrogate.code, mu, np.float32(surrogate.p), omega, weighted)
                u += _solved(products @ omega, y @ weighted)
            U[:, first : first + x.shape[1]] = u

    in_bands(fit, X.shape[1], threads, BLOCK)


def _solved(gram: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve the normal equations of many pixels at once by Cholesky, in place.

    Parameters
    ----------
    gram : ndarray, (k (k + 1) / 2, n), float32
        Their lower triangles by rows.
    right : ndarray, (k, n), float32
        Right-hand sides, and the result.
    """
    k = len(right)
    L = [[gram[j * (j + 1) // 2 + q] for q in range(j + 1)] for j in range(k)]
    for j in range(k):
        L[j][j] *= _RIDGE
        L[j][j] += _LEAST_PIVOT
        for q in range(j + 1):
            for s in range(q):
                L[j][q] -= L[j][s] * L[q][s]
            if q < j:
                L[j][q] /= L[q][q]
        np.sqrt(np.maximum(L[j][j], _LEAST_PIVOT, out=L[j][j]), out=L[j][j])
    for j in range(k):
        for s in range(j):
            right[j] -= L[j][s] * right[s]
        right[j] /= L[j][j]
    for j in range(k - 1, -1, -1):
        for s in range(j + 1, k):
            right[j] -= L[s][j] * right[s]
        right[j] /= L[j][j]
    return right
