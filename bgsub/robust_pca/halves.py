"""The two halves of an alternation of robust PCA: the basis on the Grassmannian, the coefficients in R^(k x n).

Data matrices are kept sample by sample, as their transpose (n, m), so that a frame is contiguous.

References
----------
C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 2 and 3.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.grassmann import Retraction, project
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca._cost_kernels import cost_and_influence
from bgsub.robust_pca.conjugate_gradient import Line

_FLOOR = 1e-6  # of the trace: directions of the basis that no sample uses must not get infinite steps


class RobustFit:
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


class BasisHalf:
    """The cost as a function of the subspace, along ``P(t) L`` with ``L = U Y``.

    Parameters
    ----------
    fit : RobustFit
        The cost, evaluated last at (U, Y).
    U : ndarray, (m, k)
        Orthonormal basis, replaced as the subspace moves.
    Y : ndarray, (k, n)
        Coefficients; ``T11' Y`` after a step, so that U Y becomes ``P L``.

    Notes
    -----
    Every accepted step replaces L by P L. Then L lies in the subspace, of the gradient (see
    `bgsub.numerics.grassmann.riemannian_gradient`) only the first term is left, and the derivative along B is
    ``<-(I - U U') psi Y', B>``.

    The metric is scaled by ``(Y Y')^-1``. With curvature one at zero, ``Y Y'`` bounds the Hessian, so that a step
    length of one is natural whatever the units and however uneven the energy of the components, as in video, where
    the mean image outweighs what varies.
    """

    def __init__(self, fit: RobustFit, U: np.ndarray, Y: np.ndarray) -> None:
        self.fit, self.U, self.Y = fit, U, Y

    def gradient(self) -> np.ndarray:
        """Return ``-(I - U U') psi Y'``, (m, k).  O(m n k)."""
        return -project(self.U, self.fit.influence.T @ self.Y.T)

    def precondition(self, gradient: np.ndarray) -> np.ndarray:
        """Return ``gradient (Y Y')^-1``, (m, k).  O(m k^2 + k^2 n)."""
        moment = (self.Y @ self.Y.T).astype(np.float64)
        floor = _FLOOR * np.trace(moment) + np.finfo(self.Y.dtype).tiny
        return gradient @ np.linalg.inv(moment + floor * np.eye(len(moment))).astype(gradient.dtype)

    def curve(self, direction: np.ndarray) -> _BasisCurve:
        """Return the retraction along `direction`, (m, k)."""
        return _BasisCurve(self, direction)


class _BasisCurve:
    """The retraction from the present subspace along a direction."""

    def __init__(self, half: BasisHalf, direction: np.ndarray) -> None:
        self._half = half
        self._retraction = Retraction(half.U, direction)

    def value(self, t: float) -> float:
        """Return the objective at step length `t`."""
        self._U = self._retraction.point(t)
        self._Y = self._retraction.coefficients(self._half.Y, t)
        return self._half.fit.evaluate(self._U, self._Y)

    def accept(self, t: float) -> None:
        """Move to the step length evaluated last."""
        self._half.U, self._half.Y = self._U, self._Y

    def transport(self, C: np.ndarray, t: float) -> np.ndarray:
        """Carry the tangent vector `C` to the accepted point."""
        return self._retraction.transport(C, t)

    def direction(self, t: float) -> np.ndarray:
        """Return the search direction carried to the accepted point."""
        return self._retraction.direction(t)


class CoefficientHalf:
    """The cost as a function of the coefficients; U is orthonormal, so that a step length of one is natural.

    Parameters
    ----------
    fit : RobustFit
        The cost, evaluated last at (U, Y).
    U : ndarray, (m, k)
        Orthonormal basis.
    Y : ndarray, (k, n)
        Coefficients, replaced step by step.
    """

    def __init__(self, fit: RobustFit, U: np.ndarray, Y: np.ndarray) -> None:
        self.fit, self.U, self.point = fit, U, Y

    @property
    def Y(self) -> np.ndarray:
        """The coefficients, (k, n)."""
        return self.point

    def evaluate(self, Y: np.ndarray) -> float:
        """Return the cost at the coefficients `Y`, (k, n).  O(m n k)."""
        return self.fit.evaluate(self.U, Y)

    def gradient(self) -> np.ndarray:
        """Return ``-U' psi``, (k, n).  O(m n k)."""
        return -(self.fit.influence @ self.U).T

    def precondition(self, gradient: np.ndarray) -> np.ndarray:
        """Return `gradient` itself: the curvature bound is U'U = I."""
        return gradient

    def curve(self, direction: np.ndarray) -> Line:
        """Return the straight line along `direction`, (k, n)."""
        return Line(self, direction)
