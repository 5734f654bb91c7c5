"""The flags of every compiled function, decided once.

Floating-point reassociation and contraction let the compiler vectorise sums; "no NaNs" and "no infinities" are
left out on purpose, so that a NaN in a frame stays a NaN and can be reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.extending import register_jitable

FASTMATH = {"reassoc", "contract", "arcp", "nsz", "afn"}

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` without the GIL, cached on disk; plain Python when NUMBA_DISABLE_JIT is set."""
    try:
        return numba.njit(cache=True, nogil=True, fastmath=FASTMATH, error_model="numpy")(function)
    except RuntimeError:  # no folder for the cache can be written
        return numba.njit(nogil=True, fastmath=FASTMATH, error_model="numpy")(function)


def formula(function: F) -> F:
    """Let kernels call `function`, which stays an ordinary NumPy function for everybody else."""
    return register_jitable(fastmath=FASTMATH, error_model="numpy")(function)
