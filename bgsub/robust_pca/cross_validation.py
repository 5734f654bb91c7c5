"""How well a subspace predicts entries of samples from the others: the score of robust PCA."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.irls import robust_coefficients
from bgsub.robust_pca.scale import scale_of_data

_FOLDS = 5
_EXACT = 1e-4  # scales of the data: the least residual that is one, above what a fit without noise leaves
_AT_REST = 1e-8
_MOST_ROUNDS = 200


def cross_validation_residual(
    X: np.ndarray, observed: np.ndarray, U: np.ndarray, surrogate: Surrogate, first: float
) -> np.ndarray:
    """Return the residual of the observed entries, each one with coefficients that were found without it.

    A fifth of the entries is held back at a time, always the same ones. Parameters are those of `robust_coefficients`.
    """
    fold = np.random.default_rng(_FOLDS).integers(_FOLDS, size=X.shape)
    residual = np.empty_like(X)
    for number in range(_FOLDS):
        held = observed & (fold == number)
        Y = robust_coefficients(X, observed & ~held, U, surrogate, first)
        residual[held] = (X - Y @ U.T)[held]
    return residual[observed]


def least_residual(X: np.ndarray, observed: np.ndarray, rank: int) -> float:
    """Return the residual below which none is told from another, for samples X, (n, m), and a fit of some rank.

    Entries known to that precision tell coefficients to a share ``rank / m`` of it: where nothing else is left, the
    lower one of two ranks is better.
    """
    least = _EXACT * scale_of_data(X, observed) * float(np.sqrt(1 + rank / X.shape[1]))
    return max(least, float(np.finfo(np.float32).tiny))


def log_likelihood(residual: np.ndarray, least: float) -> float:
    """Return the mean logarithm of the Cauchy density of a residual, (entries,), of the scale that makes it largest.

    The scale s solves ``mean(r^2 / (r^2 + s^2)) = 1/2`` and lies between the inliers' residuals while fewer than half
    of all are outliers. None of them counts as less than `least`.
    """
    squares = np.maximum(residual.astype(np.float64) ** 2, least**2)
    scale = float(np.median(squares))
    for _ in range(_MOST_ROUNDS):
        before, scale = scale, 2 * float(np.mean(squares / (1 + squares / scale)))
        if abs(scale - before) <= _AT_REST * scale:
            break
    return -float(np.log(np.pi) + np.log(scale) / 2 + np.mean(np.log1p(squares / scale)))
