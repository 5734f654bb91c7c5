"""A fitted subspace as an estimator: coefficients and low-rank part of new samples, score, parameters, output."""

import inspect
import sys
import warnings
from typing import Any, Self

import numpy as np

from bgsub.errors import ParameterError, check_choice, import_optional
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca import samples as checks
from bgsub.robust_pca.irls import robust_coefficients
from bgsub.robust_pca.noise import clipped, scale_of_data
from bgsub.robust_pca.parameters import Settings

_DEFAULT = "default"
_CONTAINERS = (_DEFAULT, "pandas", "polars")
_FIRST = 2.0  # first mu for new samples, in mean squares of the low-rank part
_FOLDS = 5
_EXACT = 1e-4  # scales of the data: the least residual that counts, above that of a fit without noise
_TOLERANCE = 1e-8
_MOST_ROUNDS = 200


class FittedSubspace:
    """The methods of `bgsub.RobustPCA` besides its fit, in the conventions of scikit-learn; attributes as there."""

    # `sklearn.base` is not used: scikit-learn is optional and takes a second to import.

    n_features_in_: int
    feature_names_in_: np.ndarray  # only after a fit to a data frame whose column names are all strings
    components_: np.ndarray
    coefficients_: np.ndarray
    location_: np.ndarray
    scale_: np.ndarray
    mu_: float
    mu_start: float | None

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
    def _standardisation(self) -> checks.Standardisation:
        return checks.Standardisation(self.location_, self.scale_)

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
        usual = self._parameters()
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if not _same(value, usual[name])]
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
    squares = np.maximum(residual.astype(np.float64) ** 2, least**2)  # the best s solves mean(r^2 / (r^2 + s^2)) = 1/2
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
