"""The conventions of scikit-learn's estimators, without scikit-learn.

`sklearn.base` is not used: scikit-learn is optional and takes a second to import, so all of this would be needed beside
it.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any, Self

import numpy as np

from bgsub.errors import ParameterError, check_choice, import_optional
from bgsub.robust_pca.samples import feature_names

_DEFAULT = "default"
_CONTAINERS = (_DEFAULT, "pandas", "polars")


class Estimator:
    """Base of an estimator whose constructor stores its parameters unchanged."""

    n_features_in_: int
    feature_names_in_: np.ndarray  # only after a fit to a data frame whose column names are all strings
    components_: np.ndarray

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

    def _set_features(self, names: np.ndarray | None, n_features: int) -> None:
        """Store number and names of the features of a fit."""
        self.n_features_in_ = n_features
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_features(self, X: Any, n_features: int) -> None:
        """Raise ParameterError for other features than those of the fit; warn if only one of both has names."""
        fitted, names = getattr(self, "feature_names_in_", None), feature_names(X)
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
