"""GROUSE: subspace tracking from incomplete columns by rank-one least-squares steps on the Grassmannian.

References
----------
L. Balzano, R. Nowak, B. Recht, "Online identification and tracking of subspaces from highly incomplete information",
Allerton 2010, algorithm 1. The greedy step: D. Zhang, L. Balzano, "Global convergence of a Grassmannian gradient
descent algorithm for subspace estimation", AISTATS 2016.
"""

from __future__ import annotations

import numpy as np

from bgsub.errors import ParameterError

from ._basis import first_basis

_STEPS = {"greedy": 1.0, "constant": 0.1, "diminishing": 0.1}


class Grouse:
    """Tracker of a subspace from incomplete columns; it knows no outliers.

    Parameters
    ----------
    rank : int
        Dimension k of the subspace.
    dimension : int
        Length m of a column.
    step : float, optional
        Factor of the angle of a step: 0.1 for "constant" and "diminishing", 1 for "greedy" if None.
    rule : {"greedy", "constant", "diminishing"}
        With the norms r of the residual and w of the weights, the angle of a step is ``arctan(step r / w)``,
        ``step r w`` or ``step r w / t`` at the t-th column. Only the first does not depend on the scale of the data.
    seed : int
        Seed of the random first subspace.
    U : ndarray, (m, k), optional
        Orthonormal basis to begin from.

    Attributes
    ----------
    U : ndarray, (m, k), float64
        Orthonormal basis of the present subspace.

    Raises
    ------
    ParameterError
        If `rule` is none of the three.

    Notes
    -----
    "diminishing" with 0.1 is the authors' grouse.m and its demo (2010), which also drop steps of pi/2 and more;
    "constant" is the paper's rule for subspaces that move. "greedy" takes the longest step that helps where there is
    no noise and converges from every start; with noise Zhang and Balzano shorten it, ``step < 1``.
    One column costs O(m k) complete, O(m k^2) incomplete.
    """

    def __init__(
        self,
        rank: int,
        dimension: int,
        step: float | None = None,
        *,
        rule: str = "greedy",
        seed: int = 0,
        U: np.ndarray | None = None,
    ) -> None:
        if rule not in _STEPS:
            raise ParameterError(f"rule must be one of {', '.join(_STEPS)}, got {rule!r}")
        self.U = first_basis(rank, dimension, seed, U)
        self.rule, self.step = rule, _STEPS[rule] if step is None else step
        self._columns = 0

    def update(self, x: np.ndarray, observed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Take one column, (m,), and move the subspace towards it.

        Parameters
        ----------
        x : ndarray, (m,)
            Column; what stands in entries that are not observed is not read.
        observed : ndarray, (m,), bool, optional
            Which entries are observed; a column with fewer than k of them changes nothing.

        Returns
        -------
        weights : ndarray, (k,)
            Least-squares coefficients of the column before the step.
        residual : ndarray, (m,)
            What they leave, 0 where not observed.
        """
        self._columns += 1
        weights, residual = self._fit(x, observed)
        residual_norm, weights_norm = np.linalg.norm(residual), np.linalg.norm(weights)
        if residual_norm * weights_norm > 0:
            angle = self._angle(residual_norm, weights_norm)
            if angle < np.pi / 2:
                direction = weights / weights_norm
                move = (np.cos(angle) - 1) * (self.U @ direction) + np.sin(angle) / residual_norm * residual
                self.U += np.outer(move, direction)
        return weights, residual

    def _fit(self, x: np.ndarray, observed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        if observed is None or observed.all():
            weights = self.U.T @ x
            residual = x - self.U @ weights
            # projected twice: long steps would magnify what rounding leaves of the residual along U
            return weights, residual - self.U @ (self.U.T @ residual)
        residual, places = np.zeros(x.size), np.flatnonzero(observed)
        if places.size < self.U.shape[1]:
            return np.zeros(self.U.shape[1]), residual
        U = self.U[places]
        weights = np.linalg.lstsq(U, x[places], rcond=None)[0]
        residual[places] = x[places] - U @ weights
        return weights, residual

    def _angle(self, residual: float, weights: float) -> float:
        if self.rule == "greedy":
            return float(np.arctan(self.step * residual / weights))
        return self.step * residual * weights / (self._columns if self.rule == "diminishing" else 1)
