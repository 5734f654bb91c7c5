"""The length of a searched step: backtracking on the whole objective or on the newest vector (paper, section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bgsub.tracking.step import Step

ARMIJO = 1e-4
_BACKTRACKS = 20


class Accepted(NamedTuple):
    """A step that lowers the objective, or none.

    Attributes
    ----------
    t : float
        Its length; 0 for none.
    theta : ndarray, (k + r, k + r)
        The rotation of [U Q] there.
    objective : tuple of float
        Objective before and after.
    """

    t: float
    theta: np.ndarray
    objective: tuple[float, float]


class SampleCost:
    """The newest vector's cost as a function of its low-rank part.

    Parameters
    ----------
    products : ndarray, (k + r + 1,)
        Inner products of its influence e with the columns of ``[U Q e]``.
    y : ndarray, (k,)
        Its coefficients.
    cost : float
        The cost of ``l = U y``.
    exact : callable or None
        Returns the cost of a combination c, (k + r + 1,), of ``[U Q e]``, by a pass over the vector; None where the
        vector is not at hand any more.
    """

    def __init__(
        self, products: np.ndarray, y: np.ndarray, cost: float, exact: Callable[[np.ndarray], float] | None
    ) -> None:
        self._products, self._y, self.cost, self.exact = products, y, cost, exact

    def bound(self, c: np.ndarray) -> float:
        """Return an upper bound of the cost where the low-rank part is ``l + d``, the combination c of ``[U Q e]``.

        Curvature one everywhere: ``h(r - d) <= h(r) - <psi(r), d> + |d|^2 / 2``. The Gram matrix of ``[U Q e]`` is
        known: no pass over the vector.
        """
        products, d = self._products, c.copy()
        d[: self._y.size] -= self._y
        along = float(products @ d)
        square = float(d[:-1] @ d[:-1]) + float(d[-1]) * (2 * float(products[:-1] @ d[:-1]))
        square += float(d[-1]) ** 2 * float(products[-1])
        return self.cost - along + square / 2


def search(step: Step, sample: SampleCost, y: np.ndarray, w: float, last: float | None) -> Accepted:
    """Find a step length by backtracking: step 5 of the algorithm.

    Parameters
    ----------
    step : Step
        The direction.
    sample : SampleCost
        Cost of the newest vector.
    y : ndarray, (k,)
        Its coefficients.
    w : float
        Its weight.
    last : float or None
        None searches on the whole objective, from t = 1 on. A number, the last accepted length, searches on the
        newest vector alone, from twice that length on, which is the literal reading of algorithm 6.
    """
    whole = last is None
    weight = w if whole else 1.0
    before = weight * sample.cost
    t = 1.0 if last is None else 2.0 * (last or 1.0)
    for _ in range(_BACKTRACKS if step.slope < 0 else 0):
        theta = step.rotation(t)
        allowed = before + (ARMIJO * t * step.slope if whole else 0.0)
        past = (1 - w) * step.past(t) if whole else 0.0
        coordinates = step.low_rank(theta, y)
        after = past + weight * sample.bound(coordinates)
        if after > allowed and sample.exact is not None:
            after = past + weight * sample.exact(coordinates)
        if after <= allowed:
            return Accepted(t, theta, (before, after))
        t /= 2
    return Accepted(0.0, np.eye(y.size + step.K.shape[0]), (before, before))
