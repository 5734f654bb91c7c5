"""Conjugate gradients with an Armijo line search, shared by the Grassmannian and the Euclidean half of robust PCA.

References
----------
C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

_SUFFICIENT_DECREASE = 1e-4
_SHRINK = 0.5
_MAX_TRIALS = 25


class Curve(Protocol):
    """A curve through the present point, along a search direction."""

    def value(self, t: float) -> float:
        """Return the objective at step length `t`."""

    def accept(self, t: float) -> None:
        """Move the present point to step length `t`, the one evaluated last."""

    def transport(self, C: np.ndarray) -> np.ndarray:
        """Carry the tangent vector `C` from the old point to the accepted one."""

    def direction(self) -> np.ndarray:
        """Return the search direction carried to the accepted point."""


class Problem(Protocol):
    """A smooth objective on a manifold, with a present point."""

    def gradient(self) -> np.ndarray:
        """Return the gradient at the present point."""

    def precondition(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient in the scaled metric, whose negative is the steepest descent direction."""

    def curve(self, direction: np.ndarray) -> Curve:
        """Return the curve along `direction`."""


def hestenes_stiefel(g: np.ndarray, z: np.ndarray, g_old: np.ndarray, z_old: np.ndarray, H_old: np.ndarray) -> float:
    """Return ``<z, g - g_old> / <H_old, g - g_old>``, old vectors already transported."""
    change = g - g_old
    return _ratio(np.vdot(z, change), np.vdot(H_old, change))


def fletcher_reeves(g: np.ndarray, z: np.ndarray, g_old: np.ndarray, z_old: np.ndarray, H_old: np.ndarray) -> float:
    """Return ``<z, g> / <z_old, g_old>``, old vectors already transported."""
    return _ratio(np.vdot(z, g), np.vdot(z_old, g_old))


CONJUGATE_RULES = {"hestenes-stiefel": hestenes_stiefel, "fletcher-reeves": fletcher_reeves}


def _ratio(numerator: np.floating, denominator: np.floating) -> float:
    return float(numerator / denominator) if denominator else 0.0


@dataclass
class Outcome:
    """What a run of conjugate gradients has reached: objective, last accepted step length, steps, evaluations."""

    value: float
    step_length: float
    steps: int = 0
    evaluations: int = 0
