"""The fit itself, and what a decomposition consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bgsub.decomposition.samples import FrameSamples, Samples
from bgsub.rpca import RobustPCA

DEFAULT_RANK = 3
_SAMPLES_PER_COMPONENT = 4

_GAUSS = 1.4826  # standard deviation of a normal variable over its median absolute deviation
_DEVIATIONS = 3.0
_FLOOR = 1e-3  # of the spread of the input: where there is no noise, rounding is none
_MOST = 1 << 18  # entries that a median looks at


@dataclass
class Decomposition:
    """The parts of n samples of m features.

    Attributes
    ----------
    low_rank, sparse : ndarray, (n, m)
        Their sum is the input; the sparse part is 0 where nothing was observed.
    components : ndarray, (k, m)
        Orthonormal rows.
    coefficients : ndarray, (n, k)
        ``low_rank = coefficients @ components``.
    singular_values : ndarray, (k,)
        Of the low-rank part.
    iterations : int
        Alternations of the fit.
    spread : float
        What the input was divided by for the fit; `mu_start` and `mu_end` are in its unit.
    threshold : float
        Deviation from which an entry counts as an outlier.
    outliers : float
        Share of the observed entries that are outliers.
    """

    low_rank: np.ndarray
    sparse: np.ndarray
    components: np.ndarray
    coefficients: np.ndarray
    singular_values: np.ndarray
    iterations: int
    spread: float
    threshold: float
    outliers: float


def default_rank(n: int, m: int | None = None) -> int:
    """Return the rank for n samples of m features where none is given: 3, fewer for fewer than 12 samples."""
    smallest = n if m is None else min(n, m)
    return max(1, min(DEFAULT_RANK, smallest // _SAMPLES_PER_COMPONENT))


def decompose(
    samples: Samples,
    rank: int | None = None,
    *,
    as_is: bool = False,
    callback: Callable[[Any], bool | None] | None = None,
    **parameters: Any,
) -> Decomposition:
    """Split samples into a low-rank and a sparse part.

    Parameters
    ----------
    samples : Samples
        What to split. ``X`` of a matrix is changed for the time of the fit.
    rank : int, optional
        Dimension of the subspace; by default see `default_rank`.
    as_is : bool
        Do not divide a matrix by the spread of its entries. Frames never are: their unit is full scale.
    callback : callable, optional
        As that of `bgsub.RobustPCA`.
    **parameters
        Others of `bgsub.RobustPCA`.

    Raises
    ------
    ParameterError
        As `bgsub.RobustPCA`.
    """
    rank = default_rank(*samples.X.shape) if rank is None else rank
    model = RobustPCA(rank, callback=callback, **parameters)
    spread = 1.0 if as_is or isinstance(samples, FrameSamples) else spread_of(samples.X, samples.observed)
    factor = samples.X.dtype.type(spread)
    samples.X /= factor
    try:
        model.fit(samples.X, samples.observed)
    finally:
        samples.X *= factor
    for part in (model.low_rank_, model.sparse_, model.coefficients_):
        np.multiply(part, factor, out=part)
    values = np.linalg.svd(model.coefficients_.astype(np.float64), compute_uv=False)
    threshold, outliers = _outliers(samples, model.sparse_)
    return Decomposition(
        model.low_rank_,
        model.sparse_,
        model.components_,
        model.coefficients_,
        values[:rank],
        model.n_iter_,
        spread,
        threshold,
        outliers,
    )


def spread_of(X: np.ndarray, observed: np.ndarray | None = None) -> float:
    """Return a standard deviation of the finite entries that outliers do not move; 1 where all are equal."""
    values = _some(X, observed)
    if not values.size:
        return 1.0
    spread = _GAUSS * float(np.median(np.abs(values - np.median(values))))
    spread = spread or float(values.std())  # more than half of them may be 0
    return spread if np.isfinite(spread) and spread > 0 else 1.0


def _outliers(samples: Samples, sparse: np.ndarray) -> tuple[float, float]:
    """Return from which deviation on an entry is an outlier, and the share of those among the observed entries."""
    noise = _GAUSS * float(np.median(np.abs(_some(sparse, samples.observed))))
    unit = 1.0 if isinstance(samples, FrameSamples) else spread_of(samples.X, samples.observed)
    threshold = max(_DEVIATIONS * noise, _FLOOR * unit)
    count = total = 0
    for i, row in enumerate(sparse):
        known = ~np.isnan(samples.X[i])
        if samples.observed is not None:
            known &= samples.observed[i]
        count += int(np.count_nonzero(known & (np.abs(row) > threshold)))
        total += int(np.count_nonzero(known))
    return threshold, count / max(total, 1)


def _some(X: np.ndarray, observed: np.ndarray | None) -> np.ndarray:
    """Return observed and finite entries as float64, evenly chosen where there are very many."""
    step = -(-X.size // _MOST)
    values = X.reshape(-1)[::step].astype(np.float64)
    if observed is not None:
        values = values[observed.reshape(-1)[::step]]
    return values[np.isfinite(values)]
