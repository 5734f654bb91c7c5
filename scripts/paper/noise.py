"""Experiment 4: Gaussian noise, and the run times of all methods (paper, section 6.2).

Outlier share and k/m 0.1, 10 alternations: errors of L against the signal-to-noise ratio |L| / |N| in dB. The run times
are measured afterwards in this process, one thread, methods in turns; what a first call spends more than a second one
(compiling, or loading what is compiled) is told apart. Usage:
python scripts/paper/noise.py [--size 400] [--seeds 3] [--jobs 2]
"""

from __future__ import annotations

import statistics
from functools import partial

import cells
import click
import figures
import grid
import options
import timing
from methods import BASELINES, BEST, METHODS, PACKAGED, PAPER, SHORT
from planted import planted, relative_error
from tqdm import tqdm

SHARE = 0.1  # of outliers, and k / m
KEYS = ("method", "snr", "seed", "rank_share", "outlier_share")
NAMES = (*SHORT, *BEST, *BASELINES)


def draw(rows: list[grid.Row], names: tuple[str, ...], decibels: list[float]) -> figures.Figure:
    """Draw the error of L against the signal-to-noise ratio."""
    figure, axes = figures.plt.subplots(figsize=(8, 4.6))
    found = cells.medians(rows, ("method", "snr"), "error")
    for name in names:
        axes.semilogy(decibels, [found[name, f"{snr:.6g}"] for snr in decibels], **figures.style(name))
    axes.semilogy(
        decibels,
        [10 ** (-snr / 20) for snr in decibels],
        color="0.6",
        linewidth=0.8,
        label="the noise itself",
        zorder=0,
    )
    axes.set(xlabel="signal-to-noise ratio, dB", ylabel="relative error of L")
    figure.legend(loc="outside right center", frameon=False)
    return figure


def print_errors(rows: list[grid.Row], names: tuple[str, ...], decibels: list[float]) -> None:
    """Print the median errors of L."""
    found = cells.medians(rows, ("method", "snr"), "error")
    click.echo(f"{'error of L at dB':24s}" + "".join(f"{snr:>10g}" for snr in decibels))
    for name in names:
        click.echo(f"{name:24s}" + "".join(f"{found[name, f'{snr:.6g}']:10.1e}" for snr in decibels))
    cells.print_notes(rows)


def measure_times(names: tuple[str, ...], size: int, seed: int, seeds: int) -> list[grid.Row]:
    """Return one row per method: median seconds and error without noise, and what its first call costs more."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    cpu: dict[str, list[float]] = {name: [] for name in names}
    errors: dict[str, list[float]] = {name: [] for name in names}
    with timing.threads(1):
        first = {name: timing.first_call(name) for name in names}
        for repetition in tqdm(range(seed, seed + seeds), unit="round"):
            truth = planted(size, SHARE, SHARE, repetition)
            for name in names:
                call = timing.timed(METHODS[name].solve, truth.problem, repetition)
                seconds[name].append(call.seconds)
                cpu[name].append(call.cpu_seconds)
                errors[name].append(relative_error(call.result.low_rank, truth.L))
    return [
        {
            "method": name,
            "seconds": f"{statistics.median(seconds[name]):.4g}",
            "slowest": f"{max(seconds[name]):.4g}",
            "cpu_seconds": f"{statistics.median(cpu[name]):.4g}",
            "error": f"{statistics.median(errors[name]):.3g}",
            "first_call": f"{first[name]:.3g}",
            "told": METHODS[name].needs,
        }
        for name in names
    ]


def print_times(rows: list[grid.Row]) -> None:
    """Print the table of run times."""
    titles = {
        "method": "method", "seconds": "median, s", "slowest": "slowest, s", "cpu_seconds": "CPU, s",
        "error": "error of L", "first_call": "first call +s", "told": "is told",
    }  # fmt: skip
    for row in (titles, *rows):
        click.echo("".join(str(row[name]).ljust(24 if name == "method" else 15) for name in titles).rstrip())


@click.command()
@options.common(NAMES)
@click.option("--snr", "decibels", default=tuple(range(0, 61, 10)), show_default=True, multiple=True, type=float)
@click.option(
    "--timed",
    default=",".join((*NAMES, *PAPER, *PACKAGED)),
    callback=options.methods_or_none,
    help="Methods in the table of run times.",
)
def main(names, size, seeds, seed, decibels, timed, jobs, folder, resume, redo) -> None:
    """Experiment 4 of the paper: error against noise, and the table of run times; tables and figure."""
    levels = sorted(set(map(float, decibels)))
    table = grid.Table(folder / "noise.csv", {"experiment": "noise", "size": size}, KEYS, cells.VALUES)
    tasks = [
        dict(zip(KEYS, (name, snr, repetition, SHARE, SHARE), strict=True))
        for name in names
        for repetition in range(seed, seed + seeds)
        for snr in levels
    ]
    rows = grid.run(table, tasks, partial(cells.evaluate, size=size), jobs=jobs, fresh=not resume, redo=redo)
    print_errors(rows, names, levels)
    figures.save(draw(rows, names, levels), folder / "noise.png")
    if timed:
        measured = measure_times(timed, size, seed, seeds)
        print_times(measured)
        settings = {"experiment": "run times", "size": size, "share": SHARE, "seeds": seeds, "threads": 1}
        grid.Table(folder / "run_times.csv", settings, ("method",), tuple(measured[0])[1:]).write(measured)


if __name__ == "__main__":
    main()
