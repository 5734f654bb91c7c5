"""Experiment 6: subspace tracking on synthetic streams, beside GRASTA and GROUSE.

The largest principal angle to the true subspace against the number of samples: a static and a slowly rotating subspace,
complete and 25 % observed, 10 % outliers; m = 500, k = 5. Medians over seeds with the band from the lowest to the
highest. A second figure: the angle at which each tracker ends against the speed of the rotation. Usage:
python scripts/paper/streams.py [--seeds 10] [--jobs 2]

Settings. `bgsub` is `SubspaceTracker` with its defaults (atan, mu = 0.06, w = 0.05), which belong to data of full scale
1; it is given the samples times 0.2, so that the outliers reach 1. `bgsub, mu = 0.01` differs in mu alone. GRASTA has
its authors' settings for streams (multi-level adaptive step); `GRASTA, constant step` has the step of 0.01 with which
they track what has been learnt. GROUSE has the rule of its authors' code on the static streams and the greedy step,
which does not depend on the scale, on the rotating ones. It is not robust and does not claim to be: it is shown on the
same streams without outliers too.

Two things bound the tracker, both chosen by its user. On a static subspace the constant w leaves a floor, which falls
with mu (outliers near the bend of the cost still pull) and with w; GRASTA's step shrinks instead. A rotating subspace
is followed with a lag of some ``speed / (w share)`` radians, share the one observed; a lag whose residual comes near
mu looks like an outlier, and the subspace is lost. The second figure shows where: a larger mu or w moves the limit.

Start: all begin from the same random subspace, and once more from the subspace that robust PCA finds in the first 200
samples; those samples are then spent. The adaptive step of GRASTA begins with large steps and so forgets that start.
"""

from __future__ import annotations

import statistics
from functools import partial

import click
import figures
import grid
import numpy as np
import options
import timing
from stream_trackers import TRACKERS, Stream, angle, batch

KEYS = ("speed", "observed", "outliers", "start", "method", "seed")
OBSERVED = (1.0, 0.25)
OUTLIERS = 0.1
COLD = (
    *((name, OUTLIERS) for name in ("bgsub", "bgsub, mu = 0.01", "GRASTA", "GROUSE")),
    ("bgsub", 0.0),
    ("GROUSE", 0.0),
)
WARM = tuple((name, OUTLIERS) for name in ("bgsub", "bgsub, mu = 0.01", "GRASTA", "GRASTA, constant step"))
RACE = (*COLD[:3], ("GROUSE", 0.0))  # in the figure of speeds
COLOURS = {
    "bgsub": "tab:blue",
    "bgsub, mu = 0.01": "tab:cyan",
    "GRASTA": "tab:green",
    "GRASTA, constant step": "tab:olive",
    "GROUSE": "tab:orange",
}


def counts(length: int, points: int = 36) -> list[int]:
    """Return the numbers of samples at which the angle is measured."""
    return sorted({round(float(count)) for count in np.geomspace(min(10, length), length, points)})


def evaluate(task: grid.Task, *, dimension: int, rank: int, length: int, start: int) -> dict[str, float | str]:
    """Track one stream.

    Parameters
    ----------
    task : dict
        The values of `KEYS`.
    dimension, rank, length : int
        m, k and the number of samples.
    start : int
        Number of samples of the batch start.

    Returns
    -------
    dict
        ``seconds`` of processor time of the updates alone; ``angle_N`` in radians after N samples, empty within the
        batch start.
    """
    stream = Stream(dimension, rank, length, *(task[name] for name in ("speed", "observed", "outliers", "seed")))
    skipped = start if task["start"] == "batch" else 0
    tracker = TRACKERS[task["method"]](stream, batch(stream, start) if skipped else None)
    values: dict[str, float | str] = {"seconds": 0.0}
    measured = set(counts(length))
    for count, (U, x, observed) in enumerate(stream, 1):
        if count > skipped:
            values["seconds"] += timing.timed(tracker.update, x, observed).cpu_seconds
        if count in measured:
            values[f"angle_{count}"] = angle(tracker.U, U) if count >= skipped else ""
    return values


def tasks_of(speeds: list[float], seeds: range, race_seeds: range, shown: float) -> list[grid.Task]:
    """Return the tasks: all variants on the static and the shown speed, those of the second figure on all speeds."""
    found = []
    for speed in speeds:
        main = speed in (0.0, shown)
        variants = [*((*one, "random") for one in (COLD if main else RACE)), *((*one, "batch") for one in WARM if main)]
        for observed in OBSERVED:
            for method, outliers, start in variants:
                for seed in seeds if main else race_seeds:
                    found.append(dict(zip(KEYS, (speed, observed, outliers, start, method, seed), strict=True)))
    return found


class Results:
    """Angles of all tasks.

    Parameters
    ----------
    rows : list of dict
        Rows of the table.
    length : int
        Number of samples.
    """

    def __init__(self, rows: list[grid.Row], length: int) -> None:
        self.counts = counts(length)
        self._runs: dict[tuple[str, ...], list[list[float]]] = {}
        for row in rows:
            angles = [float(row[f"angle_{count}"] or "nan") for count in self.counts]
            self._runs.setdefault(tuple(row[name] for name in KEYS[:-1]), []).append(angles)

    def angles(self, speed: float, observed: float, outliers: float, start: str, method: str) -> np.ndarray:
        """Return the angles of one variant, (seeds, counts); no rows where it was not run."""
        key = (f"{speed:.6g}", f"{observed:.6g}", f"{outliers:.6g}", start, method)
        return np.array(self._runs.get(key, [])).reshape(-1, len(self.counts))

    def end(self, *variant: object) -> float:
        """Return the median over seeds of the median angle over the last third of the samples."""
        late = [i for i, count in enumerate(self.counts) if count >= 2 / 3 * self.counts[-1]]
        runs = self.angles(*variant)  # type: ignore[arg-type]
        return float(np.median(np.median(runs[:, late], axis=1))) if len(runs) else float("nan")


def draw(results: Results, shown: float) -> figures.Figure:
    """Draw the four panels."""
    figure, panels = figures.plt.subplots(2, 2, figsize=(10, 7.4), sharex=True, sharey=True)
    for row, speed in zip(panels, (0.0, shown), strict=True):
        for axes, observed in zip(row, OBSERVED, strict=True):
            for method, outliers in COLD:
                look = {"color": COLOURS[method], "ls": "-" if outliers else ":"}
                runs = results.angles(speed, observed, outliers, "random", method)
                label = method if outliers else f"{method}, no outliers"
                axes.loglog(results.counts, np.median(runs, axis=0), label=label, **look)
                axes.fill_between(
                    results.counts, runs.min(axis=0), runs.max(axis=0), color=look["color"], alpha=0.15, lw=0
                )
            for method, outliers in WARM:
                runs = results.angles(speed, observed, outliers, "batch", method)
                label = f"{method}, batch start"
                axes.loglog(results.counts, np.median(runs, axis=0), color=COLOURS[method], ls="--", label=label)
            motion = f"turning {speed:g} rad per sample" if speed else "static"
            axes.set_title(f"{motion}, {'complete' if observed == 1 else f'{observed:.0%} observed'}", size=10)
            axes.grid(alpha=0.3)
    for axes in panels[:, 0]:
        axes.set_ylabel("largest principal angle, rad")
    for axes in panels[1]:
        axes.set_xlabel("samples")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return figure


def draw_speeds(results: Results, speeds: list[float]) -> figures.Figure:
    """Draw the angle at which each tracker ends against the speed."""
    figure, panels = figures.plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axes, observed in zip(panels, OBSERVED, strict=True):
        for method, outliers in RACE:
            ends = [results.end(speed, observed, outliers, "random", method) for speed in speeds]
            label = method if outliers else f"{method}, no outliers"
            axes.loglog(speeds, ends, marker="o", ms=4, color=COLOURS[method], ls="-" if outliers else ":", label=label)
        axes.set(title="complete" if observed == 1 else f"{observed:.0%} observed", xlabel="rad per sample")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("largest principal angle at the end, rad")
    panels[0].legend(fontsize=8)
    return figure


def print_ends(results: Results, rows: list[grid.Row], shown: float) -> None:
    """Print samples until the median angle is below 0.1 and 0.01, the angle at the end, milliseconds per sample."""
    click.echo(f"{'':44s}{'< 0.1':>8s}{'< 0.01':>8s}{'end':>10s}")
    for speed in (0.0, shown):
        for observed in OBSERVED:
            for start, variants in (("random", COLD), ("batch", WARM)):
                for method, outliers in variants:
                    median = np.median(results.angles(speed, observed, outliers, start, method), axis=0)
                    reached = [
                        next((c for c, a in zip(results.counts, median, strict=True) if a < b), "-")
                        for b in (0.1, 0.01)
                    ]
                    name = f"{speed:g} {observed:g} {start} {method}" + ("" if outliers else ", no outliers")
                    end = results.end(speed, observed, outliers, start, method)
                    click.echo(f"{name:44s}{reached[0]:>8}{reached[1]:>8}{end:10.1e}")
    for method in TRACKERS:
        seconds = [float(row["seconds"]) for row in rows if row["method"] == method and row["start"] == "random"]
        if seconds:
            click.echo(f"{method:44s}{1e3 * statistics.median(seconds) / results.counts[-1]:8.3f} ms per sample")


@click.command()
@click.option("--dimension", default=500, show_default=True, type=click.IntRange(8), help="m.")
@click.option("--rank", default=5, show_default=True, type=click.IntRange(1), help="k.")
@click.option("--length", default=3000, show_default=True, type=click.IntRange(20), help="Samples.")
@click.option("--start", default=200, show_default=True, type=click.IntRange(5), help="Samples of the batch start.")
@click.option("--speed", default=2e-4, show_default=True, help="Radians per sample of the rotating subspace.")
@click.option(
    "--speeds",
    default=(5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3),
    show_default=True,
    multiple=True,
    type=float,
    help="Speeds of the second figure.",
)
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(1), help="Streams of the four panels.")
@click.option("--speed-seeds", default=3, show_default=True, type=click.IntRange(1), help="Streams per further speed.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes of one thread.")
@click.option("--resume/--fresh", default=True, show_default=True, help="Keep what the table holds, or begin anew.")
@options.out
@options.one_line_errors
def main(dimension, rank, length, start, speed, speeds, seeds, speed_seeds, seed, jobs, resume, folder) -> None:
    """Experiment 6: the angle to the true subspace against samples and against speed; table and two figures."""
    if start >= length or 2 * rank > dimension:
        raise click.UsageError("--start must be below --length, and twice --rank at most --dimension")
    moving = sorted({*speeds, speed})
    settings = {"experiment": "streams", "dimension": dimension, "rank": rank, "length": length, "batch": start}
    values = ("seconds", *(f"angle_{count}" for count in counts(length)))
    table = grid.Table(folder / "streams.csv", settings, KEYS, values)
    tasks = tasks_of([0.0, *moving], range(seed, seed + seeds), range(seed, seed + speed_seeds), speed)
    compute = partial(evaluate, dimension=dimension, rank=rank, length=length, start=start)
    rows = grid.run(table, tasks, compute, jobs=jobs, fresh=not resume)
    results = Results(rows, length)
    print_ends(results, rows, speed)
    figures.save(draw(results, speed), folder / "streams.png")
    figures.save(draw_speeds(results, moving), folder / "streams_speed.png")


if __name__ == "__main__":
    main()
