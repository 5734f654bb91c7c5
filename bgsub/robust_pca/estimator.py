"""Robust PCA of complete or incomplete samples with smoothed l0-surrogates, in the conventions of scikit-learn."""

import inspect
import sys
import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from bgsub.errors import ParameterError, check_choice, import_optional
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca import samples as checks
from bgsub.robust_pca.alternating import alternation
from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.graduated import graduation
from bgsub.robust_pca.irls import refine, robust_coefficients
from bgsub.robust_pca.noise import ResidualScale, clipped, scale_of_data
from bgsub.robust_pca.parameters import PAPER, Callback, Progress, Settings, default_rank, follow
from bgsub.robust_pca.samples import Standardisation
from bgsub.robust_pca.svd import about_mean, principal_axes

_DEFAULT = "default"
_CONTAINERS = (_DEFAULT, "pandas", "polars")
_FIRST = 2.0  # first mu for new samples, in mean squares of the low-rank part
_FOLDS = 5
_EXACT = 1e-4  # scales of the data: the least residual that counts, above that of a fit without noise
_TOLERANCE = 1e-8
_MOST_ROUNDS = 200


@dataclass(repr=False, eq=False)
class RobustPCA:
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

    # `sklearn.base` is not used: scikit-learn is optional and takes a second to import.

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

    def transform(self, X: np.ndarray, observed: np.ndarray | None = None) -> np.ndarray:
        """Return the robust coefficients of samples in the fitted subspace; parameters as for `fit`.

        Returns
        -------
        ndarray or data frame, (n_samples, k)
            Minimisers of the cost at the last mu of the fit, by reweighted least squares from the least-squares fit
            while mu falls. Samples do not depend on each other. O(m n k^2) for each of some 20 to 100 steps.

        Raises
        ------
        ParameterError
            Before a fit (if scikit-learn is imported, its NotFittedError too), for samples as in `fit`, and for other
            features.

        Examples
        --------
        >>> import numpy as np
        >>> from bgsub import RobustPCA
        >>> model = RobustPCA(rank=1).fit(np.outer([1.0, 2.0, 3.0], [2.0, 2.0, 1.0]))
        >>> model.transform([[4.0, 4.0, 2.0], [4.0, np.nan, 2.0], [8.0, 8.0, 400.0]]).round(3)
        array([[ 6.],
               [ 6.],
               [12.]])
        """
        return self._output(robust_coefficients(*self._regression(X, None, observed)), X)

    def score(self, X: np.ndarray, y: object = None, *, observed: np.ndarray | None = None) -> float:
        """Return how well the subspace predicts entries of samples from the others; higher is better.

        Scores of the same samples are comparable for all values of rank, mu, surrogate, `center` and `scale`.
        Parameters as for `fit`, errors as for `transform`.

        Returns
        -------
        float
            Mean log-likelihood of an observed entry, in nats; see Notes.

        Notes
        -----
        Each fifth of the entries is predicted with coefficients from the other ones; otherwise a higher rank would
        always score better. The folds are always the same. With r the residual ``(X - L) / scale_`` of the predicted
        entries, and s their Cauchy scale, ``mean(r^2 / (r^2 + s^2)) = 1/2``, the score is ::

            mean(-log(pi s) - log(1 + r^2 / s^2) - log(scale_))

        the mean logarithm of a heavy-tailed density in the unit of X. Outliers, up to half of the entries, have little
        effect, an error smaller by a tenth adds a tenth, and another unit adds the same to all scores. Residuals below
        ``1e-4 sqrt(1 + k / n_features)`` of the data count as that, so of two exact fits the one of lower rank wins.

        Examples
        --------
        >>> from bgsub import RobustPCA
        >>> from bgsub.synthetic import low_rank_plus_sparse
        >>> X, L, S, _ = low_rank_plus_sparse(90, 60, 3, 0.2, seed=0)
        >>> scores = {rank: RobustPCA(rank).fit(X[:60]).score(X[60:]) for rank in range(1, 7)}
        >>> max(scores, key=scores.get)
        3
        """
        standard, observed, U, surrogate, first = self._regression(X, y, observed)
        residual = cross_validation_residual(standard, observed, U, surrogate, first)
        unit = np.broadcast_to(np.log(self.scale_, dtype=np.float64), observed.shape)[observed].mean()
        # smaller residuals count as `least`, which grows with k / m: of two exact fits that of lower rank scores better
        least = _EXACT * scale_of_data(standard, observed) * float(np.sqrt(1 + U.shape[1] / len(U)))
        return log_likelihood(residual, max(least, float(np.finfo(np.float32).tiny))) - float(unit)

    def _cross_validation_cost(self, X: np.ndarray) -> float:
        """Return the mean cost, above that of 0, of predicted entries; unlike `score`, its ratio compares two fits."""
        standard, observed, U, surrogate, first = self._regression(X, None, None)
        cost = surrogate.value(cross_validation_residual(standard, observed, U, surrogate, first))
        return float(np.mean(cost, dtype=np.float64) - surrogate.value(np.zeros(1))[0])

    def inverse_transform(self, Y: np.ndarray) -> np.ndarray:
        """Return the low-rank samples for coefficients.

        Parameters
        ----------
        Y : array_like, (n_samples, k)
            Result of `transform`, an array or a data frame.

        Returns
        -------
        ndarray, (n_samples, n_features)
            ``Y @ components_ * scale_ + location_``.

        Raises
        ------
        ParameterError
            Before a fit, and for coefficients that are sparse, not real or of another shape.

        Examples
        --------
        >>> import numpy as np
        >>> from bgsub import RobustPCA
        >>> model = RobustPCA(rank=1).fit(np.outer([1.0, 2.0, 3.0], [2.0, 2.0, 1.0]))
        >>> model.inverse_transform([[6.0]]).round(3)
        array([[4., 4., 2.]])
        """
        self._check_fitted()
        checks.refuse_sparse("Y", Y)
        Y = checks.as_matrix(Y)
        if Y.ndim != 2 or Y.shape[1] != len(self.components_) or Y.dtype.kind not in "biuf":
            wanted = f"a real array of shape (n_samples, {len(self.components_)})"
            raise ParameterError(f"Y must be {wanted}, got type {Y.dtype} with shape {Y.shape}")
        return self._standardisation.restore(Y @ self.components_)

    def _regression(self, X: np.ndarray, y: object, observed: np.ndarray | None) -> tuple[Any, ...]:
        """Return the arguments of `robust_coefficients`: samples, mask, basis, cost at the last mu, first mu."""
        self._check_fitted()
        surrogate = Settings(self).surrogate
        checks.refuse_mask(X, y)
        samples, observed = checks.check_samples(X, observed)
        self._check_features(X, samples.shape[1])
        standard = self._standardisation.standard(samples, observed)
        checks.check_scale(standard, observed, small=True)
        last = surrogate.at_mu(self.mu_)
        U = np.ascontiguousarray(self.components_.T, standard.dtype)
        return clipped(standard, observed), observed, U, last, self._first_mu(surrogate)

    @property
    def _standardisation(self) -> Standardisation:
        return Standardisation(self.location_, self.scale_)

    def _first_mu(self, surrogate: Surrogate) -> float:
        """Return the first mu for samples after a fit, at which hardly any residual is an outlier."""
        if self.mu_start is not None:
            return max(self.mu_start, self.mu_)
        mean = float(np.sum(np.square(self.coefficients_, dtype=np.float64)))
        mean /= len(self.coefficients_) * self.n_features_in_
        return surrogate.at_mu(self.mu_).widened(np.sqrt(_FIRST * mean)).mu

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """Return the defaults of the parameters by name."""
        signature = inspect.signature(cls.__init__)
        return {name: value.default for name, value in signature.parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `deep` is for scikit-learn and has no effect.

        Examples
        --------
        >>> from bgsub import RobustPCA
        >>> RobustPCA(3, scale=True).get_params()["scale"]
        True
        """
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name and return self; the next fit checks their values.

        Raises
        ------
        ParameterError
            For an unknown name; then no parameter is set.

        Examples
        --------
        >>> from bgsub import RobustPCA
        >>> RobustPCA(3).set_params(rank=2, quality="fast")
        RobustPCA(rank=2, quality='fast')
        """
        known = self._parameters()
        for name in parameters:
            check_choice("parameter", name, known)
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = (
            f"{name}={getattr(self, name)!r}"
            for name, default in self._parameters().items()
            if not _same(getattr(self, name), default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Return the description that scikit-learn asks for."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags  # noqa: PLC0415 - it may be missing

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64", "float32"]),
            input_tags=InputTags(allow_nan=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return the names of the columns of `transform`, (k,); `input_features` has no effect.

        Raises
        ------
        ParameterError
            Before a fit.

        Examples
        --------
        >>> import numpy as np
        >>> from bgsub import RobustPCA
        >>> RobustPCA(2).fit(np.eye(4)).get_feature_names_out()
        array(['robustpca0', 'robustpca1'], dtype=object)
        """
        self._check_fitted()
        name = type(self).__name__.lower()
        return np.array([f"{name}{i}" for i in range(len(self.components_))], object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the type that `transform` and `fit_transform` return, and return self.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            An array, or a data frame with the columns of `get_feature_names_out` and, in pandas, the index of the
            samples. None changes nothing. Without a choice, ``sklearn.set_config(transform_output=...)`` applies.

        Raises
        ------
        ParameterError
            For another word. `transform` raises DependencyError if the package is missing.

        Examples
        --------
        >>> import numpy as np
        >>> from bgsub import RobustPCA
        >>> RobustPCA(1).set_output(transform="default").fit_transform(np.ones((2, 4))).round(3)
        array([[2.],
               [2.]])
        """
        if transform is not None:
            check_choice("transform", transform, _CONTAINERS)
            self._sklearn_output_config = {"transform": transform}  # sklearn.clone copies this name
        return self

    def _output(self, values: np.ndarray, X: Any) -> Any:
        """Return the transformed X, (n, k), in the chosen container."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        sklearn = sys.modules.get("sklearn")
        container = chosen or (sklearn.get_config()["transform_output"] if sklearn is not None else _DEFAULT)
        if container == _DEFAULT:
            return values
        library: Any = import_optional(container, f"{container} is not installed: pip install {container}")
        names = self.get_feature_names_out()
        if container == "polars":
            return library.DataFrame(values, schema=list(names), orient="row")
        index = X.index if isinstance(X, library.DataFrame) else None
        return library.DataFrame(values, columns=names, index=index, copy=False)

    def _check_fitted(self) -> None:
        """Raise ParameterError before a fit; it is scikit-learn's NotFittedError too if that is imported."""
        if self.__sklearn_is_fitted__():
            return
        exceptions = sys.modules.get("sklearn.exceptions")
        bases = (ParameterError,) if exceptions is None else (ParameterError, exceptions.NotFittedError)
        raise type("NotFittedError", bases, {})(f"{type(self).__name__} must be fitted before use; call fit first")

    def _check_features(self, X: Any, n_features: int) -> None:
        """Raise ParameterError for other features than those of the fit; warn if only one of both has names."""
        fitted, names = getattr(self, "feature_names_in_", None), checks.feature_names(X)
        name = type(self).__name__
        if fitted is None and names is not None:
            warnings.warn(f"X has feature names, but {name} was fitted without feature names", stacklevel=3)
        elif fitted is not None and names is None:
            warnings.warn(
                f"X does not have valid feature names, but {name} was fitted with feature names", stacklevel=3
            )
        elif fitted is not None and names is not None and not np.array_equal(fitted, names):
            raise ParameterError(_mismatch(fitted, names))
        if n_features != self.n_features_in_:
            raise ParameterError(
                f"X has {n_features} features, but {name} is expecting {self.n_features_in_} features as input"
            )


def cross_validation_residual(
    X: np.ndarray, observed: np.ndarray, U: np.ndarray, surrogate: Surrogate, first: float
) -> np.ndarray:
    """Return the residual of the observed entries, each with coefficients from the other four fifths of them."""
    fold = np.random.default_rng(_FOLDS).integers(_FOLDS, size=X.shape)
    residual = np.empty_like(X)
    for number in range(_FOLDS):
        left_out = observed & (fold == number)
        Y = robust_coefficients(X, observed & ~left_out, U, surrogate, first)
        residual[left_out] = (X - Y @ U.T)[left_out]
    return residual[observed]


def log_likelihood(residual: np.ndarray, least: float) -> float:
    """Return the largest mean log density of a residual, (entries,), over all Cauchy scales s."""
    # the best s solves mean(r^2 / (r^2 + s^2)) = 1/2
    squares = np.maximum(residual.astype(np.float64) ** 2, least**2)
    scale = float(np.median(squares))
    for _ in range(_MOST_ROUNDS):
        before, scale = scale, 2 * float(np.mean(squares / (1 + squares / scale)))
        if abs(scale - before) <= _TOLERANCE * scale:
            break
    return -float(np.log(np.pi) + np.log(scale) / 2 + np.mean(np.log1p(squares / scale)))


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _mismatch(fitted: np.ndarray, names: np.ndarray) -> str:
    """Return the difference of feature names in the words of scikit-learn."""
    unseen, missing = sorted(set(names) - set(fitted)), sorted(set(fitted) - set(names))
    lines = ["The feature names should match those that were passed during fit."]
    for title, listed in (("unseen at fit time", unseen), ("seen at fit time, yet now missing", missing)):
        if listed:
            lines += [f"Feature names {title}:", *(f"- {name}" for name in listed)]
    if not unseen and not missing:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(lines) + "\n"
