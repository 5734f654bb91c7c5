"""Experiment 3: phase transitions from a part of the entries (paper, section 6.2).

As experiment 1, with 80 % and 50 % of the entries observed, for the methods that take missing entries. Usage:
python scripts/paper/incomplete.py [--size 400] [--steps 20] [--observed 0.8 --observed 0.5] [--jobs 2]
"""

from __future__ import annotations

import cells
import click
import figures
import options
import phase
from methods import BEST, PAPER


@click.command()
@options.common((*PAPER, *BEST, "SpaRCS", "GRASTA"))
@click.option("--steps", default=20, show_default=True, type=click.IntRange(2), help="Values on each axis.")
@click.option(
    "--observed", "observed_shares", default=(0.8, 0.5), show_default=True, multiple=True,
    type=click.FloatRange(0, 1, min_open=True), help="Share of the entries that are observed; may be repeated.",
)  # fmt: skip
def main(names, size, seeds, seed, steps, observed_shares, jobs, folder, resume, redo) -> None:
    """Experiment 3 of the paper: phase transitions from incomplete observations; tables, figure, cells recovered."""
    panels, titles = [], []
    for observed in observed_shares:
        rows = phase.compute(
            folder, f"incomplete_{100 * observed:g}", names, size=size, steps=steps, seed=seed, seeds=seeds,
            observed=observed, jobs=jobs, fresh=not resume, redo=redo,
        )  # fmt: skip
        titles.append(f"{observed:.0%} observed")
        click.echo(titles[-1])
        cells.print_recovered(rows, names)
        panels.append([(name, phase.panel(rows, name, steps)) for name in names])
    figures.save(figures.phase_figure(panels, phase.shares(steps), titles), folder / "incomplete.png")


if __name__ == "__main__":
    main()
