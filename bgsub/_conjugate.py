"""Conjugate gradients with an Armijo line search, shared by the Grassmannian and the Euclidean half of robust PCA.

References
----------
C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

_SUFFICIENT_DECREASE = 1e-4
_MAX_TRIALS = 25
_GROWTH = 2.0


class Curve(Protocol):
    """A curve through the present point, along a search direction."""

    def value(self, t: float) -> float:
        """Return the objective at step length `t`."""

    def accept(self, t: float) -> None:
        """Move the present point to step length `t`, the one evaluated last."""

    def transport(self, C: np.ndarray, t: float) -> np.ndarray:
        """Carry the tangent vector `C` from the old point to the one at `t`."""

    def direction(self, t: float) -> np.ndarray:
        """Return the search direction carried to the point at `t`."""


class Problem(Protocol):
    """A smooth objective on a manifold, with a present point."""

    def gradient(self) -> np.ndarray:
        """Return the gradient at the present point, which is the one evaluated last."""

    def precondition(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient in the scaled metric, whose negative is the direction of steepest descent."""

    def curve(self, direction: np.ndarray) -> Curve:
        """Return the curve along `direction`."""


Rule = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], float]


def hestenes_stiefel(g: np.ndarray, z: np.ndarray, g_old: np.ndarray, z_old: np.ndarray, H_old: np.ndarray) -> float:
    """Return ``<z, g - g_old> / <H_old, g - g_old>`` for transported old vectors."""
    change = g - g_old
    return _ratio(np.vdot(z, change), np.vdot(H_old, change))


def fletcher_reeves(g: np.ndarray, z: np.ndarray, g_old: np.ndarray, z_old: np.ndarray, H_old: np.ndarray) -> float:
    """Return ``<z, g> / <z_old, g_old>`` for transported old vectors."""
    return _ratio(np.vdot(z, g), np.vdot(z_old, g_old))


CONJUGATE_RULES: dict[str, Rule] = {
    "hestenes-stiefel": hestenes_stiefel,
    "fletcher-reeves": fletcher_reeves,
}


@dataclass
class Descent:
    """What a run of conjugate gradients went through.

    Parameters
    ----------
    values : list of float
        The objective at the start and after every accepted step.
    step_length : float
        Step length to try first next time.
    evaluations : int
        How often the objective was evaluated.
    """

    values: list[float]
    step_length: float
    evaluations: int = 0


def minimise(
    problem: Problem, value: float, rule: Rule, *, steps: int, tolerance: float, step_length: float
) -> Descent:
    """Lower the objective of `problem` by at most `steps` conjugate gradient steps.

    Parameters
    ----------
    problem : Problem
        The objective with its present point, which is moved.
    value : float
        The objective at the present point, evaluated last.
    rule : callable
        One of `CONJUGATE_RULES`; a negative factor, or a direction that does not descend, means a restart.
    steps : int
        Number of steps.
    tolerance : float
        End when a step lowers the objective by less than this share of it.
    step_length : float
        First trial of the first line search; later ones begin at twice the last accepted step length.
    """
    descent = Descent([value], step_length)
    g = problem.gradient()
    z = problem.precondition(g)
    H, slope, steepest = -z, -float(np.vdot(g, z)), True
    while len(descent.values) <= steps and slope < 0:
        curve = problem.curve(H)
        t = _line_search(curve, slope, descent)
        if t == 0 and steepest:
            break
        if t > 0:
            curve.accept(t)
            if descent.values[-2] - descent.values[-1] <= tolerance * abs(descent.values[-1]):
                break
            g_old, z_old, H_old = curve.transport(g, t), curve.transport(z, t), curve.direction(t)
            g = problem.gradient()
            z = problem.precondition(g)
            factor = max(rule(g, z, g_old, z_old, H_old), 0.0)
            H = g.dtype.type(factor) * H_old - z
            slope, steepest = float(np.vdot(g, H)), factor == 0
        if t == 0 or not slope < 0:
            H, slope, steepest = -z, -float(np.vdot(g, z)), True
    return descent


def _line_search(curve: Curve, slope: float, descent: Descent) -> float:
    """Return the first step length with sufficient decrease and record its value; 0 if there is none."""
    start, t = descent.values[-1], descent.step_length
    for _ in range(_MAX_TRIALS):
        value = curve.value(t)
        descent.evaluations += 1
        if value <= start + _SUFFICIENT_DECREASE * t * slope:
            descent.values.append(value)
            descent.step_length = _GROWTH * t
            return t
        t = _shorter(t, value - start, slope)
    return 0.0


def _shorter(t: float, rise: float, slope: float) -> float:
    """Return the minimiser of the parabola through both values with the given slope, kept in [t/10, t/2]."""
    if not np.isfinite(rise):
        return t / 10
    return float(np.clip(-slope * t * t / (2 * (rise - slope * t)), t / 10, t / 2))


def _ratio(numerator: np.floating, denominator: np.floating) -> float:
    return float(numerator / denominator) if denominator else 0.0
