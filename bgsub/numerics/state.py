"""States: what a part has learned, as arrays by name, and the checks of arrays from a file.

Every part that learns has ``state()``, which returns copies, and ``from_state(...)`` or ``set_state(state)``; the
restored part continues bit for bit. A state consists of arrays of numbers and of dictionaries of them.
"""

import sys
from typing import TypeAlias

import numpy as np

from bgsub.errors import ParameterError

State: TypeAlias = "dict[str, np.ndarray | State]"
LARGEST = 1e15  # its squares, summed over a frame, are finite in float32, and integers up to it are exact
FINITE = sys.float_info.max  # bound of numbers that only have to be finite
_ROUNDING = 1e-6  # of the trace: negative eigenvalues of moments that rounding explains


def array_of(
    state: State, name: str, shape: tuple[int | None, ...], dtype: str, low: float = -LARGEST, high: float = LARGEST
) -> np.ndarray:
    """Return a contiguous copy of an array of a state; ParameterError if it is missing or does not fit."""
    # the default range can be squared and summed in float32; None in `shape` is any length
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
    """Return `count` numbers >= 0; ParameterError if they are missing."""
    return [float(number) for number in array_of(state, name, (count,), "float64", 0, LARGEST)]


def moment_of(state: State, name: str, size: int) -> np.ndarray:
    """Return a matrix of moments, (size, size); ParameterError if it has a negative eigenvalue."""
    moment = array_of(state, name, (size, size), "float64", -(LARGEST**2), LARGEST**2)
    if not np.linalg.eigvalsh(moment)[0] >= -_ROUNDING * max(float(np.trace(moment)), 1.0):
        raise ParameterError(f"{name} must be a matrix of moments, with no negative eigenvalue")
    return moment


def part_of(state: State, name: str) -> State:
    """Return the state of a part; ParameterError if it is missing."""
    value = state.get(name)
    if not isinstance(value, dict):
        raise ParameterError(f"the part {name} is missing")
    return value
