"""Robust PCA of complete or incomplete samples with smoothed l0-surrogates."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np

from bgsub.errors import ParameterError
from bgsub.robust_pca import samples as checks
from bgsub.robust_pca.alternating import alternation
from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.fitted import FittedSubspace
from bgsub.robust_pca.graduated import graduation
from bgsub.robust_pca.irls import refine
from bgsub.robust_pca.noise import ResidualScale, clipped
from bgsub.robust_pca.parameters import PAPER, Callback, Progress, Settings, default_rank, follow
from bgsub.robust_pca.samples import Standardisation
from bgsub.robust_pca.svd import about_mean, principal_axes


@dataclass(repr=False, eq=False)
class RobustPCA(FittedSubspace):
    """Split a matrix into a low-rank part and sparse outliers, from all or some of its entries.

    Minimises ``h_mu(X - L)`` over matrices L of rank k, where h is a smoothed l0-surrogate and mu falls. The interface
    follows scikit-learn, which is optional. Data frames of pandas and polars are accepted and, after `set_output`,
    returned. One mu applies to all entries: use `scale` for features of very different size, and `center` if the mean
    is far above the variation.

    Parameters
    ----------
    rank : int, optional
        Dimension k of the subspace, `n_components` of scikit-learn's PCA: from 1 to ``min(n_samples, n_features)``. It
        may exceed the true rank. Default: 3, at most a quarter of ``min(n_samples, n_features)``, at least 1.
    surrogate : {"log", "lp", "atan"}, default "log"
        Cost h of the residual r: ``(mu/2) log(1 + r^2/mu)``, ``(mu/p) (1 + r^2/mu)^(p/2)`` or
        ``(mu^2/2) atan(r/mu)^2``, each with curvature one at zero.
    p : float in [0.001, 0.999], default 0.5
        Exponent of ``lp``.
    quality : {"balanced", "fast", "best", "paper"}, default "balanced"
        How slowly mu falls, see Notes. "fast" suffices away from the limits of recovery, with all or most entries
        observed. "balanced" begins with that and repeats the fit more slowly if it leaves more than outliers and noise.
        "best" takes 2 to 3 times as long and repeats the fit with other strengths of the ridge unless only outliers
        are left. "paper" is algorithms 1 to 4 as printed.
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
    center : bool, default False
        Whether the subspace is about a location, fitted with it. Without it the mean is one of the directions and costs
        digits: a mean of 1000 times the variation leaves an error of 4e-4 instead of 1e-7.
    scale : bool, default False
        Whether features are divided by their median absolute deviation, which changes neither rank nor outliers. With
        sizes from 0.1 to 10, and noise of a tenth of each, the error is 0.1 without and 0.04 with it. If all features
        have the same noise, it adds a tenth to the error.
    callback : callable, optional
        Called with a `Progress` after each step (half of an alternation); ends the fit if it returns True.
    verbose : int, default 0
        Print every n-th step, and the last one; 0 for none.
    random_state : int, Generator or None
        Seed of the random start and of the entries for the scale of the residual. None means 0: fits are repeatable.

    Attributes
    ----------
    components_ : ndarray, (k, n_features)
        Orthonormal rows, by falling energy of their coefficients; in units of `scale_`.
    coefficients_ : ndarray, (n_samples, k)
        Coefficients of the samples.
    low_rank_ : ndarray, (n_samples, n_features)
        ``coefficients_ @ components_ * scale_ + location_``.
    sparse_ : ndarray, (n_samples, n_features)
        ``X - low_rank_`` on observed entries, 0 elsewhere; it includes the noise.
    location_, scale_ : ndarray, (n_features,)
        Subtracted location, and divisor after that; 0 without `center`, 1 without `scale`.
    singular_values_ : ndarray, (k,)
        Singular values of ``coefficients_ @ components_``.
    noise_scale_ : float
        Standard deviation of the inliers of the residual ``sparse_ / scale_``, from its quartile.
    mu_ : float
        Last smoothing parameter.
    objective_ : list of float
        Objective at the end of each step, each at its own mu, ridge included.
    n_iter_ : int
        Number of steps, or of alternations.
    n_features_in_, feature_names_in_
        Number of features, an int; their names, an ndarray of str, after a fit to a data frame with names.

    Notes
    -----
    The paper alternates between subspace and coefficients for a fixed sequence of mu. Here both factors of ``L = A B'``
    move together, mu follows the residual of the inliers, and a ridge that fades with mu keeps directions out of the
    fit that do not exceed the outliers; ``docs/method.md`` has the details.

    float32 samples are computed in float32, all others in float64, "fast" and "balanced" in float32 until its rounding
    is reached. One step costs about ``6 m n k`` multiplications in BLAS, one pass of a compiled kernel over the matrix
    and O((m + n) k^2 + k^3). The peak memory is below 4 times that of X, 5.5 times if X is
    centred, scaled or incomplete.

    References
    ----------
    C. Hage and M. Kleinsteuber, arXiv 1210.0805, algorithms 1 to 4.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> low_rank = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 80))
    >>> X = low_rank + (rng.random((60, 80)) < 0.1) * rng.uniform(-5, 5, (60, 80))
    >>> model = RobustPCA(rank=2).fit(X)
    >>> bool(np.linalg.norm(model.low_rank_ - low_rank) < 1e-5 * np.linalg.norm(low_rank))
    True
    """

    rank: int | None = None
    _: KW_ONLY
    surrogate: str = "log"
    p: float = 0.5
    quality: str = "balanced"
    mu_start: float | None = None
    mu_end: float | None = None
    iterations: int | None = None
    tolerance: float | None = None
    center: bool = False
    scale: bool = False
    callback: Callback | None = None
    verbose: int = 0
    random_state: int | np.random.Generator | None = None

    def fit(self, X: np.ndarray, y: object = None, *, observed: np.ndarray | None = None) -> Self:
        """Fit subspace and coefficients to the samples; return self.

        Parameters
        ----------
        X : array_like, (n_samples, n_features)
            Samples as rows; NaN and hidden entries of a masked array are missing.
        y : None
            Not used; for scikit-learn.
        observed : array_like of bool, (n_samples, n_features), optional
            False marks a further entry as missing; its value in X is not used.

        Raises
        ------
        ParameterError
            For a parameter out of its range, samples that are empty, sparse, infinite, not two-dimensional or of a
            scale beyond 1e-30 to 1e30 (float32: 1e-10 to 1e10), a mask of another shape, or a sample without any
            observed entry. It is a ValueError.

        Examples
        --------
        >>> import numpy as np
        >>> from bgsub import RobustPCA
        >>> X = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 3.0, 5.0])
        >>> X[1, 2], X[3, 0] = 90.0, np.nan
        >>> model = RobustPCA(rank=1).fit(X)
        >>> model.low_rank_[[1, 3], [2, 0]].round(3)
        array([4., 4.])
        >>> model.sparse_[[1, 3], [2, 0]].round(3)
        array([86.,  0.])
        """
        settings = Settings(self)
        checks.refuse_mask(X, y)
        names = checks.feature_names(X)
        samples, observed = checks.check_samples(X, observed)
        standardisation = Standardisation.of(samples, observed, self.center, self.scale)
        standard = standardisation.standard(samples, observed)
        size = checks.check_scale(standard, observed)
        checks.check_widths(settings, samples.dtype)
        rank = default_rank(samples.shape) if self.rank is None else self.rank
        if rank > min(samples.shape):
            raise ParameterError(
                f"rank must be in 1..{min(samples.shape)} for n_samples={samples.shape[0]} and "
                f"n_features={samples.shape[1]}, got {rank}"
            )
        cost = RobustCost(clipped(standard, observed, scale=size), observed, settings.surrogate)
        fit = alternation if self.quality == PAPER else graduation
        more = int(self.center and rank < min(samples.shape))  # for the error of the medians
        steps = fit(settings, cost, rank + more)
        self._set_fit(samples, standardisation, cost, steps, rank)
        self.n_features_in_ = samples.shape[1]
        vars(self).pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        return self

    def fit_transform(self, X: np.ndarray, y: object = None, *, observed: np.ndarray | None = None) -> np.ndarray:
        """Fit to the samples and return their coefficients; parameters and errors as for `fit`.

        Returns
        -------
        ndarray or data frame, (n_samples, k)
            `coefficients_`; a frame after `set_output`.

        Examples
        --------
        >>> import numpy as np
        >>> from bgsub import RobustPCA
        >>> X = np.outer([1.0, 2.0, 3.0], [2.0, 2.0, 1.0])
        >>> RobustPCA(rank=1).fit_transform(X).round(3)
        array([[3.],
               [6.],
               [9.]])
        """
        return self._output(self.fit(X, y, observed=observed).coefficients_, X)

    def _set_fit(
        self, X: np.ndarray, standardisation: Standardisation, cost: RobustCost, steps: Iterator[Progress], rank: int
    ) -> None:
        end, self.objective_ = follow(steps, self.callback, self.verbose)
        self.n_iter_, self.mu_ = end.iteration, end.mu
        A, B = end.coefficients, end.components.T
        if self.center:
            mean, A, B = about_mean(A, B, rank)
            standardisation = standardisation.moved(mean)
            standard = clipped(standardisation.standard(X, cost.observed), cost.observed)
            A, B = refine(standard, cost.observed, A, B, cost.surrogate.at_mu(self.mu_))
            del standard  # as large as the samples
            standardisation, A = standardisation.moved(B @ A.mean(axis=0)), A - A.mean(axis=0)
        self.location_, self.scale_ = standardisation.location, standardisation.scale
        U, Y, energy = principal_axes(B, A.T)
        self.components_, self.coefficients_ = np.ascontiguousarray(U.T), np.ascontiguousarray(Y.T)
        self.singular_values_ = np.sqrt(energy)
        low_rank = np.matmul(self.coefficients_, self.components_, out=cost.low_rank)
        self.low_rank_ = standardisation.restore(low_rank)
        self.sparse_ = np.subtract(X, self.low_rank_, out=cost.influence)
        if not cost.observed.all():
            self.sparse_[~cost.observed] = 0
        standard = standardisation.standard(X, cost.observed)
        scale = ResidualScale(standard, cost.observed, len(end.components), np.random.default_rng(0))
        self.noise_scale_ = scale.of_residual(self.coefficients_, self.components_.T)
