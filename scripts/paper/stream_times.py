"""Processor time per sample of the trackers of experiment 6, in turns on the same stream.

A still subspace of m = 20,000 and rank 5, 10 and 30, 10 % outliers, complete and 25 % observed, one thread. The
trackers take a few samples each in turns, so that what else the machine does concerns all alike; the first half of the
rounds does not count. What a tracker's first sample takes, in which compiled code is made or loaded, stands apart.
Usage: python scripts/paper/stream_times.py [--methods "bgsub,GRASTA"] [--rounds 20]
"""

from __future__ import annotations

import statistics
from itertools import islice

import click
import grid
import options
import timing
from stream import Stream
from stream_questions import SHARES
from stream_trackers import COMPARED, METHODS, OURS, START
from streams import names_of
from tqdm import tqdm

KEYS, VALUES = ("rank", "observed", "method"), ("ms", "lowest_ms", "highest_ms", "ratio", "first_s")
ENTERED = tuple(name for name, method in COMPARED.items() if not method.clean)


def times(
    stream: Stream, names: tuple[str, ...], rounds: int, each: int
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Return the seconds of the first sample on the wall clock, and the processor time per sample of every round.

    Parameters
    ----------
    stream : Stream
        What all are given.
    names : tuple of str
        Methods.
    rounds, each : int
        Turns of every tracker, and samples per turn.
    """
    trackers = {name: METHODS[name].make(stream) for name in names if METHODS[name].takes(stream)}
    samples = ((x, observed) for _, x, observed in stream)
    x, observed = next(samples)
    first = {name: timing.timed(tracker.update, x, observed).seconds for name, tracker in trackers.items()}
    found: dict[str, list[float]] = {name: [] for name in trackers}
    for taken in (list(islice(samples, each)) for _ in range(rounds)):
        for name, tracker in trackers.items():
            spent = [timing.timed(tracker.update, x, observed).cpu_seconds for x, observed in taken]
            found[name].append(statistics.fmean(spent))
    return first, {name: spent[len(spent) // 2 :] for name, spent in found.items()}


def rows_of(stream: Stream, names: tuple[str, ...], rounds: int, each: int) -> list[grid.Row]:
    """Return one row per method; ``ratio``: to the time of bgsub."""
    first, found = times(stream, names, rounds, each)
    middle = {name: 1e3 * statistics.median(spent) for name, spent in found.items()}
    return [
        {
            "rank": str(stream.rank),
            "observed": f"{stream.observed:g}",
            "method": name,
            "ms": f"{middle[name]:.3g}",
            "lowest_ms": f"{1e3 * min(spent):.3g}",
            "highest_ms": f"{1e3 * max(spent):.3g}",
            "ratio": f"{middle[name] / middle.get(OURS, float('nan')):.3g}",
            "first_s": f"{first[name]:.2g}",
        }
        for name, spent in found.items()
    ]


@click.command()
@click.option("--dimension", default=20_000, show_default=True, type=click.IntRange(8), help="m.")
@click.option("--ranks", default=(5, 10, 30), show_default=True, multiple=True, type=click.IntRange(1), help="k.")
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(2), help="Turns of every tracker.")
@click.option("--each", default=10, show_default=True, type=click.IntRange(1), help="Samples per turn.")
@click.option("--methods", "names", default=",".join(ENTERED), show_default=True, callback=names_of(METHODS))
@options.out
@options.one_line_errors
def main(dimension, ranks, rounds, each, names, folder) -> None:
    """Time per sample beside other trackers: a table."""
    rows = []
    with timing.threads(1):
        for rank in tqdm(ranks, unit="rank"):
            for observed in SHARES.values():
                stream = Stream(dimension, rank, max(5 * START, 1 + rounds * each), observed=observed)
                rows += rows_of(stream, names, rounds, each)
    for row in rows:
        click.echo("k = {rank:>3s}, {observed:>4s} observed, {method:24s}{ms:>8s} ms{ratio:>8s} x bgsub".format(**row))
    grid.make_folder(folder)
    settings = {"experiment": "times of trackers", "dimension": dimension, "rounds": rounds, "each": each}
    grid.Table(folder / "streams_times.csv", settings, KEYS, VALUES).write(rows)


if __name__ == "__main__":
    main()
