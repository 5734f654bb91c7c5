"""The decorators of compiled functions, with one set of flags, and Numba's cache of them on the disk.

Reassociation and contraction let the compiler vectorise sums; without "no NaNs" and "no infinities" a NaN stays a NaN.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

import numba
from numba import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.runtime import rtsys
from numba.extending import register_jitable

from bgsub.numerics.compilation import follow_numba, logger

FASTMATH = {"reassoc", "contract", "arcp", "nsz", "afn"}

F = TypeVar("F", bound=Callable[..., Any])

#: Part of the names of the files in the cache.
VERSION = f"numba{numba.__version__}"

follow_numba()


def kernel(function: F, inline: str = "never", allocates: bool = False) -> F:
    """Compile `function` without the GIL, cached on disk; plain Python when NUMBA_DISABLE_JIT is set."""
    # without Numba's counts of references, which slow down short loops several times, unless it allocates
    options: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy", "_nrt": allocates}
    compiled: Any = numba.njit(inline=inline, no_cfunc_wrapper=True, **options)(function)
    if not config.DISABLE_JIT:
        with suppress(RuntimeError):  # no folder for the cache is writable
            compiled._cache = _KernelCache(function, allocates)
    return compiled


def allocating_kernel(function: F) -> F:
    """Compile `function` as `kernel` does; it may make arrays."""
    return kernel(function, allocates=True)


def part(function: F) -> F:
    """Compile `function` as `kernel` does, and inline it into every kernel that calls it."""
    # otherwise it exists in its own library and in that of each caller; the one that runs depends on what was loaded
    # before, and their sums differ in the last digits
    return kernel(function, "always", allocates=True)


def formula(function: F) -> F:
    """Let kernels call `function`, which stays an ordinary NumPy function elsewhere."""
    return register_jitable(fastmath=FASTMATH, error_model="numpy", forceinline=True)(function)


class TypedKernel:
    """A kernel whose arguments have the same types, unchecked, in all calls of `call`, (*args) -> its result."""

    # Numba's dispatcher looks up the types at each call, which is slow where some are named tuples

    __slots__ = ("_kernel", "call")

    def __init__(self, kernel: Any) -> None:
        self._kernel, self.call = kernel, self._call_first

    def _call_first(self, *args: Any) -> Any:
        result = self._kernel(*args)
        if not config.DISABLE_JIT:
            self.call = self._kernel.get_overload(tuple(map(numba.typeof, args)))
        return result


def constant(n: int) -> tuple[int, ...]:
    """Return a tuple of n zeros, whose length a kernel knows at compile time."""
    return (0,) * n


class _Files(CompileResultCacheImpl):
    """The files of one function, with Numba's version in their names: other versions would replace them."""

    def get_filename_base(self, fullname: Any, abiflags: Any) -> str:
        return f"{super().get_filename_base(fullname, abiflags)}.{VERSION}"


class _FilePerType(IndexDataCacheFile):
    """One file for each type of a function's arguments."""

    # Numba numbers the files: two processes that compile at the same time take the same number, and one of them later
    # loads a kernel for the other's types

    def save(self, key: Any, data: Any) -> None:
        """Save a compiled kernel in its file."""
        self._save_data(self._file_of(key), (self._source_stamp, data))

    def load(self, key: Any) -> Any:
        """Return a compiled kernel; None if there is none of these sources."""
        try:
            stamp, data = self._load_data(self._file_of(key))
        except FileNotFoundError:
            return None
        return data if stamp == self._source_stamp else None

    def _file_of(self, key: Any) -> str:
        return self._data_name_pattern.format(number=int(hashlib.sha256(repr(key).encode()).hexdigest()[:12], 16))


class _KernelCache(FunctionCache):
    """Numba's cache of one function; files that cannot be read or written are ignored with a warning."""

    _impl_class = _Files

    # the files are pickles: anyone who can write into their folder can run code in this program

    def __init__(self, function: Any, allocates: bool) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file: Any = _FilePerType(self.cache_path, self._impl.filename_base, stamp)
        self._allocates = allocates
        if os.name == "posix" and os.stat(self.cache_path).st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
            _warn(
                f"kernel cache '{self.cache_path}' is writable by other users, who could run code in this program "
                "(chmod o-w)"
            )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a compiled kernel, or None if there is none that can be read."""
        # as Numba's method without `target_context.refresh`, which imports for .3 s what only compiling needs
        try:
            if self._allocates:
                rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except Exception as error:  # a damaged pickle raises anything
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                raise  # too many open files do not mean damage
            _warn("cached kernels are damaged and are compiled again")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a compiled kernel if possible."""
        try:
            super().save_overload(sig, data)
        except Exception as error:  # a full disk, missing permissions
            _warn(f"cannot save compiled kernels: {error}")


@cache
def _warn(message: str) -> None:
    logger.warning("%s", message)
