"""GRASTA: robust subspace tracking by an l1 fit per column and rank-one steps on the Grassmannian.

References
----------
J. He, L. Balzano, A. Szlam, "Incremental gradient on the Grassmannian for online foreground and background separation
in subsampled video", CVPR 2012; J. He, L. Balzano, J. C. S. Lui, "Online robust subspace tracking from partial
information", arXiv 1109.3827, 2011: algorithm 1 (GRASTA), algorithm 2 (l1 fit by ADMM), algorithm 3 (multi-level
adaptive step size).
Settings come from the authors' MATLAB code, version 1.2.0 (2012): grasta_stream.m, admm_srp.m, grasta_mc.m and
grasta_RobustMC_demo.m.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ._basis import first_basis
from ._decomposition import Decomposition, checked_matrix, checked_rank


class Grasta:
    """Tracker of a subspace from columns with outliers and missing entries.

    Parameters
    ----------
    rank : int
        Dimension k of the subspace.
    dimension : int
        Length m of a column.
    constant_step : float, optional
        Angle of every step in radians; None, the default, is the multi-level adaptive rule. The authors track the
        background of a video with 1e-2 once it has been learnt.
    mu_range : (float, float)
        Bounds of the adaptive rule's mu: beyond the upper one the level rises and the steps are halved, at the lower
        one the level falls.
    max_level : int
        Highest level.
    admm_iterations : (int, int)
        ADMM iterations per column at level 0 and at most; doubled from levels 4, 7 and 10 on.
    admm_growth : float
        Factor of the ADMM penalty per iteration (the authors' rho).
    tolerance : float
        ADMM stops when the norm of ``U w + s - x`` is below it.
    seed : int
        Seed of the random first subspace.
    U : ndarray, (m, k), optional
        Orthonormal basis to begin from.

    Attributes
    ----------
    U : ndarray, (m, k), float64
        Orthonormal basis of the present subspace.
    level : int
        Present level of the step size.

    Notes
    -----
    All defaults are those of grasta_stream.m. One column costs O(iterations m k), with missing entries O(m k^2) more.
    """

    def __init__(
        self,
        rank: int,
        dimension: int,
        *,
        constant_step: float | None = None,
        mu_range: tuple[float, float] = (1.0, 15.0),
        max_level: int = 20,
        admm_iterations: tuple[int, int] = (5, 60),
        admm_growth: float = 1.8,
        tolerance: float = 1e-6,
        seed: int = 0,
        U: np.ndarray | None = None,
    ) -> None:
        self.U = first_basis(rank, dimension, seed, U)
        self.constant_step, self.mu_range, self.max_level = constant_step, mu_range, max_level
        self.admm_iterations, self.admm_growth, self.tolerance = admm_iterations, admm_growth, tolerance
        self.level = 0
        self._mu = mu_range[0]
        self._scale = 0.0
        self._last_gradient: tuple[np.ndarray, np.ndarray] = (np.zeros(dimension), np.zeros(rank))

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
            Coefficients of the column before the step.
        sparse : ndarray, (m,)
            Its outliers, 0 where not observed.
        """
        weights, sparse, dual = self.fit(x, observed)
        gradient = dual - self.U @ (self.U.T @ dual)
        gradient_norm, weights_norm = np.linalg.norm(gradient), np.linalg.norm(weights)
        if gradient_norm * weights_norm > 0:
            angle = self._angle(gradient, weights, gradient_norm * weights_norm)
            direction = weights / weights_norm
            step = (np.cos(angle) - 1) * (self.U @ direction) - np.sin(angle) / gradient_norm * gradient
            self.U += np.outer(step, direction)
        return weights, sparse

    def fit(self, x: np.ndarray, observed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights (k,), outliers (m,) and dual variable (m,) of a column; the subspace stays."""
        settings = (self.admm_growth, self._iterations(), self.tolerance)
        if observed is None or observed.all():
            return l1_fit(self.U, self.U.T, x, *settings)
        sparse, dual = np.zeros(x.size), np.zeros(x.size)
        places = np.flatnonzero(observed)
        if places.size < self.U.shape[1]:
            return np.zeros(self.U.shape[1]), sparse, dual
        U = self.U[places]
        weights, sparse[places], dual[places] = l1_fit(U, _pseudo_inverse(U), x[places], *settings)
        return weights, sparse, dual

    def _iterations(self) -> int:
        """Return the ADMM iterations of the present level; the doubling belongs to the adaptive rule."""
        low, high = self.admm_iterations
        if self.level >= 14:
            return high
        return min(low * 2 ** sum(self.level >= bound for bound in (4, 7, 10)), high)

    def _angle(self, gradient: np.ndarray, weights: np.ndarray, norm: float) -> float:
        """Return the angle of the step, and set mu and level for the next one (algorithm 3)."""
        if self.constant_step is not None:
            return self.constant_step
        low, high = self.mu_range
        if self._scale == 0:
            self._scale = 0.5 * np.pi * (1 + low) / norm
        last_gradient, last_weights = self._last_gradient
        last_norm = np.linalg.norm(last_gradient) * np.linalg.norm(last_weights)
        cosine = (last_gradient @ gradient) * (last_weights @ weights) / (last_norm * norm) if last_norm > 0 else 0.0
        self._last_gradient = gradient, weights
        self._mu = max(self._mu + _sigmoid(-cosine), low)
        angle = min(self._scale * 2.0**-self.level * norm / (1 + self._mu), np.pi / 3)
        if self._mu <= low:
            self.level -= self.level > 1
            self._mu = low + 2
        elif self._mu > high:
            self._mu = (high - 1) / 2 if self.level < self.max_level else high
            self.level = min(self.level + 1, self.max_level)
        return float(angle)


def grasta(
    X: np.ndarray,
    rank: int,
    observed: np.ndarray | None = None,
    *,
    cycles: int = 10,
    converged_level: int = 20,
    admm_iterations: tuple[int, int] = (20, 20),
    admm_growth: float = 2.0,
    tolerance: float = 1e-8,
    seed: int = 0,
) -> Decomposition:
    """Split `X`: several passes over its columns in random order, then an l1 fit of every column.

    Parameters
    ----------
    X : ndarray, (m, n), float64
        Data, columns are samples; the authors ask for m <= n. What stands in entries that are not observed is not
        read.
    rank : int
        Rank of the low-rank part.
    observed : ndarray, (m, n), bool, optional
        Which entries are observed; all of them if None.
    cycles : int
        Passes over the columns.
    converged_level : int
        Stop after a pass that ends at this level of the step size.
    admm_iterations, admm_growth, tolerance
        As for `Grasta`.
    seed : int
        Seed of the first subspace and of the orders.

    Returns
    -------
    Decomposition
        Low-rank part, outliers, and the number of columns visited.

    Raises
    ------
    ParameterError
        If X (where observed) or the rank is none that can be worked with.

    Notes
    -----
    Defaults are those of grasta_RobustMC_demo.m, the authors' demo of robust matrix completion; the final fit has the
    same settings, as in grasta_mc.m. Columns without missing entries are fitted all at once.
    """
    X = checked_matrix(X if observed is None else np.where(observed, X, 0.0))
    tracker = Grasta(
        checked_rank(rank, X),
        X.shape[0],
        admm_iterations=admm_iterations,
        admm_growth=admm_growth,
        tolerance=tolerance,
        seed=seed,
    )
    columns, visited = np.ascontiguousarray(X.T), 0
    masks = [None] * X.shape[1] if observed is None else np.ascontiguousarray(observed.T)
    rng = np.random.default_rng(seed)
    for _ in range(cycles):
        for j in rng.permutation(X.shape[1]):
            tracker.update(columns[j], masks[j])
        visited += X.shape[1]
        if tracker.level >= converged_level:
            break
    if observed is None:
        weights, sparse, _ = l1_fit(tracker.U, tracker.U.T, X, admm_growth, admm_iterations[1], tolerance)
        return Decomposition(tracker.U @ weights, sparse, visited)
    fits = [tracker.fit(x, mask)[:2] for x, mask in zip(columns, masks, strict=True)]
    weights, sparse = (np.stack(part, axis=1) for part in zip(*fits, strict=True))
    return Decomposition(tracker.U @ weights, sparse, visited)


def l1_fit(
    U: np.ndarray, pseudo_inverse: np.ndarray, X: np.ndarray, growth: float, iterations: int, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise the l1 norm of s subject to ``U w + s = x`` by ADMM with a growing penalty (algorithm 2).

    Parameters
    ----------
    U : ndarray, (p, k)
        Basis, or its observed rows.
    pseudo_inverse : ndarray, (k, p)
        ``(U' U)^-1 U'``.
    X : ndarray, (p,) or (p, n)
        One column or several.
    growth : float
        Factor of the penalty per iteration; the first is 1.25 over the norm of the column.
    iterations : int
        At most this many.
    tolerance : float
        Stop when the norm of ``U w + s - x`` is below it for every column.

    Returns
    -------
    weights : ndarray, (k,) or (k, n)
    sparse, dual : ndarray, (p,) or (p, n)
    """
    norms = np.sqrt(np.einsum("p...,p...->...", X, X))
    penalty = 1.25 / np.where(norms > 0, norms, 1.0)
    weights = np.zeros((U.shape[1], *X.shape[1:]))
    sparse, dual, scaled, clipped = np.zeros_like(X), np.zeros_like(X), np.empty_like(X), np.empty_like(X)
    for _ in range(iterations):
        # w = pinv(U) (x - s - y / mu)
        np.divide(dual, penalty, out=scaled)
        scaled += sparse
        np.subtract(X, scaled, out=scaled)
        np.dot(pseudo_inverse, scaled, out=weights)
        # with a = mu (x - U w) - y: the new s is (a - clip(a)) / mu, the new y is -clip(a)
        np.dot(U, weights, out=scaled)
        np.subtract(X, scaled, out=scaled)
        scaled *= penalty
        scaled -= dual
        np.clip(scaled, -1.0, 1.0, out=clipped)
        np.subtract(scaled, clipped, out=sparse)
        sparse /= penalty
        # y changes by mu (U w + s - x)
        dual += clipped
        gaps = np.sqrt(np.einsum("p...,p...->...", dual, dual)) / penalty
        np.negative(clipped, out=dual)
        penalty = penalty * growth
        if (gaps < tolerance).all():
            break
    return weights, sparse, dual


def _pseudo_inverse(U: np.ndarray) -> np.ndarray:
    """Return ``(U' U)^-1 U'``, (k, p), for `U` of full column rank, (p, k)."""
    try:
        return cho_solve(cho_factor(U.T @ U, check_finite=False), U.T, check_finite=False)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(U)


def _sigmoid(x: float) -> float:
    """Return a value in (-1, 1): the step-size rule's change of mu; steepness 0.1 as in the authors' code."""
    return float(np.tanh(5 * x))
