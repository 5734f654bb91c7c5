"""Large arrays of which little is used."""

from __future__ import annotations

import math
import mmap
from contextlib import suppress

import numpy as np
import numpy.typing as npt


def sparse_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    """Return zeros that take memory where they are written, in the smallest pages of the system.

    NumPy asks for huge pages (2 MiB) for its larger arrays, where one written entry takes as much memory as all
    entries around it (Linux: madvise(2), MADV_HUGEPAGE).

    Parameters
    ----------
    shape : tuple of int
        Shape of the array; may hold no entries.
    dtype : data-type
        Its type.

    Returns
    -------
    ndarray
        Writable, C-contiguous; its memory is given back with the last array that uses it.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    pages = mmap.mmap(-1, max(size, 1), **private)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype, math.prod(shape)).reshape(shape)
