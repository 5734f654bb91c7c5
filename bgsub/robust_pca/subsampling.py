"""A part of an elongated matrix that is enough to find one of its factors.

The frames of a video are few and their pixels many: some thousands of them determine the coefficients of the frames,
and with these known each pixel is a small problem of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgsub.robust_pca.factors import inverse_gram

_LEAST = 4000  # features (or samples) of the part
_PER_OTHER = 4  # and so many for each sample
_PER_DIRECTION = 20
_WORTH = 4  # times the part: from then on the whole is worth it


@dataclass(frozen=True)
class Part:
    """Some features of all samples, or all features of some samples."""

    indices: np.ndarray  # (s,), rising
    features: bool  # of features, not of samples

    def of(self, X: np.ndarray) -> np.ndarray:
        """Return the part of `X`, (n, m), contiguous."""
        return np.ascontiguousarray(X[:, self.indices] if self.features else X[self.indices])

    def completed(self, X: np.ndarray, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return factors of all of `X`, (n, m), from those of the part; the other one by least squares.  O(m n k)."""
        if self.features:
            return A, _least_squares(X.T, A)
        return _least_squares(X, B), B


def part_of(observed: np.ndarray, rank: int, rng: np.random.Generator) -> Part | None:
    """Return a part of a matrix with the mask `observed`, (n, m), that determines the factor of its short side.

    None where the matrix is not elongated enough, or where the part would hold nothing of some row or column.
    """
    short, long = sorted(observed.shape)
    size = max(_LEAST, _PER_OTHER * short, _PER_DIRECTION * rank)
    if long < _WORTH * size:
        return None
    part = Part(np.sort(rng.choice(long, size, replace=False)), features=observed.shape[1] == long)
    seen = part.of(observed)
    return part if seen.any(axis=0).all() and seen.any(axis=1).all() else None


def _least_squares(X: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return F with ``X ~ F factor'``."""
    return X @ (factor @ inverse_gram(factor, float(np.finfo(factor.dtype).eps)))
