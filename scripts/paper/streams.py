"""Experiment 6: subspace tracking on synthetic streams, beside other trackers.

The largest principal angle to the true subspace, for eight questions:

(a) how fast the subspace turns, complete and 25 % observed; (b) outliers; (c) observed share; (d) noise; (e) an object
that covers a block of entries and moves, beside scattered outliers; (f) a subspace that changes at once; (g) a large m;
(h) a rank that changes. (b) to (e) on a still subspace and on one that turns 1e-3 rad per sample; what is not varied
is m = 500, k = 5, 60 dB, 10 % outliers, complete.

Written are `streams.csv`, one row per stream and method; one figure per question, medians over seeds with bands from
the lowest to the highest; and `streams_table.md`: the end angle (median over the last third of the samples, then over
seeds) of every cell, its ratio to that of the best robust rival, of the settings of earlier versions and of GROUSE
without outliers. Cells where bgsub misses a bar are printed. Methods: `stream_trackers.py`. Usage:
python scripts/paper/streams.py [--questions a,b] [--methods "bgsub,GRASTA"] [--again bgsub] [--seeds 10] [--jobs 2]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import isnan
from pathlib import Path

import click
import figures
import grid
import options
import stream_figures
import stream_questions
import stream_summary
from stream import Stream
from stream_questions import KEYS, Question
from stream_results import VALUES, Results, evaluate
from stream_trackers import METHODS

from bgsub.storage.durable_io import write_whole


def names_of(known: Iterable[str]) -> Callable[..., tuple[str, ...]]:
    """Return a click callback that splits a list at its commas and refuses unknown names."""

    def callback(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
        names = tuple(word.strip() for word in text.split(",") if word.strip())
        for name in names:
            if name not in known:
                raise click.BadParameter(f"must be some of {', '.join(known)}, separated by commas, got {name!r}")
        return names

    return callback


@click.command()
@click.option(
    "--questions",
    "letters",
    default="a,b,c,d,e,f,g,h",
    show_default=True,
    callback=names_of(tuple("abcdefgh")),
    help="Which, with commas.",
)
@click.option(
    "--methods", "names", default=",".join(METHODS), show_default=True, callback=names_of(METHODS), help="Run these."
)
@click.option("--again", default="", callback=names_of(METHODS), help="Methods to compute again.")
@click.option("--dimension", default=500, show_default=True, type=click.IntRange(8), help="m.")
@click.option("--rank", default=5, show_default=True, type=click.IntRange(1), help="k.")
@click.option("--length", default=3000, show_default=True, type=click.IntRange(20), help="Samples.")
@click.option("--large-dimension", default=20_000, show_default=True, type=click.IntRange(8), help="m of (g).")
@click.option("--large-length", default=1000, show_default=True, type=click.IntRange(20), help="Samples of (g).")
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(1), help="Streams per cell.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--tolerance", default=0.0, show_default=True, type=click.FloatRange(0), help="Share above a bar.")
@click.option("--check", is_flag=True, help="Exit with 1 if a bar is missed.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes of one thread.")
@click.option("--resume/--fresh", default=True, show_default=True, help="Continue the table, or begin again.")
@options.out
@options.one_line_errors
def main(letters, names, again, seeds, seed, tolerance, check, jobs, resume, folder, **sizes) -> None:
    """Experiment 6: the angle to the true subspace for eight questions; tables and figures."""
    base = Stream(sizes["dimension"], sizes["rank"], sizes["length"])
    large = Stream(sizes["large_dimension"], sizes["rank"], sizes["large_length"])
    if 4 * base.rank > min(base.dimension, large.dimension):
        raise click.UsageError("four times --rank must be at most the dimensions")
    known = stream_questions.questions(base, large)
    asked = {letter: known[letter] for letter in letters}
    tasks = stream_questions.tasks_of(asked.values(), range(seed, seed + seeds))
    table = grid.Table(folder / "streams.csv", {"experiment": "streams"}, KEYS, VALUES)
    compute = partial(evaluate, shown=stream_questions.shown_cells(base, large))
    ours = [task for task in tasks if task["method"] in names]
    grid.run(table, ours, compute, jobs=jobs, fresh=not resume, redo=again)
    held = table.read()
    rows = [held[key] for key in map(table.key, tasks) if key in held]
    echo_runs(rows, tasks)
    results = Results(rows)
    save_figures(asked, base, results, folder)
    lines = stream_summary.lines(asked, results)
    write_whole(folder / "streams_table.md", stream_summary.as_markdown(lines, tolerance).encode())
    missed = list(stream_summary.verdict(lines, tolerance))
    cells = len({line.cell for line in lines})
    click.echo(f"a bar is missed by more than {tolerance:.0%} in {len(missed)} of {cells} cells")
    click.echo("\n".join(missed), nl=bool(missed))
    if check and missed:
        raise SystemExit(1)


def save_figures(asked: dict[str, Question], base: Stream, results: Results, folder: Path) -> None:
    """Draw each question, and with (a) those of its cells that are shown against the number of samples."""
    shown = [stream_questions.base_question(base)] if "a" in asked else []
    for question in (*shown, *asked.values()):
        figures.save(stream_figures.draw(question, results), folder / f"{question.name}.png")


def echo_runs(rows: list[grid.Row], tasks: list[grid.Task]) -> None:
    """Print how many streams are not in the table, what methods raised, and their processor time per sample."""
    if len(rows) < len(tasks):
        click.echo(f"{len(tasks) - len(rows)} of {len(tasks)} streams have not been run")
    for row in rows:
        if row["note"]:
            click.echo(f"{row['method']} raised on {stream_questions.stream_of(row)}: {row['note']}")
    results = Results(rows)
    for dimension in sorted({int(row["dimension"]) for row in rows}):
        for name in METHODS:
            spent = results.milliseconds(name, dimension)
            if not isnan(spent):
                click.echo(f"m = {dimension:6d} {name:24s}{spent:9.3f} ms per sample")


if __name__ == "__main__":
    main()
