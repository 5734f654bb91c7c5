"""Seconds until the relative error of L is below 1e-6: m = n = 400, rank 20, 10 % outliers.

All methods run in one process, in turns, with the same number of threads. Baselines run with their own settings but
beyond their own tolerance; a callback records the error after each iteration, and the time of recording is subtracted.
`bgsub.RobustPCA` runs whole fits with several tolerances, a row for each; their total time counts, from the start SVD
to the attributes. Ratios are to the fastest of these fits whose median error is below the goal. Packages run as whole
fits too, with their own tolerance. Kernels are compiled before. The table also has the error floors. Usage:
python scripts/paper/race.py [--size 400] [--rank 20] [--rounds 5] [--threads 1]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import click
import figures
import grid
import numpy as np
import options
import timing
from methods import METHODS, PACKAGED, QUALITIES, robust_pca
from planted import Planted, planted, relative_error
from tqdm import tqdm

OUTLIERS = 0.1
NEVER = 1e-12  # a tolerance that no baseline reaches before the goal
TOLERANCES = (1e-4, 1e-5, 1e-6, 5e-7, 1e-7, 1e-9, 1e-11)
OURS = "log"
PAST_GOAL = 1e-2  # curves continue to this share of the goal
TELLING = ("IALM", "AccAltProj", "EALM")  # with a callback and a tolerance
RIVALS = (*TELLING, *PACKAGED)
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
Clock = Callable[[], float]


@dataclass
class Curve:
    """Errors of one method against seconds, one list per round."""

    seconds: list[list[float]] = field(default_factory=list)
    errors: list[list[float]] = field(default_factory=list)

    def add(self, seconds: list[float], errors: list[float]) -> None:
        """Add one round."""
        self.seconds.append(seconds)
        self.errors.append(errors)

    def until(self, goal: float) -> float:
        """Return the median over rounds of the seconds until the error is below `goal`; inf if it never is."""
        first = [
            next((second for second, error in zip(*curve, strict=True) if error < goal), float("inf"))
            for curve in zip(self.seconds, self.errors, strict=True)
        ]
        return statistics.median(first)

    @property
    def floor(self) -> float:
        """Median over rounds of the smallest error."""
        return statistics.median(map(min, self.errors))


def whole(truth: Planted, goal: float, clock: Clock, *, solve: Callable) -> tuple[list[float], list[float]]:
    """Return total seconds and error of a method that reports no intermediate results."""
    begin = clock()
    result = solve(truth.problem, 0)
    seconds = clock() - begin
    return [seconds], [relative_error(result.low_rank, truth.L)]


def iterations(truth: Planted, goal: float, clock: Clock, *, solve: Callable) -> tuple[list[float], list[float]]:
    """Return seconds and error after each iteration of a baseline, to far below the goal or its own end."""
    seconds: list[float] = []
    errors: list[float] = []
    begin, noting = clock(), 0.0

    def note(low_rank: np.ndarray) -> bool:
        nonlocal noting
        now = clock()
        seconds.append(now - begin - noting)
        errors.append(relative_error(low_rank, truth.L))
        noting += clock() - now
        return errors[-1] < PAST_GOAL * goal

    solve(truth.problem, 0, callback=note, tolerance=NEVER)
    return seconds, errors


def contestants(names: tuple[str, ...]) -> dict[str, Callable]:
    """Return the runs by name: fits of `RobustPCA` by their setting, and baselines."""
    ours = {
        f"{OURS} {quality}, tolerance {tolerance:.0e}": partial(
            whole, solve=partial(robust_pca, quality=quality, tolerance=tolerance)
        )
        for quality in QUALITIES
        for tolerance in TOLERANCES
    }
    return ours | {name: partial(_way(name), solve=METHODS[name].solve) for name in names}


def _way(name: str) -> Callable:
    return iterations if name in TELLING else whole


def run(
    entered: dict[str, Callable], size: int, rank: int, seed: int, rounds: int, goal: float, clock: Clock
) -> dict[str, Curve]:
    """Run all in turns, `rounds` times, each round on another matrix; return their curves."""
    curves = {name: Curve() for name in entered}
    small = planted(24, 0.05, 0.05, 0)
    for solve in entered.values():
        solve(small, goal, clock)  # compiles
    for repetition in tqdm(range(seed, seed + rounds), unit="round"):
        truth = planted(size, rank / size, OUTLIERS, repetition)
        for name, solve in entered.items():
            curves[name].add(*solve(truth, goal, clock))
    return curves


def table(curves: dict[str, Curve], goal: float) -> list[grid.Row]:
    """Return one row per method: seconds to the goal, their ratio to those of the fastest fit of ours, error floor."""
    until = {name: curve.until(goal) for name, curve in curves.items()}
    ours = min((seconds for name, seconds in until.items() if name.startswith(OURS)), default=float("inf"))
    return [
        {
            "method": name,
            "seconds": f"{until[name]:.4g}",
            "ratio": f"{until[name] / ours:.3g}",
            "total_seconds": f"{statistics.median(seconds[-1] for seconds in curve.seconds):.4g}",
            "floor": f"{curve.floor:.2e}",
        }
        for name, curve in curves.items()
    ]


def draw(curves: dict[str, Curve], goal: float, unit: str) -> figures.Figure:
    """Draw error against seconds: all rounds of the baselines; one curve through the fits of each setting of ours."""
    figure, axes = figures.plt.subplots(figsize=(8, 4.6))
    settings = list(dict.fromkeys(name.rpartition(", ")[0] for name in curves if name.startswith(OURS)))
    for i, setting in enumerate(settings):
        own = [curve for name, curve in curves.items() if name.startswith(f"{setting}, ")]
        points = [(fit.until(np.inf), fit.floor) for fit in own]
        axes.loglog(
            *zip(*points, strict=True),
            marker="^o*sdvP"[i % 7],
            color=figures.COLOURS[OURS],
            alpha=1 - 0.25 * i,
            label=setting,
        )
    for name, curve in curves.items():
        if name.startswith(OURS):
            continue
        look = figures.style(name) | {"marker": ".", "linewidth": 0.8}
        for seconds, errors in zip(curve.seconds, curve.errors, strict=True):
            axes.loglog(seconds, errors, **look)
            look["label"] = None
    axes.axhline(goal, color="0.6", linewidth=0.8, zorder=0)
    axes.set(xlabel=unit, ylabel="relative error of L")
    figure.legend(loc="outside right center", frameon=False)
    return figure


@click.command()
@click.option("--size", default=400, show_default=True, type=click.IntRange(8), help="m = n.")
@click.option("--rank", default=20, show_default=True, type=click.IntRange(1))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Rounds, each on another matrix.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the first matrix.")
@click.option("--goal", default=1e-6, show_default=True, type=click.FloatRange(0, 1, min_open=True))
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1), help="Of the BLAS and of our kernels.")
@click.option("--clock", default="wall", show_default=True, type=click.Choice(list(CLOCKS)), help="CPU: on busy cores.")
@click.option("--rivals", default=",".join(RIVALS), show_default=True, callback=options.methods_or_none)
@options.out
@options.one_line_errors
def main(size, rank, rounds, seed, goal, threads, clock, rivals, folder) -> None:
    """Time to a relative error of 1e-6 (no experiment of the paper): table and figure."""
    with timing.threads(threads):
        curves = run(contestants(rivals), size, rank, seed, rounds, goal, CLOCKS[clock])
    rows = table(curves, goal)
    click.echo(f"{'method':36s}{'s to goal':>10s}{'ratio':>8s}{'total s':>10s}{'error floor':>13s}")
    for row in rows:
        click.echo("{method:36s}{seconds:>10s}{ratio:>8s}{total_seconds:>10s}{floor:>13s}".format(**row))
    settings = {
        "experiment": "race",
        "size": size,
        "rank": rank,
        "goal": goal,
        "rounds": rounds,
        "threads": threads,
        "clock": clock,
    }
    grid.make_folder(folder)
    grid.Table(folder / "race.csv", settings, ("method",), tuple(rows[0])[1:]).write(rows)
    figures.save(draw(curves, goal, "seconds" if clock == "wall" else "CPU seconds"), folder / "race.png")


if __name__ == "__main__":
    main()
