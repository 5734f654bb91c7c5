"""One cell of an experiment: a planted problem, a method, its errors and its seconds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

import click
import timing
from grid import Row, Task
from methods import METHODS
from planted import RECOVERED, planted, relative_error

VALUES = ("error", "sparse_error", "seconds", "cpu_seconds", "note")


def evaluate(task: Task, *, size: int, observed: float = 1.0) -> dict[str, Any]:
    """Solve one cell.

    Parameters
    ----------
    task : dict
        ``method``, ``seed``, ``rank_share``, ``outlier_share``, and where they vary ``bound`` and ``snr``.
    size : int
        m = n.
    observed : float
        Share of the entries that are observed.

    Returns
    -------
    dict
        ``error`` and ``sparse_error``: relative errors of L and (on observed entries) of S, inf where a method gave
        numbers that are not finite or raised; ``seconds`` of the wall clock, ``cpu_seconds``; ``note``: what it raised.
    """
    truth = planted(
        size,
        task["rank_share"],
        task["outlier_share"],
        task["seed"],
        observed_share=observed,
        snr_db=task.get("snr", float("inf")),
        bound=task.get("bound"),
    )
    timing.first_call(task["method"])
    try:
        result, seconds, cpu = timing.timed(METHODS[task["method"]].solve, truth.problem, task["seed"])
    except (ArithmeticError, ValueError, RuntimeError) as error:  # diverged: a failure of the method, not of the run
        note = f"{type(error).__name__}: {error}".splitlines()[0]
        nothing = {"seconds": float("nan"), "cpu_seconds": float("nan")}
        return {"error": float("inf"), "sparse_error": float("inf"), **nothing, "note": note}
    S = truth.S if truth.problem.observed is None else truth.S * truth.problem.observed
    return {
        "error": relative_error(result.low_rank, truth.L),
        "sparse_error": relative_error(result.sparse, S),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "note": "",
    }


def medians(rows: Iterable[Row], keys: tuple[str, ...], value: str) -> dict[tuple[str, ...], float]:
    """Return the median over seeds of one column, by the values of other columns as they are written."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(float(row[value]))
    return {key: statistics.median(values) for key, values in groups.items()}


def print_recovered(rows: list[Row], names: Iterable[str]) -> None:
    """Print per method the number of recovered cells (median over seeds), its CPU seconds, and the errors raised."""
    errors = medians(rows, ("method", "outlier_share", "rank_share"), "error")
    click.echo(f"{'method':24s}{'recovered':>14s}{'median CPU s':>14s}{'all CPU s':>12s}")
    for name in names:
        own = [error for key, error in errors.items() if key[0] == name]
        seconds = [float(row["cpu_seconds"]) for row in rows if row["method"] == name and not row["note"]]
        count = sum(error < RECOVERED for error in own)
        spent = f"{statistics.median(seconds):14.3g}{sum(seconds):12.4g}" if seconds else f"{'-':>14s}{'-':>12s}"
        click.echo(f"{name:24s}{count:6d} of {len(own):4d}{spent}")
    print_notes(rows)


def print_notes(rows: list[Row]) -> None:
    """Print which methods raised, how often and the first message of each."""
    for name in dict.fromkeys(row["method"] for row in rows if row["note"]):
        notes = [row["note"] for row in rows if row["method"] == name and row["note"]]
        click.echo(f"{name} raised in {len(notes)} cells: {notes[0]}")
