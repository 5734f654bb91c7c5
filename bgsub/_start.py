"""Batch start of the subspace for tall matrices: few frames, very many pixels.

The row space of the frames is found by robust PCA on a random subset of the pixels; given the coefficients, every
pixel's row of U is a small robust problem of its own (`bgsub._kernels.fit_rows`). The cost is O(m n k^2) with one
pass over the frames.
"""

from __future__ import annotations

import numpy as np

from bgsub import _kernels
from bgsub.rpca import RobustPCA
from bgsub.surrogates import CODES, Surrogate

_ALTERNATIONS = 12
_REWEIGHTINGS = 6
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
    sample = X[:, index].astype(np.float32) * np.float32(scale)
    first = first_mu(surrogate)
    model = RobustPCA(
        rank=min(rank, *sample.shape),
        surrogate=surrogate.name,
        p=surrogate.p,
        mu_start=first,
        mu_end=surrogate.mu,
        iterations=_ALTERNATIONS,
    ).fit(sample)
    Y = np.zeros((X.shape[0], rank))
    Y[:, : model.coefficients_.shape[1]] = model.coefficients_
    U = np.empty((rank, X.shape[1]), np.float32)
    mus = np.geomspace(first, surrogate.mu, _REWEIGHTINGS).astype(np.float32)
    _kernels.fit_rows(
        X, np.float32(scale), Y.astype(np.float32), mus, CODES[surrogate.name], np.float32(surrogate.p), U
    )
    return orthonormalise(U, Y)


def first_mu(surrogate: Surrogate, scale: float = 0.0) -> float:
    """Return the mu from which a continuation down to `surrogate.mu` begins, in the surrogate's own unit.

    It flattens at half the full scale of an image, or at the intensity `scale` if that is larger.
    """
    first = max(_FIRST_SCALE, scale)
    return max(surrogate.mu, first if surrogate.name == "atan" else first**2)


def orthonormalise(U: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(V, Z)`` with ``Z V = Y U`` and orthonormal rows of V, sorted by the energy of the coefficients.

    Directions that the frames do not have (an all-black start) are filled with arbitrary orthonormal ones.

    Parameters
    ----------
    U : ndarray, (k, m), float32
    Y : ndarray, (n, k), float64

    Returns
    -------
    V : ndarray, (k, m), float32
    Z : ndarray, (n, k), float64
    """
    gram = (U @ U.T).astype(np.float64)
    values, vectors = np.linalg.eigh(gram)
    keep = values > 1e-9 * max(values[-1], 1e-9)
    whiten = vectors[:, keep] / np.sqrt(values[keep])
    Z = Y @ vectors[:, keep] * np.sqrt(values[keep])
    _, _, rotation = np.linalg.svd(Z, full_matrices=True)
    V = (rotation @ whiten.T).astype(np.float32) @ U
    Z = Z @ rotation.T
    missing = U.shape[0] - V.shape[0]
    if missing:
        noise = np.random.default_rng(0).standard_normal((missing, U.shape[1]))
        V = np.vstack([V, noise.astype(np.float32)])
        Z = np.hstack([Z, np.zeros((Z.shape[0], missing))])
    # once more: the eigenvalues of the Gram matrix lose half of the digits of U
    Q, R = np.linalg.qr(V.T.astype(np.float64)) if missing else cholesky_qr(V)
    return np.ascontiguousarray(Q.T, np.float32), Z @ R.T


def cholesky_qr(V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Q, (m, k), and R, (k, k), with ``V' = Q R`` for nearly orthonormal rows of V, (k, m)."""
    L = np.linalg.cholesky((V @ V.T).astype(np.float64))
    return (np.linalg.inv(L).astype(np.float32) @ V).T, L.T
