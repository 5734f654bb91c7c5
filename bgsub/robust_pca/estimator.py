"""Robust PCA from complete or incomplete samples by smoothed l0-surrogates on the Grassmannian.

References
----------
C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 1 to 4.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Self

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.descents import alternation, continuation, first_mu, graduation, last_surrogate
from bgsub.robust_pca.factors import ResidualScale
from bgsub.robust_pca.halves import RobustFit
from bgsub.robust_pca.irls import held_back_cost, robust_coefficients
from bgsub.robust_pca.parameters import PAPER, check_parameters, default_rank
from bgsub.robust_pca.progress import Callback, Progress
from bgsub.robust_pca.sklearn_conventions import Estimator
from bgsub.robust_pca.validation import check_samples, check_scale, clipped, principal_axes, refuse_mask

_log = logging.getLogger("bgsub")

_LARGEST = 1e6  # scales of the data: beyond it an entry is an outlier for every cost


class RobustPCA(Estimator):
    """Split a matrix into a low-rank part and sparse outliers, possibly from a part of its entries.

    Minimises ``h_mu(X - L)`` over matrices L of rank k, where h is a smoothed l0-surrogate and mu shrinks. The
    interface follows scikit-learn, which need not be there; the data are not centred. One mu holds for all entries:
    bring features of very different scale to one scale first, and take off a mean far above what varies.

    Parameters
    ----------
    rank : int, optional
        Dimension k of the subspace, from 1 to ``min(n_samples, n_features)``; it may be above the true one. Default: 3,
        or a quarter of ``min(n_samples, n_features)`` if that is less, at least 1.
    surrogate : {"log", "lp", "atan"}
        Cost of the residual, see `bgsub.numerics.surrogates`.
    p : float in (0, 1)
        Exponent of ``lp``.
    quality : {"balanced", "fast", "best", "paper"}
        How patiently mu falls, see Notes. "fast" is enough away from the limits of recovery, with all or most entries
        observed; "best" is slower by a factor of 2 to 3, and always repeats the fit with other strengths of the ridge
        unless nothing but outliers is left ("balanced" does so only if it finds no end); "paper" is algorithms 1 to 4
        as printed.
    mu_start, mu_end : float, optional
        First and last smoothing parameter, in the unit of the surrogate (intensity squared; ``atan``: intensity).
        Default: from the data; mu ends where the residual of the inliers is noise, or has vanished. For "paper", made
        for entries of unit variance: 0.9 and 1e-4 (``lp``), 2 and 0.005 (``log``), 2 and 0.05 (``atan``).
    iterations : int, optional
        Largest number of steps (default 5000, and 1000 for each strength of the ridge); for "paper", number of
        alternations, one per value of mu (default 50).
    tolerance : float, optional
        The fit ends when the residual of the inliers falls below this share of the data (default 5e-7; at least some
        units of rounding). For "paper", a half ends early when a step lowers the objective by less than this share of
        it (default 1e-7).
    inner_iterations : int
        Largest number of steps in each half of an alternation of "paper".
    conjugate : {"hestenes-stiefel", "fletcher-reeves"}
        Formula for the conjugate direction.
    forgetting : float in [0, 1)
        For `partial_fit`: share of its weight that the past loses with each new sample. 0, the default, remembers all
        samples alike, for a subspace that does not move.
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
        Singular values of `low_rank_`; after `partial_fit`, of that of all samples seen, the older ones as far as they
        are remembered.
    noise_scale_ : float
        Standard deviation of the inliers of the residual, from its quartile; an outlier is what stands out of it.
    mu_ : float
        Last smoothing parameter.
    objective_ : list of float
        Objective at the end of each step, each at its own mu, ridge included.
    n_iter_ : int
        Number of steps (alternations, rounds of `partial_fit`).
    n_samples_seen_ : int
        Number of samples of the fit and of each `partial_fit` after it.
    n_features_in_, feature_names_in_
        Number of features; their names after a fit to a data frame.

    Notes
    -----
    The paper alternates between subspace and coefficients for a fixed sequence of mu. Here both factors of ``L = A B'``
    move at once, by conjugate gradients in a metric scaled by their Gram matrices; the line search begins at the
    minimum of the parabola through the last one, so that a step nearly always costs one evaluation. A fit has settled
    when the predicted step would gain less than a small share of mu per entry in each sample and each feature: the
    inner tolerance, which tightens with mu. mu then drops to what the residual of the inliers allows; before that it
    only creeps. Where the residual no longer follows mu, it is noise, and mu goes back to where the two met.

    A ridge ``1.2 mu sqrt(k) / s |(A, B)|^2 / 2``, s the scale of the data, keeps out of the fit, while mu is large,
    what does not stand above the outliers, and fades with mu. It makes the difference near the limits of recovery
    (`scripts/paper/README.md` has the phase diagrams), and shows a bound above the rank: directions that stay empty
    while all others stand out are left out, if the fit without them leaves nothing of low rank.

    Where one side is much longer than the other, as in video, a random part of it (4000 features or more) is fitted
    first, which gives the factor of the short side; the whole then takes a few steps.

    The path is followed with ``log``; another surrogate takes over at the last mu. The error that is left is of the
    order of mu for ``log`` and ``atan`` and mu^(1 - p/2) for ``lp``, so that the floor is the rounding.

    float32 samples are computed in float32, all others in float64. One step costs about ``6 m n k`` multiplications in
    BLAS, one pass of a compiled kernel over the matrix and O((m + n) k^2 + k^3). Memory: X, two more matrices of its
    size, which become `low_rank_` and `sparse_`, and a mask of one byte per entry; another copy of X if it has missing
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
    n_samples_seen_: int
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
        forgetting: float = 0.0,
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
        self.forgetting = forgetting
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

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
            For a parameter out of its range, samples that are empty, infinite, not two-dimensional or of a scale beyond
            1e-30 to 1e30 (float32: 1e-10 to 1e10), a mask of another shape, or a sample without any observed entry.
        """
        mu_start, mu_end = check_parameters(self)
        refuse_mask(X, y)
        samples, observed = check_samples(X, observed)
        check_scale(samples, observed)
        rank = default_rank(samples.shape) if self.rank is None else self.rank
        if rank > min(samples.shape):
            raise ParameterError(
                f"rank must be in 1..{min(samples.shape)} for samples of shape {samples.shape}, got {rank}"
            )
        fit = _fit_of(samples, observed, Surrogate(self.surrogate, mu_end or 1.0, self.p))
        descent = alternation if self.quality == PAPER else graduation
        U, Y = self._follow(descent(self, fit, rank, mu_start, mu_end))
        self._keep(samples, fit, U, Y)
        self._keep_features(X, samples.shape[1])
        self.n_samples_seen_ = len(samples)
        return self

    def partial_fit(self, X: np.ndarray, y: object = None, *, observed: np.ndarray | None = None) -> Self:
        """Go on with new samples; the first call is `fit`.

        The past is kept in its second-order model, the components and the energy along each of them, and older samples
        are not needed again. `components_` and `singular_values_` are those of the whole stream afterwards;
        `coefficients_`, `low_rank_`, `sparse_`, `noise_scale_`, `mu_`, `objective_` and `n_iter_` those of this batch.

        Parameters
        ----------
        X, y, observed
            As for `fit`. The first batch must hold at least as many samples as the rank, better some times as many:
            what it lacks, later ones find only as far as it stands above the noise; later batches may have any size.

        Returns
        -------
        RobustPCA
            The object itself.

        Raises
        ------
        ParameterError
            As `fit`, and for another number of features than in the first call.

        Notes
        -----
        Each batch alternates between coefficients and basis by reweighted least squares while mu falls to the noise, or
        to `mu_end`: O(m n k^2 + m k^3) for each of some 20 to 50 rounds. `quality` matters for the first batch only.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, observed=observed)
        _, last = check_parameters(self)
        samples, fit = self._prepare(X, y, observed)
        energy = self.singular_values_**2 * (1 - self.forgetting) ** len(fit.X)
        U, Y = self._follow(continuation(self, fit, energy, last))
        self._keep(samples, fit, U, Y, energy)
        self.n_samples_seen_ += len(fit.X)
        return self

    def fit_transform(self, X: np.ndarray, y: object = None, *, observed: np.ndarray | None = None) -> np.ndarray:
        """Fit to the samples and return their coefficients, (n_samples, k); parameters as for `fit`."""
        return self.fit(X, y, observed=observed).coefficients_

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
            Minimisers of the cost at the last mu of the fit, found from the least-squares fit by reweighted least
            squares with mu shrinking; no sample depends on another one. O(m n k^2) for each of some 20 to 100 steps.

        Raises
        ------
        ParameterError
            Before a fit, and for samples as in `fit`.
        """
        self._check_fitted()
        check_parameters(self)
        _, fit = self._prepare(X, None, observed)
        U = np.ascontiguousarray(self.components_.T, fit.X.dtype)
        return robust_coefficients(fit.X, fit.observed, U, fit.surrogate, first_mu(self))

    def score(self, X: np.ndarray, y: object = None, *, observed: np.ndarray | None = None) -> float:
        """Return how well the subspace predicts entries of samples from the others; the higher the better.

        Parameters
        ----------
        X, y, observed
            As for `fit`.

        Returns
        -------
        float
            Mean over the observed entries of ``-h_mu(X - L)`` plus ``h_mu(0)``, mu the last one of the fit: 0 at most.
            Each fifth of the entries of a sample is held back while its coefficients are found from the others, or a
            higher rank would always score better. For the choice of a rank set `mu_end`, so that all scores have the
            same mu, to about ``(2.4 sigma)^2`` for noise of standard deviation sigma.

        Raises
        ------
        ParameterError
            As `transform`.
        """
        self._check_fitted()
        check_parameters(self)
        _, fit = self._prepare(X, y, observed)
        U = np.ascontiguousarray(self.components_.T, fit.X.dtype)
        return -held_back_cost(fit.X, fit.observed, U, fit.surrogate, first_mu(self))

    def inverse_transform(self, Y: np.ndarray) -> np.ndarray:
        """Return the low-rank samples, (n_samples, n_features), for coefficients `Y`, (n_samples, k)."""
        self._check_fitted()
        Y = np.asarray(Y)
        if Y.ndim != 2 or Y.shape[1] != len(self.components_):
            raise ParameterError(f"Y must have shape (n_samples, {len(self.components_)}), got {Y.shape}")
        return Y @ self.components_

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _follow(self, progresses: Iterator[Progress]) -> tuple[np.ndarray, np.ndarray]:
        """Return basis and coefficients after the last step, or after the one at which the callback says so."""
        self.objective_ = []
        ended = False
        for progress in progresses:
            del self.objective_[progress.iteration - 1 :]
            self.objective_.append(progress.objective[-1])
            if self.verbose and progress.iteration % self.verbose == 0:
                _log.info("step %d: mu %.3g, objective %.6g", progress.iteration, progress.mu, self.objective_[-1])
            ended |= self.callback is not None and bool(self.callback(progress))
            if ended and progress.half != "part":  # of which there is no factor of the whole
                break
        self.n_iter_, self.mu_ = progress.iteration, progress.mu
        return progress.components.T, progress.coefficients.T

    def _keep(
        self, X: np.ndarray, fit: RobustFit, U: np.ndarray, Y: np.ndarray, past: np.ndarray | None = None
    ) -> None:
        """Set the attributes of a fitted model; `past` is the energy, (k,), along each column of U of older samples."""
        observed = fit.observed
        U, Y, energy = principal_axes(U, Y, past)
        self.components_, self.coefficients_ = np.ascontiguousarray(U.T), np.ascontiguousarray(Y.T)
        self.singular_values_ = np.sqrt(energy)
        self.low_rank_ = np.matmul(self.coefficients_, self.components_, out=fit.low_rank)
        self.sparse_ = np.subtract(X, self.low_rank_, out=fit.influence)
        if not observed.all():
            self.sparse_[~observed] = 0
        self.noise_scale_ = ResidualScale(X, observed, len(Y), np.random.default_rng(0)).of_residual(Y.T, U)

    def _prepare(self, X: np.ndarray, y: object, observed: np.ndarray | None) -> tuple[np.ndarray, RobustFit]:
        """Return new samples, checked against the fit, and their cost at the last mu."""
        refuse_mask(X, y)
        samples, observed = check_samples(X, observed)
        self._check_features(X, samples.shape[1])
        return samples, _fit_of(samples, observed, last_surrogate(self))


def _fit_of(samples: np.ndarray, observed: np.ndarray, surrogate: Surrogate) -> RobustFit:
    """Return the cost of samples; entries so large that their squares would drown all others are cut."""
    return RobustFit(clipped(samples, observed, _LARGEST), observed, surrogate)
