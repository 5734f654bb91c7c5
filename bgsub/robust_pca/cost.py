"""The cost of robust PCA: of a low-rank part, and of the two factors of one."""

import numpy as np

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca._cost_kernels import cost_and_influence
from bgsub.robust_pca.conjugate_gradient import Problem

_TINY = float(np.finfo(np.float32).tiny)
_ROUNDINGS = 16  # of the trace of a Gram matrix


class RobustCost:
    """The cost ``h_mu(X - A(U Y))`` of samples X, (n, m), and its influence at the last evaluated point."""

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
        """Return the cost at the last evaluated point with the current surrogate.  O(m n)."""
        real, cost = self.X.dtype.type, self.surrogate
        data = self.X.reshape(-1), self._mask
        parts = self.low_rank.reshape(-1), self.influence.reshape(-1)
        return float(cost_and_influence(*data, cost.code, real(cost.mu), real(cost.p), *parts))


class FactorProblem(Problem):
    """``h(X - A B') + ridge/2 (|A|^2 + |B|^2)`` as a function of A, (n, k), of the samples, above B, (m, k)."""

    # the metric, (B'B + ridge)^-1 for A, bounds the Hessian (T. Tong, C. Ma, Y. Chi, scaled gradient descent, 2021)

    def __init__(self, cost: RobustCost, point: np.ndarray, ridge: float) -> None:
        self.cost, self.point, self.ridge = cost, point, ridge

    @property
    def A(self) -> np.ndarray:
        return self.point[: len(self.cost.X)]

    @property
    def B(self) -> np.ndarray:
        return self.point[len(self.cost.X) :]

    def evaluate(self, point: np.ndarray) -> float:
        """Return the objective at `point`.  O(m n k)."""
        n = len(self.cost.X)
        return self.cost.evaluate(point[n:], point[:n].T) + self._penalty(point)

    def evaluate_again(self) -> float:
        """Return the objective at the last evaluated point with the current surrogate and ridge.  O(m n)."""
        return self.cost.evaluate_again() + self._penalty(self.point)

    def gradient(self) -> np.ndarray:
        """Return the gradient at the last evaluated point, (n + m, k).  O(m n k)."""
        g = self.point.dtype.type(self.ridge) * self.point
        n = len(self.cost.X)
        g[:n] -= self.cost.influence @ self.B
        g[n:] -= self.cost.influence.T @ self.A
        return g

    def precondition(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient in the scaled metric, (n + m, k).  O((m + n) k^2)."""
        n = len(self.cost.X)
        z = np.empty_like(gradient)
        np.matmul(gradient[:n], self._inverse(self.B), out=z[:n])
        np.matmul(gradient[n:], self._inverse(self.A), out=z[n:])
        return z

    def _penalty(self, point: np.ndarray) -> float:
        return 0.5 * self.ridge * float(np.vdot(point, point))

    def _inverse(self, factor: np.ndarray) -> np.ndarray:
        return inverse_gram(factor, _ROUNDINGS * float(np.finfo(factor.dtype).eps), ridge=self.ridge)


def inverse_gram(F: np.ndarray, share: float, least: float = _TINY, *, ridge: float = 0.0) -> np.ndarray:
    """Return ``(F'F + ridge + share tr(F'F) + least)^-1``, (k, k), for F, (n, k).  O(n k^2 + k^3)."""
    gram = (F.T @ F).astype(np.float64)
    gram.flat[:: len(gram) + 1] += ridge + share * np.trace(gram) + least
    return np.linalg.inv(gram).astype(F.dtype)
