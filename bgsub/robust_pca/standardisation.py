"""Columns of different location and scale, brought to 0 and 1, because one mu applies to all entries.

Dividing columns by positive numbers preserves the rank of the low-rank part and the places of the outliers. Subtracting
an estimate of the location does not: its error is one more direction. A centred fit therefore has one direction more,
and the location is found in its low-rank part, which has no outliers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

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
            deviation = _filled(_NORMAL * _medians(np.abs(X - median), observed)).astype(X.dtype)
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


def _filled(scale: np.ndarray) -> np.ndarray:
    """Return scales, those that are 0 (columns mostly constant) replaced by the median of the others."""
    known = scale > 0
    return np.where(known, scale, np.median(scale[known]) if known.any() else 1.0)
