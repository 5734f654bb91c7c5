"""One small pool of threads for the kernels of the process.

Kernels release the GIL, so that plain threads run them on all cores. The caller takes part and uses only idle threads:
several subtractors share the cores and never wait for each other. The threads stay for the life of the process.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np

_COPIED = 1 << 20  # bytes of a band below which a copy is not shared


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bands_for(pixels: int, least: int, threads: int | None) -> int:
    """Return the number of bands of at least `least` pixels, one per thread at most; None uses all cores."""
    # handing over a band takes some 25 microseconds, so smaller bands gain nothing
    return max(min(cores() if threads is None else threads, pixels // least), 1)


class _Pool:
    """Up to `count` threads, the caller's included, started at the first use."""

    def __init__(self, count: int | None = None) -> None:
        self.idle = threading.Semaphore(max((count or cores()) - 1, 0))
        self.executor = ThreadPoolExecutor(max(cores() - 1, 1), "kernel-pool")  # without threads until it is used


_pool = _Pool()
blas_lock = threading.RLock()


def limit_threads(count: int | None = None) -> None:
    """Let all kernels of this process together use `count` threads, by default all cores; running ones keep theirs."""
    global _pool  # noqa: PLW0603 - one pool per process
    _pool = _Pool(count)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=limit_threads)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS to one thread inside the block; blocks of several threads run one after another."""
    # the number of threads changes the last digits of sums, and a fork while OpenBLAS uses several may never return;
    # the limit belongs to the process: one block would lift that of another
    with blas_lock, _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - it scans the libraries of the process

    return ThreadpoolController()


def in_bands(function: Callable[[int, int, int], None], length: int, threads: int, grain: int = 1) -> None:
    """Call ``function(begin, end, band)`` on bands that cover ``range(length)``, on up to `threads` threads."""
    # bands begin at multiples of `grain`; `band` numbers the calls from 0, for separate workspaces
    if threads <= 1:
        function(0, length, 0)
        return
    pieces = max(-(-length // grain), 1)
    pool = _pool
    helpers = sum(pool.idle.acquire(blocking=False) for _ in range(min(threads, pieces) - 1))
    try:
        bands = helpers + 1
        cuts = [min(pieces * band // bands * grain, length) for band in range(bands)] + [length]
        futures = [pool.executor.submit(function, cuts[band], cuts[band + 1], band) for band in range(1, bands)]
        try:
            function(0, cuts[1], 0)
        finally:
            for future in futures:
                future.exception()  # waits: no band may run after the call
        for future in futures:
            future.result()
    finally:
        for _ in range(helpers):
            pool.idle.release()


def copied(array: np.ndarray) -> np.ndarray:
    """Return a contiguous copy of an array, made by all idle threads: one thread would wait for memory."""
    fitting = _old.get().get((array.shape, array.dtype))
    out = fitting.pop() if fitting else np.empty(array.shape, array.dtype)
    axis = int(np.argmax(array.shape)) if array.ndim else 0
    target, source = np.atleast_1d(out).swapaxes(0, axis), np.atleast_1d(array).swapaxes(0, axis)
    bands = bands_for(array.nbytes, _COPIED, None)
    in_bands(lambda begin, end, _band: np.copyto(target[begin:end], source[begin:end]), len(target), bands)
    return out


#: Arrays that copies may overwrite, by shape and type.
_old: ContextVar[dict[Any, list[np.ndarray]]] = ContextVar("_old", default={})  # noqa: B039 - never changed


@contextmanager
def overwriting(state: dict[str, Any]) -> Iterator[None]:
    """Let `copied` overwrite the arrays of an old state inside the block; new memory takes several times as long."""
    old: dict[Any, list[np.ndarray]] = {}
    parts = [state]
    for part in parts:
        for value in part.values():
            if isinstance(value, dict):
                parts.append(value)
            else:
                old.setdefault((value.shape, value.dtype), []).append(value)
    token = _old.set(old)
    try:
        yield
    finally:
        _old.reset(token)
