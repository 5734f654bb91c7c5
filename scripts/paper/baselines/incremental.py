"""Incremental robust PCA: an eigenspace updated by columns whose entries are weighted by their residuals.

References
----------
Y. Li, "On incremental and robust subspace learning", Pattern Recognition 37, 2004: algorithm 1 (incremental PCA) and
algorithm 2 (incremental robust PCA).
"""

from __future__ import annotations

import numpy as np

from bgsub.errors import ParameterError

from ._basis import first_basis


class IncrementalRobustPCA:
    """Tracker of a subspace from complete columns with outliers, by one M-estimation step per column.

    Parameters
    ----------
    rank : int
        Dimension k of the subspace.
    dimension : int
        Length m of a column.
    decay : float
        Weight of what has been learnt when a column comes (alpha).
    cutoff : float
        An entry whose residual is `cutoff` times its scale weighs one half (beta); infinity is incremental PCA.
    eigenvalues : ndarray, (k,), optional
        Variances along the columns of `U`, to begin from; if None, those of a subspace in which the first column is a
        typical one. The author begins from PCA of the first columns.
    seed : int
        Seed of the random first subspace.
    U : ndarray, (m, k), optional
        Orthonormal basis to begin from.

    Attributes
    ----------
    U : ndarray, (m, k), float64
        Orthonormal basis of the present subspace.
    eigenvalues : ndarray, (k,), float64
        Variances along its columns, descending.

    Notes
    -----
    Weights are those of the Cauchy function, ``1 / (1 + (r / c)^2)`` with ``c = cutoff max_j sqrt(eigenvalue_j)
    |U_ij|`` at entry i: the scale of an entry is its largest spread along one of the eigenvectors. 2.3849 gives 95 %
    efficiency at the normal distribution. The paper subtracts a running mean first; the columns are taken as centred
    here. One column costs O(m k^2). The method as published has no missing entries.
    """

    def __init__(
        self,
        rank: int,
        dimension: int,
        *,
        decay: float = 0.95,
        cutoff: float = 2.3849,
        eigenvalues: np.ndarray | None = None,
        seed: int = 0,
        U: np.ndarray | None = None,
    ) -> None:
        self.U = first_basis(rank, dimension, seed, U)
        self.decay, self.cutoff, self.eigenvalues = decay, cutoff, eigenvalues

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> np.ndarray:
        """Take one column, (m,), and move the subspace towards it.

        Parameters
        ----------
        x : ndarray, (m,)
            Column; one of zeros changes nothing.
        observed : ndarray, (m,), bool, optional
            Which entries are observed: all.

        Returns
        -------
        ndarray, (m,)
            Weights of its entries, from 0 to 1.

        Raises
        ------
        ParameterError
            If entries are missing.
        """
        if observed is not None and not observed.all():
            raise ParameterError("incremental robust PCA needs complete columns, got missing entries")
        if not x.any():
            return np.ones(x.size)
        if self.eigenvalues is None:
            self.eigenvalues = np.full(self.U.shape[1], x @ x / self.U.shape[1])
        weights = self._weights(x)
        # the eigenspace of decay U diag(eigenvalues) U' + (1 - decay) z z', by the SVD of its factor
        z = np.sqrt(weights) * x
        factor = np.column_stack([self.U * np.sqrt(self.decay * self.eigenvalues), np.sqrt(1 - self.decay) * z])
        U, s, _ = np.linalg.svd(factor, full_matrices=False)
        k = self.U.shape[1]
        self.U, self.eigenvalues = U[:, :k].copy(), s[:k] ** 2
        return weights

    def _weights(self, x: np.ndarray) -> np.ndarray:
        residual = (x - self.U @ (self.U.T @ x)) / self.cutoff
        scale = np.abs(self.U * np.sqrt(self.eigenvalues)).max(axis=1)
        both = scale**2 + residual**2
        return np.divide(scale**2, both, out=np.ones(x.size), where=both > 0)
