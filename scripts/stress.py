"""Print the stress table: F per condition for ours, MOG2 and KNN, and milliseconds per frame.

Every labelled sequence DIR (in the layout of changedetection.net) is shown under every condition, with exact masks.
Rows where nothing moves show the share of false alarms in percent. Usage:
python scripts/stress.py DIR... [--synthetic] [--background DIR[:COUNT]].
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from bgsub.errors import BgsubError
from bgsub.evaluation import Score
from bgsub.evaluation.conditions import CONDITIONS, SCENES, grid

_WIDTH = 40


def print_grid(rows: list[grid.Row], runs: list[grid.Run], jobs: int, json_path: Path | None) -> None:
    """Print a grid row by row while it is scored, then the medians of the times; write it as JSON if asked."""
    wide = max(10, *(len(run.label) + 2 for run in runs))
    click.echo(f"{'condition':{_WIDTH}s}" + "".join(f"{run.label:>{wide}s}" for run in runs))
    done: list[list[Score | None]] = []
    records = []
    start = time.perf_counter()
    for row, scores in grid.score_rows(rows, runs, jobs):
        click.echo(f"{row.label:{_WIDTH}s}" + "".join(f"{grid.cell(score):>{wide}s}" for score in scores))
        done.append(scores)
        records.append(grid.as_record(row, scores))
    times = [grid.milliseconds(column) for column in zip(*done, strict=True)]
    click.echo(f"{'ms/frame (median)':{_WIDTH}s}" + "".join(f"{value:{wide}.2f}" for value in times))
    click.echo(f"{len(rows)} rows in {time.perf_counter() - start:.0f} s", err=True)
    if json_path is not None:
        json_path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def sources(command: click.Command) -> click.Command:
    """Add the arguments that choose the rows of a grid."""
    for decorate in (
        click.argument("folders", nargs=-1, metavar="DIR..."),
        click.option("--background", "backgrounds", multiple=True, metavar="DIR[:COUNT]", help="Frames of a place."),
        click.option("--synthetic", is_flag=True, help=f"Scenes as well: {', '.join(SCENES)}."),
        click.option("--conditions", help=f"Some of {','.join(CONDITIONS)}; or none, for backgrounds only."),
        click.option("--frames", type=click.IntRange(1), help="Only the first frames of every sequence."),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
        click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes."),
        click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write JSON."),
    ):
        command = decorate(command)
    return command


def rows_of(folders, backgrounds, synthetic, conditions, frames, seed) -> list[grid.Row]:
    """Return the rows that the arguments of `sources` ask for."""
    names = list(CONDITIONS) if conditions is None else [n for n in conditions.split(",") if n not in ("", "none")]
    scenes = list(SCENES) if synthetic else []
    rows = grid.grid_rows(folders, backgrounds, conditions=names, scenes=scenes, frames=frames, seed=seed)
    if not rows:
        raise click.UsageError("nothing to score: name a folder or give --synthetic")
    return rows


@click.command()
@sources
@click.option("--methods", default="bgsub,mog2,knn", show_default=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of ours.")
def main(methods, settings, jobs, json_path, **chosen) -> None:
    """Print F per condition for several methods."""
    try:
        print_grid(rows_of(**chosen), grid.parse_methods(methods, grid.parse_settings(settings)), jobs, json_path)
    except BgsubError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
