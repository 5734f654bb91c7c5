"""Robust PCA from complete or incomplete samples by smoothed l0-surrogates on the Grassmannian.

References
----------
C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 1 to 4.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Self

import numpy as np

from bgsub._alternation import Alternation
from bgsub._conjugate import CONJUGATE_RULES
from bgsub._factors import ResidualScale
from bgsub._graduated import PACES, Graduation
from bgsub._halves import RobustFit
from bgsub.errors import ParameterError
from bgsub._samples import check_samples, fill_missing, least_squares, principal_axes, random_svd, truncated_svd
from bgsub.surrogates import Surrogate

_log = logging.getLogger("bgsub")

PAPER = "paper"
QUALITIES = (PAPER, *PACES)
_PAPER_MU = {"lp": (0.9, 1e-4), "log": (2.0, 0.005), "atan": (2.0, 0.05)}
_PAPER_ALTERNATIONS = 50
_STEPS = 1000
_DEFAULT_RANK = 3
_TRANSFORM_MUS = 50
_STREAM = 0x62677375


@dataclass(frozen=True)
class Progress:
    """One step of a fit, or one half of an alternation of the paper, as given to the callback of `RobustPCA`.

    Parameters
    ----------
    iteration : int
        Number of the step or (``quality="paper"``) of the alternation, from 1.
    half : {"both", "basis", "coefficients"}
        What was moved.
    mu : float
        Smoothing parameter of this step, in the unit of its surrogate.
    objective : list of float
        Objective at the start and after each accepted step, at this mu; it never rises.
    coefficients : ndarray, (n_samples, k)
        Present coefficients; the low-rank part is ``coefficients @ components``.
    components : ndarray, (k, n_features)
        Present components, which need not be orthonormal.
    """

    iteration: int
    half: str
    mu: float
    objective: list[float]
    coefficients: np.ndarray = field(repr=False)
    components: np.ndarray = field(repr=False)


Callback = Callable[[Progress], bool | None]


class RobustPCA:
    """Split a matrix into a low-rank part and sparse outliers, possibly from a part of its entries.

    Minimises ``h_mu(X - L)`` over matrices L of rank k, where h is a smoothed l0-surrogate and mu shrinks. The interface
    follows scikit-learn; the data are not centred.

    Parameters
    ----------
    rank : int, optional
        Dimension k of the subspace, from 1 to ``min(n_samples, n_features)``; it may be above the true one. Default: 3,
        or a quarter of ``min(n_samples, n_features)`` if that is less, at least 1.
    surrogate : {"log", "lp", "atan"}
        Cost of the residual, see `bgsub.surrogates`.
    p : float in (0, 1)
        Exponent of ``lp``.
    quality : {"balanced", "fast", "best", "paper"}
        How patiently mu falls, see Notes. "fast" is enough where the rank is below a tenth of the smaller side and few
        entries are outliers; "best" repeats the fit with other strengths of the ridge where the first one leaves more
        than outliers; "paper" is algorithms 1 to 4 as printed.
    mu_start, mu_end : float, optional
        First and last smoothing parameter, in the unit of the surrogate (intensity squared; ``atan``: intensity). Default:
        from the data; mu ends where the residual of the inliers is noise, or has vanished. For "paper", made for
        entries of unit variance: 0.9 and 1e-4 (``lp``), 2 and 0.005 (``log``), 2 and 0.05 (``atan``).
    iterations : int, optional
        Largest number of steps (default 1000); for "paper", number of alternations, one per value of mu (default 50).
    tolerance : float, optional
        The fit ends when the residual of the inliers falls below this share of the data (default 1e-6; at least some
        units of rounding). For "paper", a half ends early when a step lowers the objective by less than this share of
        it (default 1e-7).
    inner_iterations : int
        Largest number of steps in each half of an alternation, and in each of those of `transform`.
    conjugate : {"hestenes-stiefel", "fletcher-reeves"}
        Formula for the conjugate direction.
    callback : callable, optional
        Called with a `Progress` after each step (half of an alternation); ends the fit if it returns True.
    verbose : int
        Log every so many-th step to the logger ``bgsub`` at level INFO; 0 for none.
    random_state : int, Generator or None
        Seed of the random start and of the entries that the scale of the residual is taken from. None means 0: fits are
        repeatable.

    Attributes
    ----------
    components_ : ndarray, (k, n_features)
        Orthonormal rows, by falling energy of their coefficients.
    coefficients_ : ndarray, (n_samples, k)
        Coefficients of the samples.
    low_rank_ : ndarray, (n_samples, n_features)
        ``coefficients_ @ components_``.
    sparse_ : ndarray, (n_samples, n_features)
        ``X - low_rank_`` on observed entries, 0 elsewhere. It holds the noise too.
    singular_values_ : ndarray, (k,)
        Singular values of `low_rank_`.
    noise_scale_ : float
        Standard deviation of the inliers of the residual, from its quartile; an outlier is what stands out of it.
    mu_ : float
        Last smoothing parameter.
    objective_ : list of float
        Objective at the end of each step, each at its own mu, ridge included.
    n_iter_ : int
        Number of steps (alternations).
    n_features_in_ : int
        Number of features.

    Notes
    -----
    The paper alternates between subspace and coefficients for a fixed sequence of mu. Here both factors of ``L = A B'``
    move at once, by conjugate gradients in a metric scaled by their Gram matrices; the line search begins at the minimum
    of the parabola through the last one, so that a step nearly always costs one evaluation. mu falls with the residual:
    a fit has settled when the step predicted would gain less than a small share of mu per entry, and mu then drops to
    what the residual of the inliers allows; before that it only creeps. A ridge ``1.2 mu sqrt(k) / s |(A, B)|^2 / 2``, s the
    scale of the data, keeps out of the fit, while mu is large, what does not stand above the outliers, and fades with
    mu; near the limits of recovery it makes the difference (`scripts/paper/phase_transitions.py`). The path is
    followed with ``log``, whose outliers pull least on large matrices; another surrogate takes over at the last mu.
    The error that is left is of the order of mu for ``log`` and ``atan`` and mu^(1 - p/2) for ``lp``, so that the floor is
    the rounding.

    float32 samples are computed in float32, all others in float64. One step costs about ``6 m n k`` multiplications in
    BLAS, one pass of a compiled kernel over the matrix and O((m + n) k^2 + k^3).  Memory: X, a second matrix of its
    size, a mask of one byte per entry, and `low_rank_` and `sparse_` at the end; another copy of X if it has missing
    entries or another type.

    References
    ----------
    C. Hage and M. Kleinsteuber, arXiv 1210.0805.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> low_rank = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 80))
    >>> X = low_rank + (rng.random((60, 80)) < 0.1) * rng.uniform(-5, 5, (60, 80))
    >>> model = RobustPCA(rank=2).fit(X)
    >>> bool(np.linalg.norm(model.low_rank_ - low_rank) < 1e-5 * np.linalg.norm(low_rank))
    True
    """

    components_: np.ndarray
    coefficients_: np.ndarray
    low_rank_: np.ndarray
    sparse_: np.ndarray
    singular_values_: np.ndarray
    noise_scale_: float
    mu_: float
    objective_: list[float]
    n_iter_: int
    n_features_in_: int

    def __init__(
        self,
        rank: int | None = None,
        *,
        surrogate: str = "log",
        p: float = 0.5,
        quality: str = "balanced",
        mu_start: float | None = None,
        mu_end: float | None = None,
        iterations: int | None = None,
        tolerance: float | None = None,
        inner_iterations: int = 5,
        conjugate: str = "hestenes-stiefel",
        callback: Callback | None = None,
        verbose: int = 0,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.rank = rank
        self.surrogate = surrogate
        self.p = p
        self.quality = quality
        self.mu_start = mu_start
        self.mu_end = mu_end
        self.iterations = iterations
        self.tolerance = tolerance
        self.inner_iterations = inner_iterations
        self.conjugate = conjugate
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `deep` is accepted for scikit-learn and changes nothing."""
        return {name: getattr(self, name) for name in _parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name and return self; raise ParameterError for a name that is not one."""
        for name, value in parameters.items():
            if name not in _parameter_names():
                raise ParameterError(f"parameter must be one of {', '.join(_parameter_names())}, got {name!r}")
            setattr(self, name, value)
        return self

    def fit(self, X: np.ndarray, y: object = None, *, observed: np.ndarray | None = None) -> Self:
        """Fit subspace and coefficients to the samples.

        Parameters
        ----------
        X : array_like, (n_samples, n_features)
            Samples as rows; NaN means missing.
        y : None
            Not used; it is there for scikit-learn.
        observed : array_like of bool, (n_samples, n_features), optional
            False marks a further entry as missing; what X holds there does not matter.

        Returns
        -------
        RobustPCA
            The object itself.

        Raises
        ------
        ParameterError
            For a parameter out of its range, samples that are empty, infinite or not two-dimensional, a mask of another
            shape, or a sample without any observed entry.
        """
        mu_start, mu_end = self._check_parameters()
        X, observed = check_samples(X, observed)
        rank = default_rank(X.shape) if self.rank is None else self.rank
        if not 1 <= rank <= min(X.shape):
            raise ParameterError(f"rank must be in 1..{min(X.shape)} for samples of shape {X.shape}, got {rank}")
        fit = RobustFit(X, observed, Surrogate(self.surrogate, mu_end or 1.0, self.p))
        start = self._alternate if self.quality == PAPER else self._graduate
        U, Y = self._follow(start(fit, rank, mu_start, mu_end))
        self._keep(fit, U, Y)
        return self

    def fit_transform(self, X: np.ndarray, y: object = None, *, observed: np.ndarray | None = None) -> np.ndarray:
        """Fit to the samples and return their coefficients, (n_samples, k); parameters as for `fit`."""
        return self.fit(X, observed=observed).coefficients_

    def transform(self, X: np.ndarray, observed: np.ndarray | None = None) -> np.ndarray:
        """Return the robust coefficients of samples in the fitted subspace.

        Parameters
        ----------
        X : array_like, (n_samples, n_features)
            Samples as rows; NaN means missing.
        observed : array_like of bool, (n_samples, n_features), optional
            False marks a further entry as missing.

        Returns
        -------
        ndarray, (n_samples, k)
            Minimisers of the cost at the last mu of the fit, found from the least-squares fit with mu shrinking as in
            the fit: at the last mu alone, a sample with many outliers stays in a wrong minimum.

        Raises
        ------
        ParameterError
            Before a fit, and for samples as in `fit`.
        """
        self._check_fitted()
        self._check_parameters()
        X, observed = check_samples(X, observed)
        if X.shape[1] != self.n_features_in_:
            raise ParameterError(f"X must have {self.n_features_in_} features as in fit, got {X.shape[1]}")
        U = np.ascontiguousarray(self.components_.T, X.dtype)
        fit = RobustFit(X, observed, Surrogate(self.surrogate, self.mu_, self.p))
        mus = np.geomspace(max(self._first_mu, self.mu_), self.mu_, _TRANSFORM_MUS)
        turns = Alternation(fit, CONJUGATE_RULES[self.conjugate], self.inner_iterations, 1e-7)
        return np.ascontiguousarray(turns.coefficients(U, least_squares(U, X, observed), mus).T)

    def inverse_transform(self, Y: np.ndarray) -> np.ndarray:
        """Return the low-rank samples, (n_samples, n_features), for coefficients `Y`, (n_samples, k)."""
        self._check_fitted()
        Y = np.asarray(Y)
        if Y.ndim != 2 or Y.shape[1] != len(self.components_):
            raise ParameterError(f"Y must have shape (n_samples, {len(self.components_)}), got {Y.shape}")
        return Y @ self.components_

    def _alternate(self, fit: RobustFit, rank: int, first: float | None, last: float | None) -> Iterator[Progress]:
        """Yield each half of the alternations of the paper."""
        start, end = _PAPER_MU[self.surrogate]
        mus = np.geomspace(first or start, last or end, self.iterations or _PAPER_ALTERNATIONS)
        U, Y = truncated_svd(fill_missing(fit.X, fit.observed), rank)
        tolerance = 1e-7 if self.tolerance is None else self.tolerance
        turns = Alternation(fit, CONJUGATE_RULES[self.conjugate], self.inner_iterations, tolerance)
        for count, (half, U, Y, values) in enumerate(turns.run(U, Y, mus)):
            yield Progress(count // 2 + 1, half, fit.surrogate.mu, values, Y.T, U.T)

    def _graduate(self, fit: RobustFit, rank: int, first: float | None, last: float | None) -> Iterator[Progress]:
        """Yield each step of the graduated fit."""
        rng = _generator(self.random_state)
        tolerance = 1e-6 if self.tolerance is None else self.tolerance
        task = Graduation(
            fit=fit,
            rule=CONJUGATE_RULES[self.conjugate],
            pace=PACES[self.quality],
            rng=rng,
            first=first and Surrogate(self.surrogate, first, self.p).scale,
            last=last and Surrogate(self.surrogate, last, self.p).scale,
            tolerance=max(tolerance, 64 * float(np.finfo(fit.X.dtype).eps)),
            steps=self.iterations or _STEPS,
        )
        U, Y = random_svd(fill_missing(fit.X, fit.observed), rank, rng)
        for count, step in enumerate(task.run(Y.T, U), start=1):
            yield Progress(count, "both", step.mu, list(step.values), step.A, step.B.T)

    def _follow(self, progresses: Iterator[Progress]) -> tuple[np.ndarray, np.ndarray]:
        """Return basis and coefficients after the last step, or after the one at which the callback says so."""
        self.objective_ = []
        for progress in progresses:
            if not self.objective_:
                self._first_mu = progress.mu
            del self.objective_[progress.iteration - 1 :]
            self.objective_.append(progress.objective[-1])
            if self.verbose and progress.iteration % self.verbose == 0:
                _log.info("step %d: mu %.3g, objective %.6g", progress.iteration, progress.mu, self.objective_[-1])
            if self.callback is not None and self.callback(progress):
                break
        self.n_iter_, self.mu_ = progress.iteration, progress.mu
        return progress.components.T, progress.coefficients.T

    def _keep(self, fit: RobustFit, U: np.ndarray, Y: np.ndarray) -> None:
        """Set the attributes of a fitted model."""
        X, observed = fit.X, fit.observed
        U, Y = principal_axes(U, Y)
        self.components_, self.coefficients_ = np.ascontiguousarray(U.T), np.ascontiguousarray(Y.T)
        self.singular_values_ = np.linalg.norm(Y.astype(np.float64), axis=1)
        self.low_rank_ = self.coefficients_ @ self.components_
        self.sparse_ = np.subtract(X, self.low_rank_, out=fit.influence)
        if not observed.all():
            self.sparse_[~observed] = 0
        self.noise_scale_ = ResidualScale(X, observed, len(Y), np.random.default_rng(0)).of_residual(Y.T, U)
        self.n_features_in_ = X.shape[1]

    def _check_parameters(self) -> tuple[float | None, float | None]:
        """Check what does not depend on the samples; return the first and the last mu where they are given."""
        for name, optional in (("rank", True), ("iterations", True), ("inner_iterations", False)):
            value = getattr(self, name)
            if value is None and optional:
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ParameterError(f"{name} must be an integer >= 1, got {value!r}")
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise ParameterError(f"tolerance must be in [0, 1), got {self.tolerance!r}")
        for name, choices in (("conjugate", CONJUGATE_RULES), ("quality", QUALITIES)):
            if getattr(self, name) not in choices:
                raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        default = _PAPER_MU.get(self.surrogate, (1.0, 1.0)) if self.quality == PAPER else (None, None)
        first = default[0] if self.mu_start is None else self.mu_start
        last = default[1] if self.mu_end is None else self.mu_end
        for mu in (first, last):
            Surrogate(self.surrogate, 1.0 if mu is None else mu, self.p)  # raises for a wrong name, mu or p
        if first is not None and last is not None and last > first:
            raise ParameterError(f"mu_end must be <= mu_start = {first}, got {last}")
        return first, last

    def _check_fitted(self) -> None:
        if not hasattr(self, "components_"):
            raise ParameterError("RobustPCA must be fitted before it transforms; call fit first")


def default_rank(shape: tuple[int, ...]) -> int:
    """Return the rank for samples of `shape`, (n_samples, n_features), where none is given."""
    return max(1, min(_DEFAULT_RANK, min(shape) // 4))


def _generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Return a generator; a seed gives a stream of its own, which no one who makes data from the same seed has."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng([_STREAM, random_state or 0])


def _parameter_names() -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(RobustPCA.__init__).parameters if name != "self")
