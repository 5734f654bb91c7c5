"""Robust PCA of a stream of batches: new samples against a past that is kept in its second-order model.

With a surrogate of curvature one the past costs at most ``(B - B_old) C (B - B_old)' / 2`` more when the basis moves
from B_old to B, where C is the moment of its coefficients: section 5 of the paper, for a batch instead of a vector.
Nothing else of the past is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bgsub.robust_pca.factors import ResidualScale
from bgsub.robust_pca.halves import RobustFit
from bgsub.robust_pca.irls import Past, least_squares, reweighted
from bgsub.robust_pca.noise_and_rank import EFFICIENT
from bgsub.robust_pca.progress import Progress

_FALL = 0.5  # least factor of mu from one round to the next
_LAST_ROUNDS = 3  # at the last mu
_MOST_ROUNDS = 100


@dataclass
class Continuation:
    """A batch of new samples after a fit.

    Parameters
    ----------
    fit : RobustFit
        The samples and the surrogate.
    basis : ndarray, (m, k)
        Orthonormal basis so far.
    moment : ndarray, (k, k)
        Moment of the coefficients so far, what is forgotten taken off.
    first : float
        The mu to begin with.
    last : float or None
        The mu to end with; None: where the residual is noise.
    tolerance : float
        Share of the scale of the data below which a residual is none.
    rng : Generator
        Draws the entries that the scale of the residual is taken from.
    """

    fit: RobustFit
    basis: np.ndarray
    moment: np.ndarray
    first: float
    last: float | None
    tolerance: float
    rng: np.random.Generator

    def run(self) -> Iterator[Progress]:
        """Yield each round: the coefficients once, then the basis once, by reweighted least squares."""
        fit, past = self.fit, Past(self.basis, self.moment)
        X, observed = fit.X, fit.observed
        scale = ResidualScale(X, observed, 0, self.rng)
        free = np.sqrt(max(1 - self.basis.shape[1] / X.shape[1], 0.05))
        least = max(self.tolerance * scale.of_data(), float(np.finfo(np.float32).tiny))
        B = self.basis
        Y = least_squares(X, observed, B)
        fit.surrogate = replace(fit.surrogate, mu=self.first)
        rounds = 0
        for count in range(1, _MOST_ROUNDS + 1):
            before = fit.evaluate(B, Y.T) + past.cost(B)
            Y = reweighted(X, observed, Y, B, fit.surrogate)
            B = reweighted(X.T, observed.T, B, Y, fit.surrogate, past)
            after = fit.evaluate(B, Y.T) + past.cost(B)
            yield Progress(count, "both", fit.surrogate.mu, [before, after], Y, B.T)
            width = max(EFFICIENT * scale.of_residual(Y, B) / free, least)
            target = fit.surrogate.at_scale(width).mu if self.last is None else self.last
            if fit.surrogate.mu > target:
                fit.surrogate = replace(fit.surrogate, mu=max(target, _FALL * fit.surrogate.mu))
                rounds = 0
            else:
                rounds += 1
                if rounds == _LAST_ROUNDS:
                    return
