"""Batch start of the subspace for tall matrices: few frames, very many pixels.

The row space of the frames is found by robust PCA on a random subset of the pixels; given the coefficients, every
pixel's row of U is a small robust problem of its own (`bgsub._row_kernels.fit_rows`). The cost is O(m n k^2) with one
pass over the frames.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from bgsub import _row_kernels
from bgsub.rpca import RobustPCA
from bgsub.surrogates import Surrogate

_ALTERNATIONS = 20
_REWEIGHTINGS = 6
_NEGLIGIBLE = 1e-5  # singular values of the coefficients, relative to the first
_MOST = 0.7  # share of the entries that a still picture must explain to be believed
_FIRST_SCALE = 0.5  # of full scale: the smoothing begins where hardly any residual is an outlier


def batch_start(
    X: np.ndarray, scale: float, rank: int, surrogate: Surrogate, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a subspace to the first frames.

    Parameters
    ----------
    X : ndarray, (n, m), any real dtype
        Frames as rows; ``scale * X`` is in [0, 1].
    scale : float
        Reciprocal of the full scale.
    rank : int
        Dimension k, at most ``min(n, m)``.
    surrogate : Surrogate
        Cost and final smoothing.
    index : ndarray, (s,), int64
        Pixel subset for the robust PCA.

    Returns
    -------
    U : ndarray, (k, m), float32
        Orthonormal rows.
    Y : ndarray, (n, k), float64
        Coefficients: ``scale * X ~ Y U``.
    """
    # Small products: threads of the BLAS gain nothing, and beside busy cores they wait for each other for seconds.
    with threadpool_limits(limits=1, user_api="blas"):
        Y = subset_coefficients(X[:, index].astype(np.float32) * np.float32(scale), rank, surrogate)
    mus = np.geomspace(first_mu(surrogate), surrogate.mu, _REWEIGHTINGS).astype(np.float32)
    rows = np.empty((Y.shape[1], X.shape[1]), np.float32)
    _row_kernels.fit_rows(
        X, np.float32(scale), Y.astype(np.float32), mus, surrogate.code, np.float32(surrogate.p), rows
    )
    return orthonormalise(rows, Y, rank)


def subset_coefficients(sample: np.ndarray, rank: int, surrogate: Surrogate) -> np.ndarray:
    """Return an orthogonal basis of the row space of the background in a few thousand pixels.

    Robust PCA, but not of frames as they are: its truncated SVD would take large objects for directions, and the
    non-convex cost would keep them. A first fit of rank 1 is a still picture under changing light, which no object
    can bend far. Where it explains most of the pixels, deviations from it are taken back by the influence function,
    so that the background's own changes remain and the objects vanish.

    Parameters
    ----------
    sample : ndarray, (n, s), float32
        Frames, scaled to [0, 1].
    rank : int
        Dimension k.
    surrogate : Surrogate
        Cost and final smoothing.

    Returns
    -------
    ndarray, (n, q), q <= k
        Columns of norm ``sqrt(n)``; directions below a hundred-thousandth of the first are left out.
    """

    def fit(data: np.ndarray, k: int, mu: float) -> RobustPCA:
        return RobustPCA(
            k, surrogate=surrogate.name, p=surrogate.p, mu_start=mu, mu_end=surrogate.mu, iterations=_ALTERNATIONS
        ).fit(data)

    rank = min(rank, *sample.shape)
    still = fit(sample, 1, first_mu(surrogate)).low_rank_
    deviation = sample - still
    if np.mean(np.abs(deviation) < 2 * surrogate.scale) > _MOST:
        model = fit(still + surrogate.influence(deviation).astype(np.float32), rank, surrogate.mu)
    else:
        model = fit(sample, rank, first_mu(surrogate))
    P, s, _ = np.linalg.svd(model.coefficients_.astype(np.float64), full_matrices=False)
    return P[:, s > _NEGLIGIBLE * max(s[0], np.finfo(float).tiny)] * np.sqrt(sample.shape[0])


def first_mu(surrogate: Surrogate, scale: float = 0.0) -> float:
    """Return the mu from which a continuation down to `surrogate.mu` begins, in the surrogate's own unit.

    It flattens at half the full scale of an image, or at the intensity `scale` if that is larger.
    """
    first = max(_FIRST_SCALE, scale)
    return max(surrogate.mu, first if surrogate.name == "atan" else first**2)


def orthonormalise(U: np.ndarray, Y: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(V, Z)`` with ``Z V = Y U`` and orthonormal rows of V, sorted by the energy of the coefficients.

    Directions that the frames do not have (a still or an all-black start) are filled with arbitrary orthonormal ones.

    Parameters
    ----------
    U : ndarray, (q, m), float32
    Y : ndarray, (n, q), float64
    rank : int
        Number of rows k >= q of the result.

    Returns
    -------
    V : ndarray, (k, m), float32
    Z : ndarray, (n, k), float64
    """
    wide = U.astype(np.float64)  # the Gram matrix squares the condition: float32 would keep noise as a direction
    values, vectors = np.linalg.eigh(wide @ wide.T) if len(U) else (np.zeros(0), np.zeros((0, 0)))
    keep = values > 1e-10 * max(values.max(initial=0), 1e-9)
    whiten = vectors[:, keep] / np.sqrt(values[keep])
    Z = Y @ vectors[:, keep] * np.sqrt(values[keep])
    rotation = np.linalg.svd(Z, full_matrices=True)[2]
    V = (rotation @ whiten.T @ wide).astype(np.float32)
    Z = Z @ rotation.T
    missing = rank - V.shape[0]
    if missing:
        noise = np.random.default_rng(0).standard_normal((missing, U.shape[1]))
        V = np.vstack([V, noise.astype(np.float32)])
        Z = np.hstack([Z, np.zeros((Z.shape[0], missing))])
    # once more: whitening by the Gram matrix loses half of the digits
    Q, R = np.linalg.qr(V.T.astype(np.float64)) if missing else cholesky_qr(V)
    return np.ascontiguousarray(Q.T, np.float32), Z @ R.T


def cholesky_qr(V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Q, (m, k), and R, (k, k), with ``V' = Q R`` for nearly orthonormal rows of V, (k, m)."""
    L = np.linalg.cholesky((V @ V.T).astype(np.float64))
    return (np.linalg.inv(L).astype(np.float32) @ V).T, L.T
