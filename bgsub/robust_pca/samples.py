"""Checks of the samples of robust PCA: arrays, masked arrays, and data frames of pandas and polars."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.arrays import as_array
from bgsub.robust_pca.noise import scale_of_data
from bgsub.robust_pca.parameters import Settings

_LARGEST_SCALE = {4: 1e10, 8: 1e30}  # by the bytes of an entry; its inverse is the smallest
_TIMES = re.compile("date|time|duration", re.IGNORECASE)  # column types of pandas and polars


def check_samples(X: np.ndarray, observed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples, contiguous floats with 0 where missing, and the mask of observed entries, both (n, m)."""
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


def check_scale(X: np.ndarray, observed: np.ndarray, small: bool = False) -> float:
    """Return the scale of samples; ParameterError if squares of it leave the range of the type, unless `small`."""
    most = _LARGEST_SCALE[X.dtype.itemsize]
    with np.errstate(over="ignore"):
        scale = scale_of_data(X, observed)
    if scale > most or (0 < scale < 1 / most and not small):
        raise ParameterError(
            f"X must have a scale between {1 / most:g} and {most:g} in {X.dtype}, got {scale:.2g}: use another unit"
        )
    return scale


def check_widths(settings: Settings, dtype: np.dtype) -> None:
    """Raise ParameterError for a first or last mu outside the allowed scales of data of a type."""
    most = _LARGEST_SCALE[dtype.itemsize]
    for name, mu in (("mu_start", settings.first), ("mu_end", settings.last)):
        if mu is not None and not 1 / most <= settings.surrogate.at_mu(mu).scale <= most:
            low, high = (settings.surrogate.at_scale(scale).mu for scale in (1 / most, most))
            raise ParameterError(f"{name} must be in [{low:g}, {high:g}] for samples of {dtype}, got {mu:g}")


def refuse_mask(X: Any, y: object) -> None:
    """Raise ParameterError if `y` is a mask of X, meant for the parameter `observed`."""
    if isinstance(y, np.ndarray) and y.dtype == bool and y.ndim == 2 and y.shape == np.shape(X):
        raise ParameterError("y is not used: pass a mask of the observed entries by name, fit(X, observed=mask)")


def refuse_sparse(name: str, X: Any) -> None:
    """Raise ParameterError for a sparse matrix or array."""
    if hasattr(X, "nnz"):
        dense = "todense" if hasattr(X, "todense") and not hasattr(X, "toarray") else "toarray"
        raise ParameterError(
            f"{name} must be dense, got a sparse {type(X).__name__}: {name}.{dense}() has 0 where nothing is stored; "
            "use NaN if that means missing"
        )


def as_matrix(X: Any) -> np.ndarray:
    """Return X as an array; hidden entries of a masked array and missing values of a data frame become NaN."""
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float64) if X.dtype.kind in "biu" else X, np.nan)
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        for name, kind in zip(X.columns, X.dtypes, strict=True):
            if _TIMES.match(str(kind)):  # would become nanoseconds
                raise ParameterError(f"a data frame must be a real array, got {kind} in column {name!r}")
    array = as_array(X)
    if array.dtype == object and hasattr(X, "isna") and hasattr(X, "to_numpy"):
        try:
            return X.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):  # not numbers
            return array
    return array


def feature_names(X: Any) -> np.ndarray | None:
    """Return the column names of a data frame if all are strings, None if none is; ParameterError for a mixture."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = list(columns)
    types = sorted({type(name).__qualname__ for name in names})
    if "str" in types and len(types) > 1:
        raise ParameterError(
            f"names of features must be all strings or none, got types {', '.join(types)}: "
            "X.columns = X.columns.astype(str) makes them strings"
        )
    return np.array(names, object) if types == ["str"] else None


def _real(X: Any) -> np.ndarray:
    """Return samples as a contiguous float32 or float64 matrix; scikit-learn requires the wording of the errors."""
    refuse_sparse("X", X)
    X = as_matrix(X)
    if X.dtype == object and X.ndim == 2:
        try:
            X = X.astype(np.float64)
        except ValueError:  # not numbers
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
    if X.ndim > 2:
        raise ParameterError(
            f"X has shape {X.shape}, RobustPCA needs (n_samples, n_features): X.reshape(len(X), -1), "
            "and .reshape(X.shape) for the parts it returns"
        )
    if X.size == 0:
        raise ParameterError(f"X must be a non-empty array of shape (n_samples, n_features), got shape {X.shape}")
    with np.errstate(over="ignore"):  # larger types: infinite entries are refused later
        return np.require(X, np.float32 if X.dtype == np.float32 else np.float64, ["C", "A"])
