"""Dense float64 twin of the self-tuned tracker: whole matrices with columns U and V."""

import numpy as np
from reference_tracking import polar, raised, weighted_fit

from bgsub.numerics.surrogates import Surrogate
from bgsub.tracking import _self_tuned_kernels, self_tuned, tuning
from bgsub.tracking.step import ARMIJO, IN_SPAN


def predict(U, V, momentum: float, C):
    """Move U (m, k) by a share of its velocity; return an orthonormal U, the tangent V, and C in its coordinates."""
    moved = U + momentum * V
    L = np.linalg.cholesky(moved.T @ moved)
    P = np.linalg.solve(L, moved.T).T
    turned = np.linalg.solve(L, V.T).T
    return P, turned - P @ (P.T @ turned), L.T @ C @ L


def own_scale_coefficients(U, x, a, s, surrogate: Surrogate, limits):
    """Least squares, weighted fits from wide to true scales, then more of them.

    Returns y, the residual, the weights, their mean and the median of ``|r| / s`` of observed entries.
    """
    stages, iterations, tolerance = limits
    seen = a > 0
    y = np.linalg.lstsq(a[:, None] * U, a * x, rcond=None)[0]
    first = max(2 * np.median(np.abs(x - U @ y)[seen] / s[seen]), 1.0)
    for stage in range(stages if first > 1 else 0):
        y = weighted_fit(U, x, a, s, surrogate, first ** (1 - (stage + 1) / stages), y)
    for _ in range(iterations):
        before, y = y, weighted_fit(U, x, a, s, surrogate, 1.0, y)
        if np.linalg.norm(y - before) <= tolerance * np.linalg.norm(y):
            break
    r = a * (x - U @ y)
    omega = a * surrogate.weight(r / s)
    return y, r, omega, float(omega.mean()), float(np.median(np.abs(r[seen]) / s[seen]))


def followed(s, r, a, follow):
    """The scales after sign steps towards the median of ``|r|``; `follow` as in the kernel."""
    inflation, up, down, common, floor = follow
    step = np.where(a > 0, np.where(inflation * np.abs(r) > s, up, down), 1.0)
    return np.maximum(s * step * common, floor)


def step(P, V, C, y, e, cost: float, w: float, share: float, keep: float, gain: float):
    """One full step along ``w p z'`` from the predicted subspace, and the velocity that learns from it.

    Returns U, V, C, z, the objective before and after, and whether the step was taken.
    """
    p = e - P @ (P.T @ e)
    z = np.linalg.solve(raised((1 - w) * C + w * np.outer(y, y)), y)
    z = z * min(_self_tuned_kernels._LONGEST / max(w * np.linalg.norm(p) * np.linalg.norm(z), 1e-300), 1.0)
    H = w * np.outer(p, z)
    U, turn = polar(P, H)
    change = U @ turn @ y - P @ y
    before = w * cost
    after = w * (cost - e @ change + change @ change / 2) + (1 - w) / 2 * np.trace(H @ C @ H.T)
    slope = -(w**2) * (p @ p) * (y @ z)
    C = (1 - w) * C + w * share * np.outer(y, y)
    if not (p @ p > IN_SPAN * (e @ e) and after <= before + ARMIJO * slope):
        return P, keep * V, C, z, (before, before), False
    return U, keep * V @ turn + gain * (U - P @ turn), C, z, (before, after), True


def update_sensitivity(Z, P, e, omega, y, z, inside, w: float):
    """The gain of a larger w, and the sensitivity ``dU / d(log w)``, (n, k), after the step."""
    gained = e @ (Z @ y) / (e @ e)
    return gained, Z + w * np.outer(e - P @ inside - omega * (Z @ y), z)


class SelfTuned:
    """`bgsub.tracking.self_tuned.SelfTunedSubspace` with dense matrices, U and V (m, k), Z (n, k).

    `forgetting` None adapts it; without `own_scales` all entries share one scale.
    """

    def __init__(self, U, index, surrogate: Surrogate, forgetting=None, own_scales: bool = True) -> None:
        m, k = U.shape
        self.U, self.V, self.Z = U, np.zeros((m, k)), np.zeros((len(index), k))
        self.C, self.s = np.zeros((k, k)), np.zeros(m)
        self.index, self.surrogate, self.forgetting, self.own_scales = index, surrogate, forgetting, own_scales
        self.most = min(1 / (tuning._SHORTEST * k), tuning._LARGEST_W)
        self.w = self.most / 2 if forgetting is None else forgetting
        self.momentum, self.objective, self.taken = 0.0, (0.0, 0.0), False
        self.size, self.seen = 0.0, 0.0

    def fit(self, U, x, a):
        i = self.index
        return own_scale_coefficients(U[i], x[i], a[i], self.s[i], self.surrogate, self_tuned._FIT)

    def first_scale(self, x, a) -> None:
        """The scale of the first vector's residual for all entries."""
        size = np.sqrt(np.sum(x**2) / np.sum(a))
        self.size = size if self.own_scales else 0.0
        self.s[:] = size if self.own_scales else max(2 * size / self.surrogate.scale, 1.0)
        for _ in range(self_tuned._FIRST_FITS if self.own_scales else 0):
            self.s *= max(self.fit(self.U, x, a)[-1], self_tuned._ROUNDING)

    def following(self, C, y, share: float, ratio: float):
        """How the scales follow this vector, and by how much all of them grow at once."""
        if not self.own_scales:
            return (1, 1, 1, 1 / self_tuned._STEP, 1), 1.0
        (m, k), n = self.U.shape, len(self.index)
        inflation = 1 / np.sqrt(max(1 - k / max(share * n, 1), self_tuned._LEAST_FREEDOM))
        calm, ratio = self_tuned._CALM, ratio * inflation
        common = (max(ratio / calm, 1) * min(max(ratio, 1e-3) * calm, 1)) ** self_tuned._TOGETHER
        floor = self_tuned._ROUNDING * np.sqrt(((1 - self.w) * np.trace(C) + self.w * y @ y) / m)
        if common < 1:
            common = min(max(common, floor / np.median(self.s[self.index])), 1.0)
        return (inflation, self_tuned._STEP, 1 / self_tuned._STEP, common, floor), max(common, 1.0)

    def press(self, x, share: float) -> None:
        """Keep the scales below the bound of a cold start."""
        self.seen += share
        if self.size and self.seen < tuning._LASTS_FOR:
            self.size += tuning._SIZE_RATE * (np.sqrt(np.mean(x**2) / share) - self.size)
            first, last = tuning._FIRST_BOUND, tuning._LAST_BOUND
            bound = self.size * first * (last / first) ** min(self.seen / tuning._SHRINKS_FOR, 1)
            self.s = np.minimum(self.s, bound)
            usual = np.median(self.s[self.index]) / bound
            self.size *= usual >= tuning._FOUND
            self.momentum *= usual < tuning._FREE

    def learn(self, x, a) -> None:
        """Predict, fit, step, follow."""
        x = a * x
        if not self.s.any():
            self.first_scale(x, a)
        self.press(x, np.mean(a))
        w, s = self.w, self.s
        P, V, C = predict(self.U, self.V, self.momentum, self.C)
        y, r, omega, share, ratio = self.fit(P, x, a)
        follow, surprise = self.following(C, y, share, ratio)
        residual = a * (x - P @ y)
        e = s * self.surrogate.influence(residual / s)
        cost = float(np.sum(s**2 * self.surrogate.value(residual / s)))
        self.s = followed(s, residual, a, follow)
        along = V @ y
        length = np.linalg.norm(e) * np.linalg.norm(along)
        agreement = e @ along / length if length > 0 else 0.0
        gain = tuning._VELOCITY_GAIN * w if self.forgetting is None else 0.0
        keep = 1 - gain * (1 - self.momentum)
        self.U, self.V, self.C, z, self.objective, self.taken = step(P, V, C, y, e, cost, w, share, keep, gain)
        if self.forgetting is None:
            i = self.index
            gained, self.Z = update_sensitivity(self.Z, P[i], omega * r, omega, y, z, P.T @ e, w if self.taken else 0.0)
            self.momentum = float(np.clip(self.momentum + w / self.most * agreement, 0, 1))
            change = np.clip(tuning._HYPERGRADIENT_GAIN * gained / len(y), -w, tuning._LARGEST_RISE)
            self.w = float(np.clip(w * np.exp(change) * surprise, tuning._SMALLEST_W, self.most))
