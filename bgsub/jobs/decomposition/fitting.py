"""The fit itself, and what a decomposition consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bgsub.jobs.decomposition.samples import FrameSamples, Samples
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.estimator import RobustPCA
from bgsub.robust_pca.noise import EFFICIENT
from bgsub.robust_pca.parameters import PAPER

_GREY_LEVEL = 1 / 255
_DEVIATIONS = 3.0
_FLOOR = 1e-3  # of the size of the low-rank part: where there is no noise, rounding is none


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
        Steps of the fit.
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
    threshold: float
    outliers: float


def decompose(
    samples: Samples,
    rank: int | None = None,
    *,
    callback: Callable[[Any], bool | None] | None = None,
    **parameters: Any,
) -> Decomposition:
    """Split samples into a low-rank and a sparse part.

    Parameters
    ----------
    samples : Samples
        What to split.
    rank : int, optional
        Dimension of the subspace; by default see `bgsub.robust_pca.parameters.default_rank`.
    callback : callable, optional
        As that of `bgsub.RobustPCA`.
    **parameters
        Others of `bgsub.RobustPCA`. For frames of 8 bits mu ends by default where the noise is one grey level:
        compressed video stands still in so many pixels that no noise is left to be found, and the fit would go on.

    Raises
    ------
    ParameterError
        As `bgsub.RobustPCA`.
    """
    parameters = _end_of_frames(samples, parameters) | parameters
    model = RobustPCA(rank, callback=callback, **parameters).fit(samples.X, observed=samples.observed)
    threshold, outliers = _outliers(samples, model)
    return Decomposition(
        model.low_rank_,
        model.sparse_,
        model.components_,
        model.coefficients_,
        model.singular_values_,
        model.n_iter_,
        threshold,
        outliers,
    )


def _end_of_frames(samples: Samples, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the last mu for frames of 8 bits, none where the smoothing is given otherwise."""
    given = parameters.get("quality") == PAPER or {"mu_start", "mu_end"} & parameters.keys()
    if given or not isinstance(samples, FrameSamples) or samples.format.dtype != "uint8":
        return {}
    cost = Surrogate(parameters.get("surrogate", "log"), 1.0)
    return {"mu_end": cost.at_scale(EFFICIENT * _GREY_LEVEL).mu}


def _outliers(samples: Samples, model: RobustPCA) -> tuple[float, float]:
    """Return from which deviation on an entry is an outlier, and the share of those among the observed entries."""
    size = float(np.linalg.norm(model.singular_values_)) / np.sqrt(samples.X.size)
    unit = 1.0 if isinstance(samples, FrameSamples) else size
    threshold = max(_DEVIATIONS * model.noise_scale_, _FLOOR * unit)
    count = total = 0
    for i, row in enumerate(model.sparse_):
        known = ~np.isnan(samples.X[i])
        if samples.observed is not None:
            known &= samples.observed[i]
        count += int(np.count_nonzero(known & (np.abs(row) > threshold)))
        total += int(np.count_nonzero(known))
    return threshold, count / max(total, 1)
