"""Robust PCA from complete or incomplete samples by smoothed l0-surrogates on the Grassmannian.

References
----------
C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 1 to 4.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np

from bgsub._conjugate import CONJUGATE_RULES, minimise
from bgsub._halves import BasisHalf, CoefficientHalf, RobustFit
from bgsub.errors import ParameterError
from bgsub.grassmann import qr_positive
from bgsub.surrogates import Surrogate

_DEFAULT_MU = {"lp": (0.9, 1e-4), "log": (2.0, 0.005), "atan": (2.0, 0.05)}
_ROUNDING = 8  # a relative change below this many units of rounding is noise


@dataclass(frozen=True)
class Progress:
    """One half of an alternation, as given to the callback of `RobustPCA`.

    Parameters
    ----------
    iteration : int
        Number of the alternation, from 1.
    half : {"basis", "coefficients"}
        What was moved.
    mu : float
        Smoothing parameter of this alternation.
    objective : list of float
        ``h_mu(X - A(U Y)) / h_mu''(0)`` at the start and after each accepted step; it never rises.
    """

    iteration: int
    half: str
    mu: float
    objective: list[float]


Callback = Callable[[Progress], bool | None]


class RobustPCA:
    """Split a matrix into a low-rank part and sparse outliers, possibly from a part of its entries.

    Minimises ``h_mu(X - A(U Y))`` over subspaces U and coefficients Y in turns, by conjugate gradients, while mu
    shrinks geometrically. The interface follows scikit-learn; the data are not centred.

    Parameters
    ----------
    rank : int
        Dimension k of the subspace, from 1 to ``min(n_samples, n_features)``.
    surrogate : {"lp", "log", "atan"}
        Cost of the residual, see `bgsub.surrogates`.
    p : float in (0, 1)
        Exponent of ``lp``.
    mu_start, mu_end : float, optional
        First and last smoothing parameter, in the unit of the surrogate (intensity squared; ``atan``: intensity).
        Default, for entries of unit variance: 0.9 and 1e-4 (``lp``), 2 and 0.005 (``log``), 2 and 0.05 (``atan``).
    iterations : int
        Number of alternations, one per value of mu.
    inner_iterations : int
        Largest number of conjugate gradient steps in each half of an alternation.
    tolerance : float
        A half ends early when a step lowers the objective by less than this share of it.
    conjugate : {"hestenes-stiefel", "fletcher-reeves"}
        Formula for the conjugate direction.
    callback : callable, optional
        Called with a `Progress` after each half of an alternation; ends the fit if it returns True.

    Attributes
    ----------
    components_ : ndarray, (k, n_features)
        Orthonormal rows, by falling energy of their coefficients.
    coefficients_ : ndarray, (n_samples, k)
        Coefficients of the samples.
    low_rank_ : ndarray, (n_samples, n_features)
        ``coefficients_ @ components_``.
    sparse_ : ndarray, (n_samples, n_features)
        ``X - low_rank_`` on observed entries, 0 elsewhere.
    objective_ : list of float
        Objective at the end of each alternation, each at its own mu.
    n_iter_ : int
        Number of alternations.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    float32 samples are computed in float32, all others in float64. One step costs O(m n k + m k^2 + k^3); nothing of
    size m x m is formed unless m < n. The fit is deterministic.

    Starting from the truncated SVD of the samples, with a missing entry filled by the mean of its feature; for m
    features and n samples it is found from the Gram matrix of the smaller side.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> low_rank = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 80))
    >>> X = low_rank + (rng.random((60, 80)) < 0.1) * rng.uniform(-5, 5, (60, 80))
    >>> model = RobustPCA(rank=2).fit(X)
    >>> bool(np.linalg.norm(model.low_rank_ - low_rank) < 1e-3 * np.linalg.norm(low_rank))
    True
    """

    components_: np.ndarray
    coefficients_: np.ndarray
    low_rank_: np.ndarray
    sparse_: np.ndarray
    objective_: list[float]
    n_iter_: int
    n_features_in_: int

    def __init__(
        self,
        rank: int,
        *,
        surrogate: str = "lp",
        p: float = 0.5,
        mu_start: float | None = None,
        mu_end: float | None = None,
        iterations: int = 50,
        inner_iterations: int = 5,
        tolerance: float = 1e-7,
        conjugate: str = "hestenes-stiefel",
        callback: Callback | None = None,
    ) -> None:
        self.rank = rank
        self.surrogate = surrogate
        self.p = p
        self.mu_start = mu_start
        self.mu_end = mu_end
        self.iterations = iterations
        self.inner_iterations = inner_iterations
        self.tolerance = tolerance
        self.conjugate = conjugate
        self.callback = callback

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

    def fit(self, X: np.ndarray, observed: np.ndarray | None = None) -> Self:
        """Fit subspace and coefficients to the samples.

        Parameters
        ----------
        X : array_like, (n_samples, n_features)
            Samples as rows; NaN means missing.
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
        mus = self._check_parameters()
        X, observed = _check_samples(X, observed)
        if not 1 <= self.rank <= min(X.shape):
            raise ParameterError(f"rank must be in 1..{min(X.shape)} for samples of shape {X.shape}, got {self.rank}")
        U, Y = truncated_svd(_fill_missing(X, observed), self.rank)
        fit = RobustFit(X, observed, self.surrogate, self.p)
        U, Y = self._alternate(fit, U, Y, mus)
        U, Y = _principal_axes(U, Y)
        self.components_, self.coefficients_ = np.ascontiguousarray(U.T), np.ascontiguousarray(Y.T)
        self.low_rank_ = self.coefficients_ @ self.components_
        self.sparse_ = np.where(observed, X - self.low_rank_, X.dtype.type(0))
        self.n_features_in_ = X.shape[1]
        return self

    def fit_transform(self, X: np.ndarray, observed: np.ndarray | None = None) -> np.ndarray:
        """Fit to the samples and return their coefficients, (n_samples, k); parameters as for `fit`."""
        return self.fit(X, observed).coefficients_

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
            Minimisers of the cost at the last mu, found from the least-squares fit with the same shrinking mu as in
            the fit: at the last mu alone, a sample with many outliers stays in a wrong minimum.

        Raises
        ------
        ParameterError
            Before a fit, and for samples as in `fit`.
        """
        self._check_fitted()
        mus = self._check_parameters()
        X, observed = _check_samples(X, observed)
        if X.shape[1] != self.n_features_in_:
            raise ParameterError(f"X must have {self.n_features_in_} features as in fit, got {X.shape[1]}")
        U = np.ascontiguousarray(self.components_.T, X.dtype)
        Y = _least_squares(U, X, observed)
        fit = RobustFit(X, observed, self.surrogate, self.p)
        t = 1.0
        for mu in mus:
            half, descent = self._half(CoefficientHalf, fit, U, Y, mu, t)
            Y, t = half.Y, descent.step_length
        return np.ascontiguousarray(Y.T)

    def inverse_transform(self, Y: np.ndarray) -> np.ndarray:
        """Return the low-rank samples, (n_samples, n_features), for coefficients `Y`, (n_samples, k)."""
        self._check_fitted()
        Y = np.asarray(Y)
        if Y.ndim != 2 or Y.shape[1] != len(self.components_):
            raise ParameterError(f"Y must have shape (n_samples, {len(self.components_)}), got {Y.shape}")
        return Y @ self.components_

    def _alternate(
        self, fit: RobustFit, U: np.ndarray, Y: np.ndarray, mus: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return U and Y after one alternation per mu, or until the callback says so."""
        step_lengths = {"basis": 1.0, "coefficients": 1.0}
        self.objective_ = []
        for self.n_iter_, mu in enumerate(mus, start=1):
            self.objective_.append(np.inf)
            U, R = qr_positive(U)  # rounding adds up over the retractions
            Y = R @ Y
            for name, kind in (("basis", BasisHalf), ("coefficients", CoefficientHalf)):
                half, descent = self._half(kind, fit, U, Y, mu, step_lengths[name])
                U, Y, step_lengths[name] = half.U, half.Y, descent.step_length
                self.objective_[-1] = descent.values[-1]
                progress = Progress(self.n_iter_, name, float(mu), descent.values)
                if self.callback is not None and self.callback(progress):
                    return U, Y
        return U, Y

    def _half(self, kind: type, fit: RobustFit, U: np.ndarray, Y: np.ndarray, mu: float, t: float) -> tuple[Any, Any]:
        fit.mu = float(mu)
        half = kind(fit, U, Y)
        descent = minimise(
            half,
            fit.evaluate(U, Y),
            CONJUGATE_RULES[self.conjugate],
            steps=self.inner_iterations,
            tolerance=max(self.tolerance, _ROUNDING * float(np.finfo(fit.X.dtype).eps)),
            step_length=t,
        )
        return half, descent

    def _check_parameters(self) -> np.ndarray:
        """Check what does not depend on the samples; return the mu of each alternation, (iterations,)."""
        for name in ("rank", "iterations", "inner_iterations"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ParameterError(f"{name} must be an integer >= 1, got {value!r}")
        if not 0 <= self.tolerance < 1:
            raise ParameterError(f"tolerance must be in [0, 1), got {self.tolerance!r}")
        if self.conjugate not in CONJUGATE_RULES:
            raise ParameterError(f"conjugate must be one of {', '.join(CONJUGATE_RULES)}, got {self.conjugate!r}")
        first, last = _DEFAULT_MU.get(self.surrogate, (1.0, 1.0))
        first = first if self.mu_start is None else self.mu_start
        last = last if self.mu_end is None else self.mu_end
        for mu in (first, last):
            Surrogate(self.surrogate, mu, self.p)  # raises for a wrong name, mu or p
        if last > first:
            raise ParameterError(f"mu_end must be <= mu_start = {first}, got {last}")
        return np.geomspace(first, last, int(self.iterations))

    def _check_fitted(self) -> None:
        if not hasattr(self, "components_"):
            raise ParameterError("RobustPCA must be fitted before it transforms; call fit first")


def truncated_svd(X: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best basis U, (m, rank), and coefficients Y, (rank, n), of samples as rows `X`, (n, m).

    From the Gram matrix of the smaller side, in float64.  O(m n min(m, n)).
    """
    n, m = X.shape
    gram = X @ X.T if n <= m else X.T @ X
    vectors = np.linalg.eigh(gram.astype(np.float64))[1][:, : -rank - 1 : -1].astype(X.dtype)
    U, _ = qr_positive(X.T @ vectors if n <= m else vectors)
    return U, np.ascontiguousarray((X @ U).T)


def _principal_axes(U: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotate the basis so that ``Y Y'`` is diagonal and falls, with the largest entry of each axis positive."""
    U, R = qr_positive(U)
    Y = R @ Y
    vectors = np.linalg.eigh((Y @ Y.T).astype(np.float64))[1][:, ::-1]
    U = U @ vectors.astype(U.dtype)
    signs = np.where(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])] < 0, -1, 1).astype(U.dtype)
    return U * signs, (vectors * signs).T.astype(Y.dtype) @ Y


def _fill_missing(X: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return X, (n, m), with missing entries replaced by the mean of the observed ones of their feature."""
    if observed.all():
        return X
    mean = X.sum(axis=0, where=observed) / np.maximum(observed.sum(axis=0), 1)
    return np.where(observed, X, mean.astype(X.dtype))


def _least_squares(U: np.ndarray, X: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the least-squares coefficients, (k, n), of samples as rows `X` from their observed entries."""
    Y = np.ascontiguousarray((X @ U).T)
    for j in np.flatnonzero(~observed.all(axis=1)):
        Y[:, j] = np.linalg.lstsq(U[observed[j]], X[j, observed[j]], rcond=None)[0]
    return Y


def _check_samples(X: np.ndarray, observed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples, contiguous, with 0 where missing, and the mask of observed entries."""
    try:
        X = np.asarray(X)
    except ValueError:  # rows of different lengths
        X = np.asarray(None)
    if X.dtype.kind not in "biuf":
        raise ParameterError(f"X must be a real array of shape (n_samples, n_features), got type {X.dtype}")
    X = np.ascontiguousarray(X, np.float32 if X.dtype == np.float32 else np.float64)
    if X.ndim != 2 or X.size == 0:
        raise ParameterError(f"X must be a non-empty array of shape (n_samples, n_features), got shape {X.shape}")
    mask = ~np.isnan(X)
    if observed is not None:
        observed = np.asarray(observed)
        if observed.shape != X.shape or observed.dtype != bool:
            raise ParameterError(
                f"observed must be boolean with shape {X.shape}, got {observed.dtype} with shape {observed.shape}"
            )
        mask &= observed
    if np.isinf(X, where=mask, out=np.zeros(X.shape, bool)).any():
        raise ParameterError("X must be finite where observed, got an infinite entry")
    empty = np.flatnonzero(~mask.any(axis=1))
    if len(empty):
        raise ParameterError(f"each sample must have an observed entry, got none in sample {empty[0]}")
    return X if mask.all() else np.where(mask, X, X.dtype.type(0)), mask


def _parameter_names() -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(RobustPCA.__init__).parameters if name != "self")
