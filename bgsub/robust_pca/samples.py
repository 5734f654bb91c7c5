"""The samples of a fit: their checks, and their standardisation, because one mu applies to all entries.

Dividing columns by positive numbers preserves the rank of the low-rank part and the places of the outliers. Subtracting
an estimate of the location does not: its error is one more direction. A centred fit therefore has one direction more,
and the location is found in its low-rank part, which has no outliers.
"""

import re
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

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
        with suppress(TypeError, ValueError):  # not numbers
            return X.to_numpy(dtype=np.float64, na_value=np.nan)
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


_NORMAL = 1.482602218505602  # standard deviation of a normal variable, in median absolute deviations


@dataclass(frozen=True)
class Standardisation:
    """Location and scale of each feature, both of shape (n_features,); samples are ``location + scale * standard``."""

    location: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, observed: np.ndarray, center: bool, scale: bool) -> Self:
        """Return medians and median absolute deviations of the observed entries of X, (n, m); or 0 and 1."""
        location, deviation = np.zeros(X.shape[1], X.dtype), np.ones(X.shape[1], X.dtype)
        if center or scale:
            median = _medians(X, observed)
        if center:
            location = median
        if scale:
            deviation = _NORMAL * _medians(np.abs(X - median), observed)
            known = deviation > 0  # others are mostly constant
            usual = np.median(deviation[known]) if known.any() else 1.0
            deviation = np.where(known, deviation, usual).astype(X.dtype)
        return cls(location, deviation)

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return not self.location.any() and bool((self.scale == 1).all())

    def standard(self, X: np.ndarray, observed: np.ndarray) -> np.ndarray:
        """Return samples X, (n, m), with location 0 and scale 1, and 0 where not observed; X itself if unchanged."""
        if self.is_identity:
            return X
        location, scale = (part.astype(X.dtype) for part in (self.location, self.scale))
        with np.errstate(over="ignore"):  # an infinite scale is refused later
            standard = (X - location) / scale
        standard[~observed] = 0
        return standard

    def restore(self, standard: np.ndarray) -> np.ndarray:
        """Return `standard`, (n, m), converted back to location and scale, in place."""
        if not self.is_identity:
            standard *= self.scale.astype(standard.dtype)
            standard += self.location.astype(standard.dtype)
        return standard

    def moved(self, change: np.ndarray) -> Self:
        """Return a copy with the location moved by `change`, (m,), in units of the scale."""
        return replace(self, location=self.location + self.scale * change)


def _medians(X: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the median of the observed entries of each column; 0 if there are none."""
    if observed.all():
        return np.median(X, axis=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)
        return np.nan_to_num(np.nanmedian(np.where(observed, X, X.dtype.type(np.nan)), axis=0))
