"""OR-PCA: online robust PCA by stochastic optimisation of the factorised nuclear norm.

References
----------
J. Feng, H. Xu, S. Yan, "Online robust PCA via stochastic optimization", NIPS 2013: algorithm 1 (OR-PCA), algorithm 2
(basis update), and the data projection of the supplement, with its tolerance. The authors' MATLAB code (stoc_rpca.m)
also shortens the columns of the basis to norm 1. That is not done here: it ends farther from a static subspace.
"""

from __future__ import annotations

import numpy as np

from bgsub.errors import ParameterError

from ._basis import first_basis


class OnlineRobustPCA:
    """Tracker of a subspace from complete columns with outliers; it remembers all columns alike.

    Parameters
    ----------
    rank : int
        Dimension k of the subspace.
    dimension : int
        Length m of a column.
    lambda1, lambda2 : float, optional
        Weights of the squared norms of basis and coefficients and of the l1 norm of the outliers; ``1 / sqrt(m)`` if
        None, which belongs to columns of norm 1: lambda2 is then near the size of an entry. Much below it, the first
        wrong bases leave everything to the outliers, and the method hardly moves.
    tolerance : float
        The projection stops when coefficients and outliers change by less, relative to the norm of the column.
    seed : int
        Seed of the random first subspace.
    U : ndarray, (m, k), optional
        Orthonormal basis to begin from.

    Attributes
    ----------
    L : ndarray, (m, k), float64
        Basis of the present subspace, not orthonormal.
    U : ndarray, (m, k), float64
        Orthonormal basis of the same subspace.

    Notes
    -----
    The basis minimises, one of its columns after the other and once around per x, ``1/2 sum_i |x_i - L r_i - e_i|^2 +
    lambda1 / 2 |L|^2`` with the r_i and e_i found when the x_i came, which bounds the objective of robust PCA from
    above. One column costs O(iterations m k + m k^2). The method as published has no missing entries.
    """

    def __init__(
        self,
        rank: int,
        dimension: int,
        lambda1: float | None = None,
        lambda2: float | None = None,
        *,
        tolerance: float = 1e-6,
        seed: int = 0,
        U: np.ndarray | None = None,
    ) -> None:
        self.L = first_basis(rank, dimension, seed, U)
        self.lambda1 = dimension**-0.5 if lambda1 is None else lambda1
        self.lambda2 = dimension**-0.5 if lambda2 is None else lambda2
        self.tolerance = tolerance
        self._A, self._B = np.zeros((rank, rank)), np.zeros((dimension, rank))
        self._U: np.ndarray | None = None

    @property
    def U(self) -> np.ndarray:
        """Orthonormal basis of the span of `L`, (m, k)."""
        if self._U is None:
            self._U = np.linalg.qr(self.L)[0]
        return self._U

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Take one column, (m,), and move the subspace towards it.

        Parameters
        ----------
        x : ndarray, (m,)
            Column; one of zeros changes nothing.
        observed : ndarray, (m,), bool, optional
            Which entries are observed: all.

        Returns
        -------
        coefficients : ndarray, (k,)
            Coefficients of the column in `L` before the step.
        sparse : ndarray, (m,)
            Its outliers.

        Raises
        ------
        ParameterError
            If entries are missing.
        """
        if observed is not None and not observed.all():
            raise ParameterError("OR-PCA needs complete columns, got missing entries")
        r, e = project(self.L, x, self.lambda1, self.lambda2, self.tolerance)
        if not r.any():
            return r, e
        self._A += np.outer(r, r)
        self._B += np.outer(x - e, r)
        descend(self.L, self._A, self._B, self.lambda1)
        self._U = None
        return r, e


def project(
    L: np.ndarray, x: np.ndarray, lambda1: float, lambda2: float, tolerance: float = 1e-6, iterations: int = 9999
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ``1/2 |x - L r - e|^2 + lambda1 / 2 |r|^2 + lambda2 |e|_1`` by alternating ridge and soft threshold.

    Parameters
    ----------
    L : ndarray, (m, k)
    x : ndarray, (m,)
    lambda1, lambda2 : float
    tolerance : float
        Stop when r and e change by less, relative to the norm of x.
    iterations : int
        At most this many.

    Returns
    -------
    r : ndarray, (k,)
    e : ndarray, (m,)
    """
    ridge = np.linalg.solve(L.T @ L + lambda1 * np.eye(L.shape[1]), L.T)
    r, e = np.zeros(L.shape[1]), np.zeros_like(x)
    bound = tolerance * np.linalg.norm(x)
    for _ in range(iterations):
        last_r, last_e = r, e
        r = ridge @ (x - e)
        rest = x - L @ r
        e = rest - np.clip(rest, -lambda2, lambda2)
        if max(np.linalg.norm(r - last_r), np.linalg.norm(e - last_e)) <= bound:
            break
    return r, e


def descend(L: np.ndarray, A: np.ndarray, B: np.ndarray, lambda1: float) -> None:
    """Minimise ``1/2 tr(L' L (A + lambda1 I)) - tr(L' B)`` over one column of L, (m, k), after the other, in place."""
    A = A + lambda1 * np.eye(len(A))
    for j in range(L.shape[1]):
        L[:, j] += (B[:, j] - L @ A[:, j]) / A[j, j]
