"""Experiment 2: a bound on the rank above the true one (paper, section 6.2).

Outlier share 0.2, k/m = 0.2 (k = 80 at m = 400); methods are told a rank from 0.75 to 2 times the true one. Usage:
python scripts/paper/rank_bound.py [--size 400] [--points 11] [--seeds 3] [--jobs 2]
"""

from __future__ import annotations

from functools import partial

import cells
import click
import figures
import numpy as np
import options
from grid import Row, Table, run
from methods import BEST, PAPER
from planted import RECOVERED, rank_of

SHARE = 0.2  # of outliers, and k / m
KEYS = ("method", "bound", "seed", "rank_share", "outlier_share")
NAMES = (*PAPER, *BEST, "SpaRCS", "GRASTA", "GoDec", "AccAltProj (patient)")


def bounds(size: int, points: int) -> list[int]:
    """Return the bounds, from 0.75 to 2 times the true rank, and the true rank itself."""
    rank = rank_of(size, SHARE)
    return sorted({max(round(bound), 1) for bound in np.linspace(0.75 * rank, 2 * rank, points)} | {rank})


def draw(rows: list[Row], names: tuple[str, ...], told: list[int], rank: int) -> figures.Figure:
    """Draw the errors of L and of S against the bound."""
    figure, both = figures.plt.subplots(1, 2, figsize=(10, 4.4), sharex=True, sharey=True)
    for axes, value, part in zip(both, ("error", "sparse_error"), "LS", strict=True):
        found = cells.medians(rows, ("method", "bound"), value)
        for name in names:
            axes.semilogy(told, [found[name, str(bound)] for bound in told], **figures.style(name))
        axes.axvline(rank, color="0.5", linewidth=0.8, zorder=0)
        axes.axhline(RECOVERED, color="tab:red", linewidth=0.8, zorder=0)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set(xlabel=f"bound on the rank (true rank {rank})", ylabel=f"relative error of {part}")
    figure.legend(*both[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


def report(rows: list[Row], names: tuple[str, ...], told: list[int]) -> None:
    """Print the errors of L and S per method and bound."""
    for value, part in (("error", "L"), ("sparse_error", "S")):
        found = cells.medians(rows, ("method", "bound"), value)
        click.echo(f"error of {part} at bound".ljust(24) + "".join(f"{bound:>9d}" for bound in told))
        for name in names:
            click.echo(f"{name:24s}" + "".join(f"{found[name, str(bound)]:9.1e}" for bound in told))
    cells.print_notes(rows)


@click.command()
@options.common(NAMES)
@click.option("--points", default=11, show_default=True, type=click.IntRange(2), help="Bounds that are tried.")
def main(names, size, seeds, seed, points, jobs, folder, resume, redo) -> None:
    """Experiment 2 of the paper: over-estimated rank; table and figure of the errors of L and S."""
    told, rank = bounds(size, points), rank_of(size, SHARE)
    table = Table(
        folder / "rank_bound.csv", {"experiment": "bound on the rank", "size": size, "rank": rank}, KEYS, cells.VALUES
    )
    tasks = [
        dict(zip(KEYS, (name, bound, repetition, SHARE, SHARE), strict=True))
        for name in names
        for repetition in range(seed, seed + seeds)
        for bound in told
    ]
    rows = run(table, tasks, partial(cells.evaluate, size=size), jobs=jobs, fresh=not resume, redo=redo)
    report(rows, names, told)
    figures.save(draw(rows, names, told, rank), folder / "rank_bound.png")


if __name__ == "__main__":
    main()
