"""NORST: robust subspace tracking by projected compressed sensing and an SVD of every few columns.

References
----------
P. Narayanamurthy, N. Vaswani, "Nearly optimal robust subspace tracking", ICML 2018 (arXiv 1712.06061), algorithm 1
(ReProCS-NORST); P. Narayanamurthy, V. Daneshpajooh, N. Vaswani, "Provable subspace tracking from missing data and
matrix completion", IEEE Trans. Signal Processing 2019 (arXiv 1810.03051), NORST-miss-rob for missing entries. The l1
programme: J. Yang, Y. Zhang, "Alternating direction algorithms for l1-problems in compressive sensing", SIAM J. Sci.
Comput. 2011 (YALL1, which the authors call).
Settings come from the authors' MATLAB code: NORST.m, NORST_real.m, NORST_video.m and their wrappers.
"""

from __future__ import annotations

import numpy as np

from ._basis import first_basis


class Norst:
    """Tracker of a subspace from columns with outliers and missing entries.

    Parameters
    ----------
    rank : int
        Dimension k of the subspace.
    dimension : int
        Length m of a column.
    window : int
        Columns per update of the subspace (the authors' alpha).
    updates : int
        Updates after the start and after every change that was detected (K); then the subspace rests.
    change : float
        A change is detected where the largest variance outside the subspace is at least this (omega_evals).
    threshold : float, optional
        An entry whose outlier is estimated above it belongs to the support (omega_supp). In the authors' simulations
        it is half of the smallest outlier, and what may stay outside the subspace has at most 2/15 of it as its norm.
        None is their rule for real data: the root mean square of the column's observed entries, and the norm that the
        last column left outside.
    seed : int
        Seed of the random first subspace.
    U : ndarray, (m, k), optional
        Orthonormal basis to begin from. The authors begin from batch robust PCA of the first columns, and the method
        is meant for such a start.

    Attributes
    ----------
    U : ndarray, (m, k), float64
        Orthonormal basis of the present subspace; it changes every `window` columns at most.
    resting : bool
        Whether only a change is looked for.

    Notes
    -----
    Window, updates and change are those of the authors' simulation with missing entries; the last is not free of
    scale. Missing entries are outliers whose support is known: they cost nothing in the l1 norm. One column costs
    O(iterations m k), one update O(m window^2).
    """

    def __init__(
        self,
        rank: int,
        dimension: int,
        *,
        window: int = 60,
        updates: int = 36,
        change: float = 7.5961e-4,
        threshold: float | None = None,
        seed: int = 0,
        U: np.ndarray | None = None,
    ) -> None:
        self.U = first_basis(rank, dimension, seed, U)
        self.window, self.updates, self.change, self.threshold = window, updates, change, threshold
        self.resting = False
        self._left = updates
        self._outside: float | None = None
        self._columns: list[np.ndarray] = []

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Take one column, (m,), and with the last one of a window move the subspace.

        Parameters
        ----------
        x, observed
            As for `baselines.grasta.Grasta.update`.

        Returns
        -------
        low_rank : ndarray, (m,)
            The column without its outliers, and with what was missing.
        support : ndarray, (m,), bool
            The entries with an outlier, and those that are missing.
        """
        missing = np.zeros(x.size, bool) if observed is None else ~observed
        if x.size - np.count_nonzero(missing) < self.U.shape[1]:
            return np.zeros(x.size), missing
        x = np.where(missing, 0.0, x)
        support = missing | self._outliers(x, missing)
        low_rank = without_support(self.U, x, support)
        self._outside = float(np.linalg.norm(low_rank - self.U @ (self.U.T @ low_rank)))
        self._columns.append(low_rank)
        if len(self._columns) == self.window:
            self._end_window(np.stack(self._columns, axis=1))
            self._columns.clear()
        return low_rank, support

    def _outliers(self, x: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Return where the sparsest explanation of what lies outside the subspace is large, (m,) bool."""
        threshold = self.threshold
        if threshold is None:
            threshold = float(np.linalg.norm(x) / np.sqrt(x.size - np.count_nonzero(missing)))
        outside = self._outside if self.threshold is None else None
        sparse = projected_sensing(self.U, x, 1.0 - missing, 2 / 15 * threshold if outside is None else outside)
        return np.abs(sparse) > threshold

    def _end_window(self, L: np.ndarray) -> None:
        """Detect a change or update the subspace from the columns L, (m, window)."""
        if self.resting:
            outside = np.linalg.norm(L - self.U @ (self.U.T @ L), 2)
            self.resting = outside**2 < self.window * self.change
            self._left = self.updates
            return
        self.U = np.linalg.svd(L, full_matrices=False)[0][:, : self.U.shape[1]].copy()
        self._left -= 1
        self.resting = self._left == 0


def projected_sensing(
    U: np.ndarray, x: np.ndarray, weights: np.ndarray, bound: float, *, tolerance: float = 1e-4, iterations: int = 9999
) -> np.ndarray:
    """Minimise the weighted l1 norm of s subject to ``|P (s - x)| <= bound``, P the projection off the span of U.

    YALL1's alternating directions on the dual problem, maximise ``x'P y - bound |y|`` subject to ``|P y| <= weights``.

    Parameters
    ----------
    U : ndarray, (m, k)
        Orthonormal basis.
    x : ndarray, (m,)
        Column.
    weights : ndarray, (m,)
        Weights of the entries, 0 for a free one.
    bound : float
        Norm of what may stay outside the subspace.
    tolerance : float
        Stop when s changes by less, relative to its norm.
    iterations : int
        At most this many.

    Returns
    -------
    ndarray, (m,)
        The sparse s.
    """
    s, z = np.zeros_like(x), np.zeros_like(x)
    outside = x - U @ (U.T @ x)
    scale = np.abs(outside).mean()
    if np.linalg.norm(outside) <= bound or scale == 0:
        return s
    for _ in range(iterations):
        y = z + (x - s) / scale
        y -= U @ (U.T @ y)
        y *= max(0.0, 1 - bound / (scale * np.linalg.norm(y)))
        z = np.clip(y + s / scale, -weights, weights)
        step = 1.618 * scale * (y - z)
        s += step
        if np.linalg.norm(step) <= tolerance * np.linalg.norm(s):
            break
    return s


def without_support(U: np.ndarray, x: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Return x, (m,), with ``U w`` on the support and w the least-squares fit outside it.

    That is ``x - s`` for the s on the support, (m,) bool, that minimises ``|P (x - s)|``, P the projection off the span
    of the orthonormal U, (m, k).
    """
    w = np.linalg.lstsq(U[~support], x[~support], rcond=None)[0]
    return np.where(support, U @ w, x)
