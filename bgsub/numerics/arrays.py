"""Arrays from user input, and large arrays of which little is used."""

import math
import mmap
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt


def as_array(values: Any) -> np.ndarray:
    """Return an array; of type object, which later checks refuse, for rows of different lengths and the like."""
    try:
        return np.asarray(values)
    except ValueError:
        return np.asarray(None)


def lazy_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    """Return writable zeros that take memory only where they are written, in small pages."""
    # for large arrays NumPy asks for huge pages (2 MiB), of which one written entry takes a whole one
    size = math.prod(shape) * np.dtype(dtype).itemsize
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    pages = mmap.mmap(-1, max(size, 1), **private)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a system without huge pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype, math.prod(shape)).reshape(shape)
