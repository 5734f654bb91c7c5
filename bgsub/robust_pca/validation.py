"""Samples as robust PCA takes them: checked, with a mask, and where its descent begins."""

from __future__ import annotations

from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.grassmann import qr_positive
from bgsub.robust_pca.factors import ResidualScale

_OVERSAMPLING = 8
_POWERS = 2
_LARGEST_SCALE = {4: 1e10, 8: 1e30}  # by the bytes of an entry; its inverse is the smallest


def check_samples(X: np.ndarray, observed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples, contiguous, with 0 where missing, and the mask of observed entries.

    Parameters
    ----------
    X : array_like, (n_samples, n_features)
        Samples as rows; NaN means missing. float32 stays float32, everything else becomes float64.
    observed : array_like of bool, (n_samples, n_features), optional
        False marks a further entry as missing.

    Raises
    ------
    ParameterError
        For samples that are not real, not two-dimensional, empty or infinite, a mask of another shape, or a sample
        without any observed entry.
    """
    X = _real(X)
    mask = ~np.isnan(X)
    if observed is not None:
        observed = np.asarray(observed)
        if observed.shape != X.shape or observed.dtype != bool:
            raise ParameterError(
                f"observed must be boolean with shape {X.shape}, got {observed.dtype} with shape {observed.shape}"
            )
        mask &= observed
    if np.isinf(X, where=mask, out=np.zeros(X.shape, bool)).any():
        raise ParameterError("X must be finite where observed, got an infinite entry")
    empty = np.flatnonzero(~mask.any(axis=1))
    if len(empty):
        raise ParameterError(f"each sample must have an observed entry, got none in sample {empty[0]}")
    return X if mask.all() else np.where(mask, X, X.dtype.type(0)), mask


def check_scale(X: np.ndarray, observed: np.ndarray) -> None:
    """Raise ParameterError for samples so small or large that squares of their entries do not fit into their type."""
    most = _LARGEST_SCALE[X.dtype.itemsize]
    with np.errstate(over="ignore"):
        scale = ResidualScale(X, observed, 0, np.random.default_rng(0)).of_data()
    if scale and not 1 / most <= scale <= most:
        raise ParameterError(
            f"X must have a scale between {1 / most:g} and {most:g} in {X.dtype}, got {scale:.2g}: take another unit"
        )


def refuse_mask(X: Any, y: object) -> None:
    """Raise ParameterError where `y` is a mask of X, meant for the parameter `observed`."""
    if isinstance(y, np.ndarray) and y.dtype == bool and y.ndim == 2 and y.shape == np.shape(X):
        raise ParameterError("y is not used: give a mask of the observed entries by name, fit(X, observed=mask)")


def _real(X: Any) -> np.ndarray:
    """Return samples as a contiguous matrix of float32 or float64; the wording is that which scikit-learn asks for."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise ParameterError("X must be dense, got a sparse matrix or array: X.toarray() is one")
    try:
        X = np.asarray(X)
        if X.dtype == object and X.ndim == 2:
            X = X.astype(np.float64)
    except ValueError:  # rows of different lengths, or no numbers
        X = np.asarray(None)
    wanted = "X must be a real array of shape (n_samples, n_features)"
    if X.dtype.kind == "c":
        raise ParameterError(f"Complex data not supported: {wanted}, got type {X.dtype}")
    if X.dtype.kind not in "biuf":
        raise ParameterError(f"{wanted}, got type {X.dtype}")
    if X.ndim == 2 and len(X) and not X.shape[1]:
        raise ParameterError(f"{wanted}, got 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if X.ndim < 2:
        raise ParameterError(f"{wanted}, got shape {X.shape}. Reshape your data: one sample is X.reshape(1, -1)")
    if X.ndim != 2 or X.size == 0:
        raise ParameterError(f"X must be a non-empty array of shape (n_samples, n_features), got shape {X.shape}")
    return np.ascontiguousarray(X, np.float32 if X.dtype == np.float32 else np.float64)


def clipped(X: np.ndarray, observed: np.ndarray, most: float) -> np.ndarray:
    """Return X, (n, m), with its entries cut at `most` scales of the data; X itself where none is larger."""
    limit = most * ResidualScale(X, observed, 0, np.random.default_rng(0)).of_data()
    if not 0 < limit < max(X.max(), -X.min()):
        return X
    return np.clip(X, -limit, limit).astype(X.dtype, copy=False)


def fill_missing(X: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return X, (n, m), with missing entries replaced by the mean of the observed ones of their feature."""
    if observed.all():
        return X
    mean = X.sum(axis=0, where=observed) / np.maximum(observed.sum(axis=0), 1)
    return np.where(observed, X, mean.astype(X.dtype))


def truncated_svd(X: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best basis U, (m, rank), and coefficients Y, (rank, n), of samples as rows `X`, (n, m).

    From the Gram matrix of the smaller side, in float64.  O(m n min(m, n)).
    """
    n, m = X.shape
    gram = X @ X.T if n <= m else X.T @ X
    vectors = np.linalg.eigh(gram.astype(np.float64))[1][:, : -rank - 1 : -1].astype(X.dtype)
    U, _ = qr_positive(X.T @ vectors if n <= m else vectors)
    return U, np.ascontiguousarray((X @ U).T)


def random_svd(X: np.ndarray, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a basis and coefficients as `truncated_svd` does, to the precision that a start needs.

    A random range finder with two power iterations; the Gram matrix where the rank is not small.  O(m n rank).

    References
    ----------
    N. Halko, P.-G. Martinsson and J. Tropp, Finding structure with randomness, 2011, algorithm 4.4.
    """
    if 4 * (rank + _OVERSAMPLING) > min(X.shape):
        return truncated_svd(X, rank)
    Q = X.T @ rng.standard_normal((len(X), rank + _OVERSAMPLING)).astype(X.dtype)
    for _ in range(_POWERS):
        Q = np.linalg.qr(X.T @ np.linalg.qr(X @ np.linalg.qr(Q)[0])[0])[0]
    Y = (X @ Q).T
    vectors = np.linalg.eigh((Y @ Y.T).astype(np.float64))[1][:, : -rank - 1 : -1].astype(X.dtype)
    return Q @ vectors, np.ascontiguousarray(vectors.T @ Y)


def factor_svd(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``U, s, V`` with ``A B' = U diag(s) V'`` for A, (n, k), and B, (m, k).  O((m + n) k^2 + k^3)."""
    Q, R = np.linalg.qr(A)
    P, T = np.linalg.qr(B)
    U, values, V = np.linalg.svd(R @ T.T)
    return Q @ U, values, P @ V.T


def principal_axes(
    U: np.ndarray, Y: np.ndarray, past: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the orthonormal basis of ``U Y`` for which ``Y Y'`` is diagonal and falls, coefficients and energy.

    The largest entry of each axis is positive.

    Parameters
    ----------
    U : ndarray, (m, k)
        Columns, which need not be orthonormal.
    Y : ndarray, (k, n)
        Coefficients.
    past : ndarray, (k,), optional
        Energy of further, uncorrelated coefficients, which counts as well.

    Returns
    -------
    basis : ndarray, (m, k)
    coefficients : ndarray, (k, n)
    energy : ndarray, (k,)
        Diagonal of ``Y Y'``, that of the past included.
    """
    U, R = qr_positive(U)
    Y = R @ Y
    moment = (Y @ Y.T).astype(np.float64)
    if past is not None:
        moment += (R * past) @ R.T
    energy, vectors = (part[..., ::-1] for part in np.linalg.eigh(moment))
    U = U @ vectors.astype(U.dtype)
    signs = np.where(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])] < 0, -1, 1).astype(U.dtype)
    Y = (vectors * signs).T.astype(Y.dtype) @ Y
    if past is None:  # more exact than eigenvalues where they are small
        energy = np.square(np.linalg.norm(Y.astype(np.float64), axis=1))
    return U * signs, Y, energy.clip(0)
