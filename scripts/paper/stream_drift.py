"""Drift of the basis: a million float32 updates of SubspaceTracker on a small m.

m = 64, k = 3, 10 % outliers, a still subspace and one that turns; the table holds how far the basis is from
orthonormal, ``max |U'U - I|``, and the largest principal angle to the truth, each the largest of a hundred measurements
up to that number of updates since the line before. Usage: python scripts/paper/stream_drift.py [--updates 1000000]
"""

from __future__ import annotations

from collections.abc import Iterator

import click
import grid
import numpy as np
import options
import timing
from stream import Stream, angle
from stream_trackers import METHODS, OURS
from tqdm import tqdm

KEYS, VALUES = ("speed", "updates"), ("orthonormality_error", "angle")
SPEEDS = (0.0, 1e-4)
LINES = 10
PER_LINE = 100


def drift(stream: Stream) -> Iterator[tuple[int, float, float]]:
    """Yield updates, error of orthonormality and angle, `LINES` times over a stream."""
    tracker, errors, angles = METHODS[OURS].make(stream), [], []
    line = max(stream.length // LINES, 1)
    for count, (truth, x, observed) in enumerate(tqdm(stream, total=stream.length, mininterval=1.0), 1):
        tracker.update(x, observed)
        if count % max(line // PER_LINE, 1) == 0:
            U = tracker.U
            errors.append(float(np.abs(U.T @ U - np.eye(U.shape[1])).max()))
            angles.append(angle(U, truth))
        if count % line == 0:
            yield count, max(errors), max(angles)
            errors, angles = [], []


@click.command()
@click.option("--dimension", default=64, show_default=True, type=click.IntRange(8), help="m.")
@click.option("--rank", default=3, show_default=True, type=click.IntRange(1), help="k.")
@click.option("--updates", default=1_000_000, show_default=True, type=click.IntRange(LINES))
@options.out
@options.one_line_errors
def main(dimension, rank, updates, folder) -> None:
    """Orthonormality and angle over many updates: a table."""
    rows = []
    with timing.threads(1):
        for speed in SPEEDS:
            for count, error, found in drift(Stream(dimension, rank, updates, speed)):
                values = {"orthonormality_error": f"{error:.2g}", "angle": f"{found:.2g}"}
                rows.append({"speed": f"{speed:g}", "updates": str(count), **values})
                click.echo(
                    "{speed:>8s} rad{updates:>9s} updates: |U'U - I| {orthonormality_error:>8s}, angle {angle}".format(
                        **rows[-1]
                    )
                )
    grid.make_folder(folder)
    settings = {"experiment": "drift", "dimension": dimension, "rank": rank}
    grid.Table(folder / "streams_drift.csv", settings, KEYS, VALUES).write(rows)


if __name__ == "__main__":
    main()
