"""The cost of a low-rank part as robust PCA sees it: all observed entries, through a smoothed l0-surrogate."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca._cost_kernels import cost_and_influence


class RobustCost:
    """The cost ``h_mu(X - A(U Y))``, and its influence at the point evaluated last.

    Parameters
    ----------
    X : ndarray, (n, m), float32 or float64, contiguous
        Samples as rows, finite.
    observed : ndarray, (n, m), bool, contiguous
        The mask A.
    surrogate : Surrogate
        Which cost; may be replaced before an evaluation.

    Attributes
    ----------
    low_rank : ndarray, (n, m)
        ``U Y``, transposed as X is.
    influence : ndarray, (n, m)
        ``A(psi(X - A(U Y)))``.
    """

    def __init__(self, X: np.ndarray, observed: np.ndarray, surrogate: Surrogate) -> None:
        self.X, self.observed = X, observed
        self.surrogate = surrogate
        self.low_rank = np.empty_like(X)
        self.influence = np.empty_like(X)
        self._mask = np.empty(0, bool) if observed.all() else observed.reshape(-1)

    def evaluate(self, U: np.ndarray, Y: np.ndarray) -> float:
        """Return the cost at ``L = U Y`` for `U`, (m, k), and `Y`, (k, n).  O(m n k)."""
        np.matmul(Y.T, U.T, out=self.low_rank)
        return self.evaluate_again()

    def evaluate_again(self) -> float:
        """Return the cost at the point evaluated last, with the present surrogate.  O(m n)."""
        real = self.X.dtype.type
        cost = self.surrogate
        data = self.X.reshape(-1), self._mask
        parts = self.low_rank.reshape(-1), self.influence.reshape(-1)
        return float(cost_and_influence(*data, cost.code, real(cost.mu), real(cost.p), *parts))
