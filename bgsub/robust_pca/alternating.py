"""Robust PCA as the paper prints it: basis and coefficients in turns, one turn for each mu.

References
----------
C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 1 to 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bgsub.numerics.grassmann import qr_positive
from bgsub.robust_pca.conjugate_gradient import Minimisation, Rule, minimise
from bgsub.robust_pca.halves import BasisHalf, CoefficientHalf, RobustFit

_ROUNDING = 8  # a relative change below this many units of rounding is noise


@dataclass
class Alternation:
    """The two halves in turns.

    Parameters
    ----------
    fit : RobustFit
        The cost.
    rule : callable
        One of `bgsub.robust_pca.conjugate_gradient.CONJUGATE_RULES`.
    steps : int
        Largest number of conjugate gradient steps in each half.
    tolerance : float
        A half ends early when a step lowers the objective by less than this share of it.
    """

    fit: RobustFit
    rule: Rule
    steps: int
    tolerance: float

    def run(
        self, U: np.ndarray, Y: np.ndarray, mus: Iterable[float]
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray, list[float]]]:
        """Yield which half was moved, U (m, k), Y (k, n) and the objective at the start and after each step."""
        step_lengths = {"basis": 1.0, "coefficients": 1.0}
        for mu in mus:
            U, R = qr_positive(U)  # rounding adds up over the retractions
            Y = R @ Y
            for name, kind in (("basis", BasisHalf), ("coefficients", CoefficientHalf)):
                half, run = self._half(kind, U, Y, mu, step_lengths[name])
                U, Y, step_lengths[name] = half.U, half.Y, run.step_length
                yield name, U, Y, run.values

    def _half(
        self, kind: type[BasisHalf] | type[CoefficientHalf], U: np.ndarray, Y: np.ndarray, mu: float, t: float
    ) -> tuple[BasisHalf | CoefficientHalf, Minimisation]:
        """Return the half after its steps from U, (m, k), and Y, (k, n), at `mu`; `t` is the first step length."""
        self.fit.surrogate = replace(self.fit.surrogate, mu=float(mu))
        half = kind(self.fit, U, Y)
        run = minimise(
            half,
            self.fit.evaluate(U, Y),
            self.rule,
            steps=self.steps,
            tolerance=max(self.tolerance, _ROUNDING * float(np.finfo(self.fit.X.dtype).eps)),
            step_length=t,
        )
        return half, run
