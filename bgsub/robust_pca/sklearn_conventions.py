"""The conventions of scikit-learn's estimators, kept without that package."""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any, Self

import numpy as np

from bgsub.errors import ParameterError
from bgsub.robust_pca.frames import CONTAINERS, container_of, feature_names, in_container


class Estimator:
    """Base of an estimator whose constructor stores its parameters as they are."""

    n_features_in_: int
    feature_names_in_: np.ndarray  # only after a fit to a data frame whose column names are all strings

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """Return the defaults of the parameters by name."""
        signature = inspect.signature(cls.__init__)
        return {name: value.default for name, value in signature.parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `deep` is accepted for scikit-learn and changes nothing.

        Examples
        --------
        >>> from bgsub import RobustPCA
        >>> RobustPCA(3, scale=True).get_params()["scale"]
        True
        """
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name and return self; their values are checked by the next fit.

        Raises
        ------
        ParameterError
            For a name that is not one; nothing is set then.

        Examples
        --------
        >>> from bgsub import RobustPCA
        >>> RobustPCA(3).set_params(rank=2, quality="fast")
        RobustPCA(rank=2, quality='fast')
        """
        known = self._parameters()
        for name in parameters:
            if name not in known:
                raise ParameterError(f"parameter must be one of {', '.join(known)}, got {name!r}")
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

    def _repr_html_(self) -> str | None:
        """Return the estimator as scikit-learn shows its own in a notebook; None, which shows the text, without it."""
        utils = sys.modules.get("sklearn.utils")
        return utils.estimator_html_repr(self) if utils is not None else None

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, which calls this."""
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
        """Return a name for each column of what `transform` returns; `input_features` changes nothing.

        Returns
        -------
        ndarray of str, (k,)

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
        return np.array([f"{name}{i}" for i in range(self._n_features_out)], object)

    @property
    def _n_features_out(self) -> int:
        raise NotImplementedError

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` and `fit_transform` return, and return self.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            An array, or a data frame with the names of `get_feature_names_out`, and with the index of the samples where
            they come in a frame of pandas, too. None changes nothing. Where nothing has been chosen, it is what
            ``sklearn.set_config(transform_output=...)`` says.

        Raises
        ------
        ParameterError
            For another word. That the package of the frame is missing (DependencyError), `transform` tells.

        Examples
        --------
        >>> import numpy as np
        >>> from bgsub import RobustPCA
        >>> RobustPCA(1).set_output(transform="default").fit_transform(np.ones((2, 4))).round(3)
        array([[2.],
               [2.]])
        """
        if transform is not None:
            if transform not in CONTAINERS:
                raise ParameterError(f"transform must be one of {', '.join(CONTAINERS)}, got {transform!r}")
            self._sklearn_output_config = {"transform": transform}  # the name under which sklearn.clone looks
        return self

    def _output(self, values: np.ndarray, X: Any) -> Any:
        """Return what a transformation of X has given, (n, k), in the container that was chosen."""
        return in_container(values, container_of(self), self.get_feature_names_out(), X)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _not_fitted(f"{type(self).__name__} must be fitted before it is used; call fit first")

    def _keep_features(self, names: np.ndarray | None, n_features: int) -> None:
        """Remember number of the features of a fit, and their names if they have some."""
        self.n_features_in_ = n_features
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_features(self, X: Any, n_features: int) -> None:
        """Raise ParameterError for features other than those of the fit; warn where only one of both has names."""
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


def _not_fitted(message: str) -> ParameterError:
    """Return the error for a model without a fit; where scikit-learn is in use, it is its NotFittedError too."""
    exceptions = sys.modules.get("sklearn.exceptions")
    if exceptions is None:
        return ParameterError(message)
    return type("NotFittedError", (ParameterError, exceptions.NotFittedError), {})(message)


def _mismatch(fitted: np.ndarray, names: np.ndarray) -> str:
    """Return how names of features differ, in the words of scikit-learn."""
    unseen, missing = sorted(set(names) - set(fitted)), sorted(set(fitted) - set(names))
    lines = ["The feature names should match those that were passed during fit."]
    for title, listed in (("unseen at fit time", unseen), ("seen at fit time, yet now missing", missing)):
        if listed:
            lines += [f"Feature names {title}:", *(f"- {name}" for name in listed)]
    if not unseen and not missing:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(lines) + "\n"
