"""What a part has learned, as plain arrays by name, and the checks of such arrays when they come back from a file.

Every part that learns has ``state()``, which returns copies, and ``from_state(...)`` or ``set_state(state)``, which
takes them over: the part then goes on bit for bit. Nothing but arrays of numbers and dicts of them is in a state.
"""

from __future__ import annotations

import sys
from typing import TypeAlias

import numpy as np

from bgsub.errors import ParameterError

State: TypeAlias = "dict[str, np.ndarray | State]"
LARGEST = 1e15  # its square, summed up over a frame, is finite in single precision, and integers up to it are exact
FINITE = sys.float_info.max  # of what nothing is computed from, or what has another unit
_ROUNDING = 1e-6  # of the trace of a matrix of moments, which has no negative eigenvalue but for it


def array_of(
    state: State,
    name: str,
    shape: tuple[int | None, ...],
    dtype: str,
    low: float = -LARGEST,
    high: float = LARGEST,
) -> np.ndarray:
    """Return one array of a state, copied, contiguous, and with numbers of its range only.

    Parameters
    ----------
    state : dict
        As `State`.
    name : str
        Of the array.
    shape : tuple
        What it must be; None for any length.
    dtype : str
        Its type.
    low, high : float
        Its range, ends included; NaN is in none. By default what single precision can square and sum up.

    Raises
    ------
    ParameterError
        When it is missing or is another one.
    """
    value = state.get(name)
    if not isinstance(value, np.ndarray):
        raise ParameterError(f"the array {name} is missing")
    good = value.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, value.shape, strict=True))
    if not good or value.dtype.name != dtype:
        words = ", ".join("n" if n is None else str(n) for n in shape)
        raise ParameterError(f"{name} must be {dtype} of shape ({words}), got {value.dtype} of shape {value.shape}")
    if value.size and not (low <= float(value.min()) and float(value.max()) <= high):
        raise ParameterError(f"{name} must hold numbers in [{low:g}, {high:g}]")
    return np.array(value, dtype=dtype, order="C")


def numbers_of(state: State, name: str, count: int) -> list[float]:
    """Return the `count` numbers under a name, none negative; ParameterError when they are not there."""
    return [float(number) for number in array_of(state, name, (count,), "float64", 0, LARGEST)]


def moment_of(state: State, name: str, size: int) -> np.ndarray:
    """Return a matrix of moments, (size, size); ParameterError when it has a negative eigenvalue."""
    moment = array_of(state, name, (size, size), "float64", -(LARGEST**2), LARGEST**2)
    if not np.linalg.eigvalsh(moment)[0] >= -_ROUNDING * max(float(np.trace(moment)), 1.0):
        raise ParameterError(f"{name} must be a matrix of moments, with no negative eigenvalue")
    return moment


def part_of(state: State, name: str) -> State:
    """Return the state of a part; ParameterError when it is missing."""
    value = state.get(name)
    if not isinstance(value, dict):
        raise ParameterError(f"the part {name} is missing")
    return value
