"""The flags of every compiled function, decided once.

Floating-point reassociation and contraction let the compiler vectorise sums; "no NaNs" and "no infinities" are
left out on purpose, so that a NaN in a frame stays a NaN and can be reported.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numba
from numba import config
from numba.extending import register_jitable

from bgsub.numerics.compilation import follow_numba
from bgsub.numerics.kernel_cache import KernelCache

FASTMATH = {"reassoc", "contract", "arcp", "nsz", "afn"}

F = TypeVar("F", bound=Callable[..., Any])

follow_numba()


def kernel(function: F) -> F:
    """Compile `function` without the GIL, cached on disk; plain Python when NUMBA_DISABLE_JIT is set."""
    return _compiled(function)


def part(function: F) -> F:
    """Compile `function` as `kernel` does, and into every kernel that calls it.

    A function that is called, not inlined, exists once in its own library and once more, optimised anew, in that of
    each caller. Which of them runs depends on what the process has loaded before, and their sums differ in the last
    digits: a process that compiles would not give the bytes of one that finds the kernels on the disk.
    """
    return _compiled(function, inline="always")


def _compiled(function: F, inline: str = "never") -> F:
    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": FASTMATH,
        "error_model": "numpy",
        "inline": inline,
        "no_cfunc_wrapper": True,
    }
    compiled: Any = numba.njit(**options)(function)
    if not config.DISABLE_JIT:
        with suppress(RuntimeError):  # no folder for the cache can be written
            compiled._cache = KernelCache(function)
    return compiled


def formula(function: F) -> F:
    """Let kernels call `function`, which stays an ordinary NumPy function for everybody else."""
    return register_jitable(fastmath=FASTMATH, error_model="numpy", forceinline=True)(function)


def constant(n: int) -> tuple[int, ...]:
    """Return a tuple of n zeros, by which a kernel knows the number n when it is compiled.

    The length of a tuple is part of its type: ``len`` of it is a constant, loops over it unroll, and branches that it
    excludes are not compiled. Each n compiles a kernel of its own.
    """
    return (0,) * n
