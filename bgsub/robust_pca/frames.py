"""Data frames of pandas and polars, in and out; neither package is imported before its frames are asked for."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, import_optional
from bgsub.numerics.arrays import as_array

DEFAULT = "default"
CONTAINERS = (DEFAULT, "pandas", "polars")
_TIMES = re.compile("date|time|duration", re.IGNORECASE)  # types of columns as both packages call them


def as_matrix(X: Any) -> np.ndarray:
    """Return the array that X is, or holds; what a masked array hides, or a frame of pandas lacks, is NaN."""
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float64) if X.dtype.kind in "biu" else X, np.nan)
    _refuse_times(X)
    array = as_array(X)
    if array.dtype == object and hasattr(X, "isna") and hasattr(X, "to_numpy"):
        try:
            return X.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):  # no numbers
            return array
    return array


def _refuse_times(X: Any) -> None:
    """Raise ParameterError for dates and times in a frame, of which both packages make nanoseconds beside numbers."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        for name, kind in zip(X.columns, X.dtypes, strict=True):
            if _TIMES.match(str(kind)):
                raise ParameterError(f"a data frame must be a real array, got {kind} in column {name!r}")


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
