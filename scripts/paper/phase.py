"""Phase diagrams over rank and outlier share: their tasks, table and panels."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import cells
import numpy as np
from grid import Row, Table, Task, run
from methods import METHODS

from bgsub.errors import ParameterError

FIRST, LAST = 0.025, 0.5
KEYS = ("method", "outlier_share", "rank_share", "seed")


def shares(steps: int) -> np.ndarray:
    """Return the values of both axes, 0.025 to 0.5, (steps,)."""
    return np.linspace(FIRST, LAST, steps).round(6)


def compute(
    folder: Path, stem: str, names: tuple[str, ...], *, size: int, steps: int, seed: int, seeds: int, observed: float,
    jobs: int, fresh: bool, redo: tuple[str, ...],
) -> list[Row]:  # fmt: skip
    """Compute a phase diagram for each method; return its rows, method by method.

    Raises
    ------
    ParameterError
        If entries are missing and a method does not take that.
    SourceError, SinkError
        As `grid.run`.
    """
    if observed < 1 and (unable := [name for name in names if not METHODS[name].masks]):
        raise ParameterError(f"methods must take missing entries with --observed {observed:g}, got {unable[0]}")
    settings = {"experiment": "phase transitions", "size": size, "steps": steps, "observed": observed}
    table = Table(folder / f"{stem}.csv", settings, KEYS, cells.VALUES)
    axis = shares(steps)
    tasks: list[Task] = [
        dict(zip(KEYS, (name, float(outliers), float(rank), repetition), strict=True))
        for name in names
        for repetition in range(seed, seed + seeds)
        for rank in axis
        for outliers in axis
    ]
    evaluate = partial(cells.evaluate, size=size, observed=observed)
    return run(table, tasks, evaluate, jobs=jobs, fresh=fresh, redo=redo)


def panel(rows: list[Row], name: str, steps: int) -> np.ndarray:
    """Return the errors of L of one method, (steps, steps): rows k/m, columns outlier share; medians over seeds."""
    found = cells.medians(rows, ("method", "rank_share", "outlier_share"), "error")
    texts = [f"{value:.6g}" for value in shares(steps)]
    return np.array([[found.get((name, rank, outliers), np.nan) for outliers in texts] for rank in texts])
