"""Checks of the user's vectors."""

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.arrays import as_array
from bgsub.tracking.subspace import EVERYTHING

_LARGEST = 1e12  # beyond it squares leave the range of float32
_SMALLEST = 1e-9  # root mean square of vectors below which the squares of their residuals do
_NUMBERS = "buif"  # kinds of real types


def check_size(size: float) -> None:
    """Raise ParameterError for a size that is too small to find scales, but not 0."""
    if 0 < size < _SMALLEST:
        raise ParameterError(
            f"without mu, the first vectors must be zero or of a size of at least {_SMALLEST:g}, got {size:.2g}: "
            "take another unit"
        )


def checked_batch(X: np.ndarray, scale: float, may_be_small: bool) -> np.ndarray:
    """Return a batch as an array; ParameterError unless ``scale * X`` is finite and float32 can square it."""
    X = as_array(X)
    if X.dtype.kind not in _NUMBERS:
        raise ParameterError(f"the batch must hold real numbers, got type {X.dtype}")
    largest = _largest(X) * scale
    if not may_be_small:
        check_size(largest)
    if not largest <= _LARGEST:  # a NaN is not <= either
        raise ParameterError(f"the batch must be finite and within {_LARGEST:g}, got NaN or more")
    return X


def checked_vector(x: np.ndarray, observed: np.ndarray | None, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the vector, (m,) float32 with 0 for missing entries, and the observed entries, 0 or 1, (m,) or (0,)."""
    values = as_array(x)
    expected = (values.size,) if size is None else (size,)
    if values.shape != expected or values.size == 0:
        words = "(m,)" if size is None else expected
        raise ParameterError(f"x must be a vector of shape {words}, got shape {values.shape}")
    if values.dtype.kind not in _NUMBERS:
        raise ParameterError(f"x must hold real numbers, got type {values.dtype}")
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    a = EVERYTHING
    if observed is not None:
        seen = as_array(observed)
        if seen.shape != expected or seen.dtype != np.bool_:
            raise ParameterError(f"observed must be a boolean mask of shape {expected}, got {seen.dtype} {seen.shape}")
        a = seen.astype(np.float32)
        values = np.where(seen, values, np.float32(0))
    if not np.abs(values).max() <= _LARGEST:
        raise ParameterError(f"x must be finite where it is observed and within {_LARGEST:g}, got NaN or more")
    return values, a


def _largest(X: np.ndarray) -> float:
    """Return the largest magnitude in a batch, (n, m), NaN if there is one; for short integers that of their type."""
    if X.dtype.kind in "ui" and X.dtype.itemsize <= 4:
        return float(np.iinfo(X.dtype).max)
    largest = (float(np.abs(x, dtype=np.float64).max(initial=0)) for x in np.atleast_1d(X))
    with np.errstate(over="ignore"):
        return max(largest, default=0.0, key=lambda v: (np.isnan(v), v))
