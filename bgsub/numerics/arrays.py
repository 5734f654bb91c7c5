"""Arrays of what comes from outside."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_array(values: Any) -> np.ndarray:
    """Return an array, one of type object for what is none, such as rows of different lengths: checks refuse that."""
    try:
        return np.asarray(values)
    except ValueError:
        return np.asarray(None)
