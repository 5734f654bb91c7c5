"""What the fits of robust PCA take: the parameters of the estimator, checked, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.conjugate_gradient import Rule


@dataclass(frozen=True)
class Settings:
    """Parameters of `bgsub.RobustPCA` that have been checked; a fit has its own default for each that is None."""

    surrogate: Surrogate  # the cost of the result; its mu is `last`, or 1 where that is None
    quality: str  # one of `bgsub.robust_pca.parameters.QUALITIES`
    rule: Rule
    first: float | None  # the mu to begin and to end with
    last: float | None
    iterations: int | None  # most steps, or alternations
    inner_iterations: int  # most steps in each half of an alternation
    tolerance: float | None  # as the fit in question understands it
    rng: np.random.Generator  # draws the start and the entries that the scale of the residual is taken from

    def tolerance_in(self, dtype: np.dtype, default: float = 5e-7, roundings: int = 64) -> float:
        """Return the tolerance for data of a type: at least so many units of its rounding."""
        tolerance = default if self.tolerance is None else self.tolerance
        return max(tolerance, roundings * float(np.finfo(dtype).eps))
