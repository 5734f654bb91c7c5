"""Robust PCA as printed in the paper (arXiv 1210.0805, algorithms 1 to 4): basis and coefficients alternate.

Data matrices are stored as the transpose (n, m) of those of the paper, one sample per row.
"""

from collections.abc import Iterator

import numpy as np

from bgsub.numerics.grassmann import Retraction, qr_positive
from bgsub.robust_pca.conjugate_gradient import Line, Problem, minimise
from bgsub.robust_pca.cost import RobustCost, inverse_gram
from bgsub.robust_pca.parameters import Progress, Settings
from bgsub.robust_pca.svd import fill_missing, truncated_svd

_ALTERNATIONS = 50
_STEPS_OF_HALF = 5
_TOLERANCE = 1e-7
_ROUNDING = 8  # a relative change below this many units of rounding is noise
_FLOOR = 1e-6  # of the trace: directions of the basis that no sample uses must not get infinite steps


def alternation(settings: Settings, cost: RobustCost, rank: int) -> Iterator[Progress]:
    """Yield each half of the alternations; first and last mu must be set."""
    assert settings.first is not None
    assert settings.last is not None
    U, Y = truncated_svd(fill_missing(cost.X, cost.observed), rank)
    tolerance = settings.tolerance_in(cost.X.dtype, _TOLERANCE, _ROUNDING)
    lengths = {"basis": 1.0, "coefficients": 1.0}
    mus = np.geomspace(settings.first, settings.last, settings.iterations or _ALTERNATIONS)
    for turn, mu in enumerate(mus.tolist(), 1):
        cost.surrogate = cost.surrogate.at_mu(mu)
        U, R = qr_positive(U)  # rounding accumulates over the retractions
        Y = R @ Y
        for name, kind in (("basis", BasisHalf), ("coefficients", CoefficientHalf)):
            half: BasisHalf | CoefficientHalf = kind(cost, U, Y)
            values, lengths[name] = minimise(
                half, cost.evaluate(U, Y), steps=_STEPS_OF_HALF, tolerance=tolerance, step_length=lengths[name]
            )
            U, Y = half.U, half.Y
            yield Progress(turn, name, mu, values, Y.T, U.T)


class BasisHalf(Problem):
    """The cost as a function of the subspace, along ``P(t) L`` with ``L = U Y``; U (m, k), Y (k, n)."""

    def __init__(self, cost: RobustCost, U: np.ndarray, Y: np.ndarray) -> None:
        self.cost, self.U, self.Y = cost, U, Y

    def gradient(self) -> np.ndarray:
        """Return ``-(I - U U') psi Y'``, (m, k).  O(m n k)."""
        Z = self.cost.influence.T @ self.Y.T
        return self.U @ (self.U.T @ Z) - Z

    def precondition(self, gradient: np.ndarray) -> np.ndarray:
        """Return ``gradient (Y Y')^-1``, (m, k).  O(m k^2 + k^2 n)."""
        return gradient @ inverse_gram(self.Y.T, _FLOOR, float(np.finfo(self.Y.dtype).tiny))

    def curve(self, direction: np.ndarray) -> Line:
        return _RetractionCurve(self, direction)


class _RetractionCurve(Retraction, Line):
    def __init__(self, half: BasisHalf, direction: np.ndarray) -> None:
        super().__init__(half.U, direction)
        self._half = half

    def value(self, t: float) -> float:
        self._new = self.point(t), self.coefficients(self._half.Y, t)
        return self._half.cost.evaluate(*self._new)

    def accept(self) -> None:
        self._half.U, self._half.Y = self._new


class CoefficientHalf(Problem):
    """The cost as a function of the coefficients; parameters as for `BasisHalf`, each step replaces Y."""

    def __init__(self, cost: RobustCost, U: np.ndarray, Y: np.ndarray) -> None:
        self.cost, self.U, self.point = cost, U, Y

    @property
    def Y(self) -> np.ndarray:
        return self.point

    def evaluate(self, Y: np.ndarray) -> float:
        return self.cost.evaluate(self.U, Y)

    def gradient(self) -> np.ndarray:
        """Return ``-U' psi``, (k, n).  O(m n k)."""
        return -(self.cost.influence @ self.U).T
