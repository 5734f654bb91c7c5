"""The small matrices of one Grassmann step: everything here is O(k^3) or less and in float64.

The tall matrices appear by their coordinates in the stack ``[U Q e]`` only, e the influence of the newest vector.
With ``U'U = I``, ``Q'Q = I``, ``U'Q = 0`` and the inner products of e with all of them, no pass over the frame is
needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgsub.numerics.grassmann import small_rank_one_update, small_rotation

_DROP = 1e-6  # singular values of the gradient factor below this share of the largest are dropped
IN_SPAN = 1e-6  # share of the energy of e below which what is outside the span counts as rounding
FLOOR = 1e-6  # of the trace of the moment, added to its eigenvalues


@dataclass(frozen=True)
class Step:
    """A step direction ``H = Q_new K`` at the new gradient ``G = Q_new R``.

    Attributes
    ----------
    basis : ndarray, (k + r + 1, k + r_new)
        Columns: coordinates of U and of Q_new in the stack ``[U Q e]``.
    R : ndarray, (r_new, k)
        Factor of the new gradient.
    K : ndarray, (r_new, k)
        Factor of the step direction.
    slope : float
        ``<G, H>``, the derivative of the objective along the step.
    past_slope, past_curvature : float
        ``<G_old, H>`` and ``tr(H C_old H')`` of the second-order model of the past.
    """

    basis: np.ndarray
    R: np.ndarray
    K: np.ndarray
    slope: float
    past_slope: float
    past_curvature: float

    def rotation(self, t: float) -> np.ndarray:
        """Return theta, the rotation of [U Q_new] by the retraction at step length `t`."""
        return small_rotation(t * self.K)

    def low_rank(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the coordinates of ``P(t) l`` in the stack, (k + r + 1,), for ``l = U y``."""
        k = y.size
        return self.basis @ theta[:, :k] @ (theta[:k, :k].T @ y)

    def past(self, t: float) -> float:
        """Return the second-order model of the past at step length `t`, relative to t = 0."""
        return t * self.past_slope + t * t / 2 * self.past_curvature


def make_step(products: np.ndarray, R_old: np.ndarray, C_old: np.ndarray, y: np.ndarray, w: float, metric: str) -> Step:
    """Update the gradient factor by the newest vector and choose the direction: steps 2 to 4 of the algorithm.

    Parameters
    ----------
    products : ndarray, (k + r + 1,)
        Inner products of e with the columns of ``[U Q e]``.
    R_old : ndarray, (r, k)
        Factor of the gradient so far.
    C_old : ndarray, (k, k)
        Moment of the coefficients so far.
    y : ndarray, (k,)
        Coefficients of the newest vector.
    w : float
        Forgetting factor.
    metric : {"scaled", "canonical"}
        ``H = -G C^-1`` or ``H = -G / lambda_max(C)``.

    Notes
    -----
    Paper, section 5, algorithm 6: the new gradient is ``(1 - w) Q R + w p y'`` with ``p = -(I - U U') e``.
    """
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
    """Return ``R C^-1``, C raised, in the scaled metric, ``R / lambda_max(C)`` in the canonical one; (r, k)."""
    trace = float(np.trace(C))
    if trace <= 0:
        return np.zeros_like(R)
    if metric == "canonical":
        return R / np.linalg.eigvalsh(C)[-1]
    return np.linalg.solve(C + FLOOR * trace * np.eye(len(C)), R.T).T


def carried(R: np.ndarray, t: float, C: np.ndarray, metric: str, carry: str) -> np.ndarray:
    """Return the gradient factor at the new point, step 6: by the second-order model, or unchanged; (r, k)."""
    if carry == "unchanged":
        return R
    if metric == "scaled":
        return (1 - t) * R
    return R - t * preconditioned(R, C, metric) @ C
