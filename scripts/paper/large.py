"""A large matrix: 5000 x 5000 of rank 50 with 10 % outliers; seconds, relative error and peak memory.

One process makes the matrix and writes it to a temporary folder, another one fits it and notes its peak memory before
it looks at the truth: ``ru_maxrss`` of the whole process, and that less what the process had before the data were
loaded, in copies of the data (the data themselves are one of them). Usage:
python scripts/paper/large.py [--size 5000] [--rank 50] [--float32] [--set quality=fast]
"""

from __future__ import annotations

import ast
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import grid
import numpy as np
import options
import timing

from bgsub import RobustPCA
from bgsub.errors import OutputError, ParameterError
from bgsub.synthetic import low_rank_plus_sparse

OUTLIERS = 0.1
KEYS = ("size", "rank", "dtype", "threads", "settings", "seed")
VALUES = ("seconds", "cpu_seconds", "first_call", "error", "iterations", "peak_mib", "before_mib", "copies")
BLOCK = 500  # samples compared at a time


def peak_memory() -> float:
    """Return the peak resident memory of this process so far in MiB."""
    import resource  # noqa: PLC0415 - not on Windows

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def make(folder: str, size: int, rank: int, dtype: str, seed: int) -> None:
    """Write X.npy and L.npy, samples as rows, to `folder`."""
    X, L, _, _ = low_rank_plus_sparse(size, size, rank, OUTLIERS, seed=seed)
    np.save(Path(folder) / "X.npy", X.astype(dtype))
    np.save(Path(folder) / "L.npy", L)


def fit(folder: str, rank: int, threads: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Fit the matrix in `folder` and return the values of its row."""
    with timing.threads(threads):
        dtype = np.load(Path(folder) / "X.npy", mmap_mode="r").dtype
        small = low_rank_plus_sparse(60, 60, 2, 0.1, seed=0)[0].astype(dtype)
        first, second = (timing.timed(RobustPCA(2, **settings).fit, small).seconds for _ in range(2))
        before = peak_memory()
        X = np.load(Path(folder) / "X.npy")
        model, seconds, cpu = timing.timed(RobustPCA(rank, **settings).fit, X)
    peak = peak_memory()
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "first_call": max(first - second, 0.0),
        "error": _error(model.low_rank_, np.load(Path(folder) / "L.npy", mmap_mode="r")),
        "iterations": model.n_iter_,
        "peak_mib": peak,
        "before_mib": before,
        "copies": (peak - before) * 2**20 / X.nbytes,
    }


def _error(low_rank: np.ndarray, L: np.ndarray) -> float:
    """Return the relative error, block by block and in float64."""
    squares = np.zeros(2)
    for begin in range(0, len(L), BLOCK):
        truth = np.asarray(L[begin : begin + BLOCK])
        squares += np.sum((low_rank[begin : begin + BLOCK] - truth) ** 2), np.sum(truth**2)
    return float(np.sqrt(squares[0] / squares[1]))


def parse(settings: tuple[str, ...]) -> dict[str, Any]:
    """Return the parameters of `RobustPCA` in texts NAME=VALUE; ParameterError for another form or name."""
    parsed: dict[str, Any] = {}
    known = RobustPCA(1).get_params()
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise ParameterError(f"--set must be NAME=VALUE with a parameter of RobustPCA, got {text!r}")
        try:
            parsed[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            parsed[name] = value
    return parsed


def in_child(threads: int, function: Any, *arguments: Any) -> Any:
    """Call a function in another process with `threads` threads; OutputError if it dies."""
    with timing.threads_of_children(threads), ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise OutputError(f"the process that ran {function.__name__} has died (out of memory?)") from None


@click.command()
@click.option("--size", default=5000, show_default=True, type=click.IntRange(8), help="m = n.")
@click.option("--rank", default=50, show_default=True, type=click.IntRange(1))
@click.option("--float32", is_flag=True, help="Fit in float32.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--threads", default=2, show_default=True, type=click.IntRange(1), help="Of the BLAS and of our kernels.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of RobustPCA.")
@options.out
@options.one_line_errors
def main(size, rank, float32, seed, threads, settings, folder) -> None:
    """Fit a large matrix (no experiment of the paper); a row of large.csv is added or replaced."""
    if rank > size:
        raise ParameterError(f"rank must be at most the size {size}, got {rank}")
    parameters, dtype = parse(settings), "float32" if float32 else "float64"
    grid.make_folder(folder)
    table = grid.Table(folder / "large.csv", {"experiment": "large matrix", "outliers": OUTLIERS}, KEYS, VALUES)
    rows = table.read()
    with tempfile.TemporaryDirectory() as data:
        in_child(threads, make, data, size, rank, dtype, seed)
        values = in_child(threads, fit, data, rank, threads, parameters)
    key = (size, rank, dtype, threads, " ".join(settings) or "default", seed)
    row = grid.as_text({**dict(zip(KEYS, key, strict=True)), **values})
    table.write({**rows, table.key(row): row}.values())
    for name, value in row.items():
        click.echo(f"{name:12s}{value}")


if __name__ == "__main__":
    main()
