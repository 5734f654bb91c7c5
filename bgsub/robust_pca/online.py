"""Robust PCA of a stream of batches: new samples, and the second-order model of the past ones.

With a surrogate of curvature one the past adds at most ``(B - B_old) C (B - B_old)' / 2`` to the cost if B_old becomes
B, where C is the moment of its coefficients: section 5 of the paper, for a batch instead of a vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.irls import Past, least_squares, reweighted
from bgsub.robust_pca.noise import EFFICIENT, ResidualScale
from bgsub.robust_pca.parameters import Settings
from bgsub.robust_pca.progress import Progress

_FALL = 0.5  # least factor of mu from one round to the next
_LAST_ROUNDS = 3  # at the last mu
_MOST_ROUNDS = 100
_LEAST_SHARE = 0.05  # of free entries per entry


def continuation(settings: Settings, cost: RobustCost, past: Past, first: float) -> Iterator[Progress]:
    """Yield each round of reweighted least squares: the coefficients once, then the basis once."""
    X, observed, B = cost.X, cost.observed, past.rows
    scale = ResidualScale(X, observed, 0, settings.rng)
    free = np.sqrt(max(1 - B.shape[1] / X.shape[1], _LEAST_SHARE))
    least = max(settings.tolerance_in(X.dtype) * scale.of_data(), float(np.finfo(np.float32).tiny))
    Y = least_squares(X, observed, B)
    mu, rounds = first, 0
    for count in range(1, _MOST_ROUNDS + 1):
        cost.surrogate = replace(cost.surrogate, mu=mu)
        before = cost.evaluate(B, Y.T) + past.cost(B)
        Y = reweighted(X, observed, Y, B, cost.surrogate)
        B = reweighted(X.T, observed.T, B, Y, cost.surrogate, past)
        after = cost.evaluate(B, Y.T) + past.cost(B)
        yield Progress(count, "both", mu, [before, after], Y, B.T)
        width = max(EFFICIENT * scale.of_residual(Y, B) / free, least)
        target = cost.surrogate.at_scale(width).mu if settings.last is None else settings.last
        rounds = 0 if mu > target else rounds + 1
        if rounds == _LAST_ROUNDS:
            return
        if mu > target:
            mu = max(target, _FALL * mu)
