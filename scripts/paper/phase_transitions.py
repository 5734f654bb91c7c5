"""Experiment 1: phase transitions in rank and outlier share (paper, section 6.2).

Square matrices, outlier share and k/m from 0.025 to 0.5, the true rank given (SpaRCS and GoDec: also the true number of
outliers); the paper calls a relative error of L above 0.05 a failure. Usage:
python scripts/paper/phase_transitions.py [--size 400] [--steps 20] [--seeds 1] [--jobs 2]
"""

from __future__ import annotations

import cells
import click
import figures
import options
import phase
from methods import BASELINES, PAPER, QUALITY

COLUMNS = 4  # of panels


@click.command()
@options.common((*PAPER, *QUALITY, *BASELINES))
@click.option("--steps", default=20, show_default=True, type=click.IntRange(2), help="Values on each axis.")
@click.option(
    "--observed", default=1.0, show_default=True, type=click.FloatRange(0, 1, min_open=True), help="Share observed."
)
def main(names, size, seeds, seed, steps, observed, jobs, folder, resume, redo) -> None:
    """Experiment 1 of the paper: phase transitions in rank and outlier share; table, figure, cells recovered."""
    stem = "phase_transitions" if observed == 1 else f"phase_transitions_{100 * observed:g}"
    rows = phase.compute(
        folder, stem, names, size=size, steps=steps, seed=seed, seeds=seeds, observed=observed, jobs=jobs,
        fresh=not resume, redo=redo,
    )  # fmt: skip
    cells.print_recovered(rows, names)
    panels = [(name, phase.panel(rows, name, steps)) for name in names]
    cut = [panels[i : i + COLUMNS] for i in range(0, len(panels), COLUMNS)]
    figures.save(figures.phase_figure(cut, phase.shares(steps), [""] * len(cut)), folder / f"{stem}.png")


if __name__ == "__main__":
    main()
