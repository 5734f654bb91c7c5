"""PETRELS: subspace tracking from incomplete columns by recursive least squares for every row of the basis.

References
----------
Y. Chi, Y. C. Eldar, R. Calderbank, "PETRELS: parallel subspace estimation and tracking by recursive least squares from
partial observations", IEEE Trans. Signal Processing 2013 (arXiv 1207.6353), algorithm 1. The first covariance and the
first basis are those of the authors' MATLAB code.
"""

from __future__ import annotations

import numpy as np

from ._basis import first_basis


class Petrels:
    """Tracker of a subspace from incomplete columns; it knows no outliers.

    Parameters
    ----------
    rank : int
        Dimension k of the subspace.
    dimension : int
        Length m of a column.
    forgetting : float
        Weight of a column relative to the next one (lambda), 0.98 as in the paper's experiments.
    covariance : float
        The first inverse of every row's normal equations is this times the identity (delta): how little the first basis
        weighs.
    seed : int
        Seed of the random first subspace.
    U : ndarray, (m, k), optional
        Orthonormal basis to begin from.

    Attributes
    ----------
    D : ndarray, (m, k), float64
        Basis of the present subspace, not orthonormal.
    U : ndarray, (m, k), float64
        Orthonormal basis of the same subspace.

    Notes
    -----
    Row i of the basis minimises ``sum_t forgetting^(n - t) (x_ti - a_t' d)^2`` over the columns up to the n-th that
    have entry i, with the a_t found when they came, plus ``forgetting^n / covariance |d - d_0|^2``. One column costs
    O(m k^2).
    """

    def __init__(
        self,
        rank: int,
        dimension: int,
        *,
        forgetting: float = 0.98,
        covariance: float = 100.0,
        seed: int = 0,
        U: np.ndarray | None = None,
    ) -> None:
        self.D = first_basis(rank, dimension, seed, U)
        self.forgetting = forgetting
        self._inverses = np.tile(covariance * np.eye(rank), (dimension, 1, 1))
        self._U: np.ndarray | None = None

    @property
    def U(self) -> np.ndarray:
        """Orthonormal basis of the span of `D`, (m, k)."""
        if self._U is None:
            self._U = np.linalg.qr(self.D)[0]
        return self._U

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Take one column, (m,), and move the subspace towards it.

        Parameters
        ----------
        x, observed
            As for `baselines.grasta.Grasta.update`.

        Returns
        -------
        coefficients : ndarray, (k,)
            Least-squares coefficients of the column in `D` before the step.
        residual : ndarray, (m,)
            What they leave, 0 where not observed.
        """
        rows = slice(None) if observed is None or observed.all() else np.flatnonzero(observed)
        residual, D, x = np.zeros(x.size), self.D[rows], x[rows]
        if x.size < D.shape[1]:
            return np.zeros(D.shape[1]), residual
        a = np.linalg.lstsq(D, x, rcond=None)[0]
        residual[rows] = x - D @ a
        if a.any():
            self._recurse(rows, a, residual[rows])
        return a, residual

    def _recurse(self, rows: slice | np.ndarray, a: np.ndarray, residual: np.ndarray) -> None:
        """Add ``a a'`` to the normal equations of the rows, (p,), and ``a residual`` to their right-hand sides."""
        v = self._inverses[rows] @ a
        denominator = self.forgetting + v @ a
        # exactly symmetric: forgetting would magnify the difference
        root = v / np.sqrt(denominator)[:, None]
        self._inverses[rows] -= root[:, :, None] * root[:, None, :]
        self._inverses /= self.forgetting
        self.D[rows] += (residual / denominator)[:, None] * v
        self._U = None
