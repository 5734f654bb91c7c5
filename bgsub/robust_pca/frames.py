"""Data frames of pandas and polars, in and out; neither package is imported before its frames are asked for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, import_optional
from bgsub.numerics.arrays import as_array

DEFAULT = "default"
CONTAINERS = (DEFAULT, "pandas", "polars")


def as_matrix(X: Any) -> np.ndarray:
    """Return the array that X is, or holds; missing values of a frame of pandas, of whatever kind, are NaN."""
    array = as_array(X)
    if array.dtype == object and hasattr(X, "isna") and hasattr(X, "to_numpy"):
        try:
            return X.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):  # no numbers
            return array
    return array


def feature_names(X: Any) -> np.ndarray | None:
    """Return the column names of a data frame if all are strings, None if none is or X is no frame.

    Raises
    ------
    ParameterError
        If only some of them are strings.
    """
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = list(columns)
    types = sorted({type(name).__qualname__ for name in names})
    if "str" in types and len(types) > 1:
        raise ParameterError(
            f"names of features must be all strings or none, got types {', '.join(types)}: "
            "X.columns = X.columns.astype(str) makes them strings"
        )
    return np.array(names, object) if types == ["str"] else None


def container_of(estimator: Any) -> str:
    """Return what an estimator is to return: as it was told by `set_output`, else as scikit-learn was, if in use."""
    told = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    sklearn = sys.modules.get("sklearn")
    return told or (sklearn.get_config()["transform_output"] if sklearn is not None else DEFAULT)


def in_container(values: np.ndarray, container: str, names: np.ndarray, X: Any) -> Any:
    """Return an array, (n, k), as a frame with the column `names`, and with the index of X where both are of pandas.

    Raises
    ------
    DependencyError
        If the package of the frame is not installed.
    """
    if container == DEFAULT:
        return values
    library: Any = import_optional(container, f"{container} is not installed: pip install {container}")
    if container == "polars":
        return library.DataFrame(values, schema=list(names), orient="row")
    index = X.index if isinstance(X, library.DataFrame) else None
    return library.DataFrame(values, columns=names, index=index, copy=False)
