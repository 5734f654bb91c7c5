"""The two factors of a low-rank matrix, and the cost of robust PCA as a function of both at once.

References
----------
T. Tong, C. Ma and Y. Chi, Accelerating ill-conditioned low-rank matrix estimation via scaled gradient descent, 2021,
for the metric.
"""

from __future__ import annotations

import numpy as np

from bgsub.robust_pca.conjugate_gradient import Line
from bgsub.robust_pca.cost import RobustCost

_TINY = float(np.finfo(np.float32).tiny)
_ROUNDINGS = 16  # of the trace of a Gram matrix


class FactorProblem:
    """``h(X - A B') + ridge/2 (|A|^2 + |B|^2)`` as a function of A, (n, k), and B, (m, k).

    The ridge is the nuclear norm of A B' in disguise: over all factors of one product its least value is ``ridge``
    times the sum of the singular values.

    Parameters
    ----------
    cost : RobustCost
        The cost h.
    point : ndarray, (n + m, k)
        A above B.
    ridge : float
        In intensity, like the singular values of a matrix of such entries.

    Notes
    -----
    The metric is scaled: A is preconditioned by ``(B'B + ridge)^-1`` and B by ``(A'A + ridge)^-1``.  With curvature one
    at zero these bound the two diagonal blocks of the Hessian, whatever the singular values, and a step length of
    about one is natural.
    """

    def __init__(self, cost: RobustCost, point: np.ndarray, ridge: float) -> None:
        self.cost, self.point, self.ridge = cost, point, ridge

    @property
    def A(self) -> np.ndarray:
        """The factor of the samples, (n, k)."""
        return self.point[: len(self.cost.X)]

    @property
    def B(self) -> np.ndarray:
        """The factor of the features, (m, k)."""
        return self.point[len(self.cost.X) :]

    def evaluate(self, point: np.ndarray) -> float:
        """Return the objective at `point`.  O(m n k)."""
        n = len(self.cost.X)
        return self.cost.evaluate(point[n:], point[:n].T) + self._penalty(point)

    def evaluate_again(self) -> float:
        """Return the objective at `point`, which was evaluated last, with the present surrogate and ridge.  O(m n)."""
        return self.cost.evaluate_again() + self._penalty(self.point)

    def gradient(self) -> np.ndarray:
        """Return the gradient at the point evaluated last, (n + m, k).  O(m n k)."""
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

    def curve(self, direction: np.ndarray) -> Line:
        return Line(self, direction)

    def _penalty(self, point: np.ndarray) -> float:
        return 0.5 * self.ridge * float(np.vdot(point, point))

    def _inverse(self, factor: np.ndarray) -> np.ndarray:
        return inverse_gram(factor, _ROUNDINGS * float(np.finfo(factor.dtype).eps), ridge=self.ridge)


def inverse_gram(F: np.ndarray, share: float, least: float = _TINY, *, ridge: float = 0.0) -> np.ndarray:
    """Return ``(F'F + floor)^-1``, (k, k), for F, (n, k).  O(n k^2 + k^3).

    The floor, where directions have died out, is `share` of the trace and `least`; the ridge comes on top of it.
    """
    gram = (F.T @ F).astype(np.float64)
    gram.flat[:: len(gram) + 1] += ridge + share * np.trace(gram) + least
    return np.linalg.inv(gram).astype(F.dtype)


def balanced(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return factors of the same product whose columns have the same norms; A has orthogonal columns or B has."""
    a, b = np.linalg.norm(A, axis=0), np.linalg.norm(B, axis=0)
    share = np.sqrt(np.where((a > 0) & (b > 0), b / np.where(a > 0, a, 1), 1))
    share = np.where(share > 0, share, 1).astype(A.dtype)
    return A * share, B / share
