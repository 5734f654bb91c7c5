"""Singular value decompositions: the start of a fit, and the axes of its result."""

import numpy as np

from bgsub.numerics.grassmann import qr_positive

_OVERSAMPLING = 8
_POWERS = 2


def fill_missing(X: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return X, (n, m), with missing entries replaced by the mean of the observed ones of their feature."""
    if observed.all():
        return X
    mean = X.sum(axis=0, where=observed) / np.maximum(observed.sum(axis=0), 1)
    return np.where(observed, X, mean.astype(X.dtype))


def truncated_svd(X: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best basis, (m, rank), and coefficients, (rank, n), of samples X, (n, m).  O(m n min(m, n))."""
    n, m = X.shape
    gram = X @ X.T if n <= m else X.T @ X
    vectors = np.linalg.eigh(gram.astype(np.float64))[1][:, : -rank - 1 : -1].astype(X.dtype)
    U, _ = qr_positive(X.T @ vectors if n <= m else vectors)
    return U, np.ascontiguousarray((X @ U).T)


def random_svd(X: np.ndarray, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a basis and coefficients as `truncated_svd` does, to the precision that a start needs.  O(m n rank)."""
    # N. Halko, P.-G. Martinsson and J. Tropp, Finding structure with randomness, 2011, algorithm 4.4
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


def balanced(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return factors of the same product whose columns have equal norms, if A or B has orthogonal columns."""
    a, b = np.linalg.norm(A, axis=0), np.linalg.norm(B, axis=0)
    share = np.sqrt(np.where((a > 0) & (b > 0), b / np.where(a > 0, a, 1), 1))
    share = np.where(share > 0, share, 1).astype(A.dtype)
    return A * share, B / share


def about_mean(A: np.ndarray, B: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean, (m,), of the rows of ``A B'``, and the factors of the best fit of `rank` about it."""
    mean = A.mean(axis=0)
    U, values, V = factor_svd(A - mean, B)
    return B @ mean, U[:, :rank] * values[:rank], V[:, :rank]


def principal_axes(U: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the orthonormal basis of ``U Y`` for which ``Y Y'`` is diagonal and falls, coefficients and energy."""
    # the largest entry of each axis is positive
    U, R = qr_positive(U)
    Y = R @ Y
    moment = (Y @ Y.T).astype(np.float64)
    vectors = np.linalg.eigh(moment)[1][:, ::-1]
    U = U @ vectors.astype(U.dtype)
    signs = np.where(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])] < 0, -1, 1).astype(U.dtype)
    Y = (vectors * signs).T.astype(Y.dtype) @ Y
    energy = np.square(np.linalg.norm(Y.astype(np.float64), axis=1))  # more exact than small eigenvalues
    return U * signs, Y, energy
