"""The small matrices of a Grassmann step (paper, section 5): everything is O(k^3) or less and in float64.

The tall matrices appear only as coordinates in the stack ``[U Q e]``, e the influence of the newest vector. With
``U'U = I``, ``Q'Q = I``, ``U'Q = 0`` and the inner products of e with all columns, no pass over the vector is needed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bgsub.numerics.grassmann import small_rank_one_update, small_rotation
from bgsub.tracking._step_kernels import ARMIJO, FLOOR, IN_SPAN

_DROP = 1e-6  # share of the largest singular value below which directions of the gradient are dropped
_BACKTRACKS = 20


@dataclass(frozen=True)
class Step:
    """A step direction ``H = Q_new K`` at the new gradient ``G = Q_new R``, R and K (r_new, k)."""

    basis: np.ndarray  # (k + r + 1, k + r_new), columns: coordinates of U and of Q_new in the stack ``[U Q e]``
    R: np.ndarray
    K: np.ndarray
    slope: float  # ``<G, H>``, the derivative of the objective along the step
    past_slope: float  # ``<G_old, H>`` of the second-order model of the past
    past_curvature: float  # ``tr(H C_old H')`` of that model

    def rotation(self, t: float) -> np.ndarray:
        """Return theta, the rotation of [U Q_new] by the retraction at step length t."""
        return small_rotation(t * self.K)

    def low_rank(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the coordinates of ``P(t) l`` in the stack, (k + r + 1,), for ``l = U y``."""
        k = y.size
        return self.basis @ theta[:, :k] @ (theta[:k, :k].T @ y)

    def past(self, t: float) -> float:
        """Return the second-order model of the past at step length t, relative to t = 0."""
        return t * self.past_slope + t * t / 2 * self.past_curvature


def make_step(products: np.ndarray, R_old: np.ndarray, C_old: np.ndarray, y: np.ndarray, w: float, metric: str) -> Step:
    """Update the gradient ``(1 - w) Q R - w (I - U U') e y'`` and choose the direction (algorithm 6, steps 2 to 4)."""
    k, r = y.size, R_old.shape[0]
    inside, beta, energy = products[:k], -products[k:-1], float(products[-1])
    rest = energy - inside @ inside - beta @ beta
    rho = float(np.sqrt(rest)) if rest > IN_SPAN * energy else 0.0
    J, R = small_rank_one_update(R_old, beta, rho, y, w, _DROP)
    q = np.concatenate([inside, -beta, [-1.0]]) / rho if rho else np.zeros(k + r + 1)
    basis = np.zeros((k + r + 1, k + R.shape[0]))
    basis[:k, :k] = np.eye(k)
    basis[k : k + r, k:] = J[:r]
    basis[:, k:] += np.outer(q, J[r])
    K = -preconditioned(R, (1 - w) * C_old + w * np.outer(y, y), metric)
    past_slope = float(np.sum(R_old * (J @ K)[:r]))
    return Step(basis, R, K, float(np.sum(R * K)), past_slope, float(np.sum((K @ C_old) * K)))


def preconditioned(R: np.ndarray, C: np.ndarray, metric: str) -> np.ndarray:
    """Return ``R (C + floor I)^-1`` in the scaled metric, ``R / lambda_max(C)`` in the canonical one; (r, k)."""
    trace = float(np.trace(C))
    if trace <= 0:
        return np.zeros_like(R)
    if metric == "canonical":
        return R / np.linalg.eigvalsh(C)[-1]
    return np.linalg.solve(C + FLOOR * trace * np.eye(len(C)), R.T).T


def carried(R: np.ndarray, t: float, C: np.ndarray, metric: str, carry: str) -> np.ndarray:
    """Return the gradient factor R, (r, k), at the new point: by the second-order model, or unchanged."""
    if carry == "unchanged":
        return R
    if metric == "scaled":
        return (1 - t) * R
    return R - t * preconditioned(R, C, metric) @ C


def cost_bound(cost: float, products: np.ndarray, y: np.ndarray, c: np.ndarray) -> float:
    """Return an upper bound of the newest vector's cost with the low-rank part ``[U Q e] c``, (k + r + 1,)."""
    # the curvature is at most one: h(r - d) <= h(r) - <psi(r), d> + |d|^2 / 2
    d = c.copy()
    d[: y.size] -= y
    along = float(products @ d)
    square = float(d[:-1] @ d[:-1]) + float(d[-1]) * (2 * float(products[:-1] @ d[:-1]))
    square += float(d[-1]) ** 2 * float(products[-1])
    return cost - along + square / 2


def search(
    step: Step, cost: float, costs: Sequence[Callable[[np.ndarray], float]], y: np.ndarray, w: float, last: float | None
) -> tuple[float, np.ndarray, tuple[float, float]]:
    """Find a step length by backtracking (algorithm 6, step 5); return it, the rotation of [U Q], the objectives."""
    # `costs`: upper bounds of the newest cost, the cheapest first, the last one exact; any of them may accept a step
    # `last` None: on the whole objective from t = 1; else on the newest vector alone, as algorithm 6, from t = 2 `last`
    whole = last is None
    weight = w if whole else 1.0
    before = weight * cost
    t = 1.0 if last is None else 2.0 * (last or 1.0)
    for _ in range(_BACKTRACKS if step.slope < 0 else 0):
        theta = step.rotation(t)
        allowed = before + (ARMIJO * t * step.slope if whole else 0.0)
        past = (1 - w) * step.past(t) if whole else 0.0
        coordinates = step.low_rank(theta, y)
        for bound in costs:
            after = past + weight * bound(coordinates)
            if after <= allowed:
                return t, theta, (before, after)
        t /= 2
    return 0.0, np.eye(y.size + step.K.shape[0]), (before, before)
