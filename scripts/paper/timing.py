"""Comparable times: one thread, compiled code loaded before the measurement."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from methods import METHODS
from planted import planted
from threadpoolctl import threadpool_limits

from bgsub.numerics.threads import cores, limit_threads

_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@contextmanager
def threads_of_children(count: int) -> Iterator[None]:
    """Set the environment so that processes started inside the block load NumPy with `count` threads."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update({name: str(count) for name in _VARIABLES})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Limit the BLAS and the kernels of bgsub in this process to `count` threads inside the block."""
    limit_threads(count)
    try:
        with threadpool_limits(limits=count):
            yield
    finally:
        limit_threads(cores())


class Timed(NamedTuple):
    """What a call returned, its seconds on the wall clock and those of the processor (all threads together)."""

    result: Any
    seconds: float
    cpu_seconds: float


def timed(function: Callable[..., Any], *arguments: Any, **options: Any) -> Timed:
    """Call a function and time it; the two clocks differ where others use the cores."""
    begin, cpu = time.perf_counter(), time.process_time()
    result = function(*arguments, **options)
    return Timed(result, time.perf_counter() - begin, time.process_time() - cpu)


@cache
def first_call(name: str) -> float:
    """Return the seconds a method spends on its first call of this process beyond those of a second one.

    Compilation, or loading of compiled code, and imports; measured on a matrix of 24 x 24, once per process.
    """
    problem = planted(24, 0.05, 0.05, 0).problem
    first, second = (timed(METHODS[name].solve, problem, 0).seconds for _ in range(2))
    return max(first - second, 0.0)
