"""Samples as robust PCA takes them: checked, with a mask, and where its descent begins."""

from __future__ import annotations

import numpy as np

from bgsub.errors import ParameterError
from bgsub.grassmann import qr_positive

_OVERSAMPLING = 8
_POWERS = 2


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
    try:
        X = np.asarray(X)
    except ValueError:  # rows of different lengths
        X = np.asarray(None)
    if X.dtype.kind not in "biuf":
        raise ParameterError(f"X must be a real array of shape (n_samples, n_features), got type {X.dtype}")
    X = np.ascontiguousarray(X, np.float32 if X.dtype == np.float32 else np.float64)
    if X.ndim != 2 or X.size == 0:
        raise ParameterError(f"X must be a non-empty array of shape (n_samples, n_features), got shape {X.shape}")
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


def principal_axes(U: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the orthonormal basis of ``U Y`` for which ``Y Y'`` is diagonal and falls, and its coefficients.

    The largest entry of each axis is positive.  U, (m, k), need not be orthonormal.
    """
    U, R = qr_positive(U)
    Y = R @ Y
    vectors = np.linalg.eigh((Y @ Y.T).astype(np.float64))[1][:, ::-1]
    U = U @ vectors.astype(U.dtype)
    signs = np.where(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])] < 0, -1, 1).astype(U.dtype)
    return U * signs, (vectors * signs).T.astype(Y.dtype) @ Y


def least_squares(U: np.ndarray, X: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the least-squares coefficients, (k, n), of samples as rows `X` from their observed entries."""
    Y = np.ascontiguousarray((X @ U).T)
    for j in np.flatnonzero(~observed.all(axis=1)):
        Y[:, j] = np.linalg.lstsq(U[observed[j]], X[j, observed[j]], rcond=None)[0]
    return Y
