"""What the fits of robust PCA take: the parameters of the estimator, checked, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.conjugate_gradient import Rule


@dataclass(frozen=True)
class Settings:
    """Parameters of `bgsub.RobustPCA` that have been checked; a fit has its own default for each that is None.

    Parameters
    ----------
    surrogate : Surrogate
        The cost of the result; its mu is `last`, or 1 where that is None.
    quality : str
        One of `bgsub.robust_pca.parameters.QUALITIES`.
    rule : callable
        One of `bgsub.robust_pca.conjugate_gradient.CONJUGATE_RULES`.
    first, last : float or None
        The mu to begin and to end with.
    iterations : int or None
        Largest number of steps or alternations.
    inner_iterations : int
        Largest number of steps in each half of an alternation.
    tolerance : float or None
        As the fit in question understands it.
    rng : Generator
        Draws the start and the entries that the scale of the residual is taken from.
    """

    surrogate: Surrogate
    quality: str
    rule: Rule
    first: float | None
    last: float | None
    iterations: int | None
    inner_iterations: int
    tolerance: float | None
    rng: np.random.Generator

    def tolerance_in(self, dtype: np.dtype, default: float = 5e-7, roundings: int = 64) -> float:
        """Return the tolerance for data of a type: at least so many units of its rounding."""
        tolerance = default if self.tolerance is None else self.tolerance
        return max(tolerance, roundings * float(np.finfo(dtype).eps))
