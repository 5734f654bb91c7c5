"""Print the stress table: F per condition for bgsub, MOG2 and KNN, and milliseconds per frame.

Each labelled sequence DIR (in the layout of changedetection.net) is scored under each condition, with exact masks.
Rows without moving objects show the false positive rate in percent. Usage:
python scripts/stress.py DIR... [--synthetic] [--background DIR[:COUNT]].
"""

from __future__ import annotations

import ast
import json
import math
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from conditions import CONDITIONS, EVERY, SCENES, Recording, derive, synthetic, transplant

from bgsub.errors import BgsubError, ParameterError, SourceError
from bgsub.evaluation import METHODS, Method, Score, Sequence, evaluate, make_method
from bgsub.parameters import SUBTRACTOR
from bgsub.subtractor.subtractor import BackgroundSubtractor

_WIDTH = 40


@dataclass(frozen=True)
class Run:
    """One column of the table: a method, and the parameters of `BackgroundSubtractor`."""

    label: str
    method: str = "bgsub"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def make(self, every: int = 1) -> Method:
        """Return a fresh method; bgsub gets the lower frame rate where frames are skipped."""
        if self.method != "bgsub":
            return make_method(self.method)
        return BackgroundSubtractor(**{"fps": SUBTRACTOR["fps"].default / every, **self.settings})


@dataclass(frozen=True)
class Row:
    """One row of the table, by names only, so that another process can make it."""

    label: str
    condition: str = "unchanged"  # a name of CONDITIONS, or of SCENES where there is no folder
    folder: str | None = None
    background: tuple[str, int | None] | None = None  # folder of empty frames, and how many of them
    frames: int | None = None  # by default all, 500 of a scene
    seed: int = 0

    def make(self) -> Recording:
        """Return the labelled sequence, in memory."""
        if self.folder is None:
            return Recording(synthetic(self.condition, self.frames or 500, self.seed))
        sequence: Any = _recorded(self.folder, self.frames)
        if self.background is not None:
            sequence = transplant(sequence, *self.background)
        return Recording(derive(sequence, self.condition, self.seed))


@lru_cache(maxsize=1)
def _recorded(folder: str, frames: int | None) -> Recording:
    return Recording(Sequence(folder), frames)


def score_rows(rows: Iterable[Row], runs: Iterable[Run], jobs: int = 1) -> Iterator[tuple[Row, list[Score | None]]]:
    """Yield each row with its scores; a score is None for OpenCV's methods on 16-bit frames, which they do not take."""
    work = partial(_score_row, runs=list(runs))
    rows = list(rows)
    # Compiled kernels and OpenCV's threads do not survive a fork.
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) if jobs > 1 else nullcontext(None)
    with pool as workers:
        results = workers.map(work, rows) if workers is not None else map(work, rows)
        yield from zip(rows, results, strict=True)


def _score_row(row: Row, runs: list[Run]) -> list[Score | None]:
    sequence = row.make()
    if all(sequence.truth(number) is None for number, _ in sequence.frames()):
        raise SourceError(f"none of the first {len(sequence)} frames of {row.label} is scored; use more frames")
    is_deep = next(sequence.frames())[1].dtype != np.uint8
    every = 1 if row.folder is None else EVERY.get(row.condition, 1)
    return [
        None if is_deep and run.method != "bgsub" else evaluate(sequence, run.make(every), name=run.label, online=True)
        for run in runs
    ]


def parse_settings(words: Iterable[str]) -> dict[str, Any]:
    """Return the settings in words such as ``rank=3``; none, true and false in any case, other words are strings."""
    settings: dict[str, Any] = {}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals or not name:
            raise ParameterError(f"setting must be name=value, got {word!r}")
        try:
            settings[name] = ast.literal_eval(value.title() if value.lower() in ("none", "true", "false") else value)
        except (ValueError, SyntaxError):
            settings[name] = value
    return settings


def cell(score: Score | None) -> str:
    """Return F, or without moving objects the false positive rate in percent."""
    if score is None:
        return "-"
    counts = score.confusion
    return f"{counts.f_measure:.3f}" if counts.tp + counts.fn else f"{100 * counts.fpr:.2f}%"


def as_record(row: Row, scores: Iterable[Score | None]) -> dict[str, Any]:
    """Return a row for JSON."""
    columns = {
        score.method: {
            "f_measure": None if math.isnan(score.confusion.f_measure) else score.confusion.f_measure,
            "fpr": None if math.isnan(score.confusion.fpr) else score.confusion.fpr,
            "milliseconds": score.milliseconds,
            "frames": score.frames,
        }
        for score in scores
        if score is not None
    }
    return {"row": row.label, "columns": columns}


def print_grid(rows: list[Row], runs: list[Run], jobs: int, json_path: Path | None) -> None:
    """Print the table row by row, then the median times; optionally write JSON."""
    wide = max(10, *(len(run.label) + 2 for run in runs))
    click.echo(f"{'condition':{_WIDTH}s}" + "".join(f"{run.label:>{wide}s}" for run in runs))
    done: list[list[Score | None]] = []
    records = []
    start = time.perf_counter()
    for row, scores in score_rows(rows, runs, jobs):
        click.echo(f"{row.label:{_WIDTH}s}" + "".join(f"{cell(score):>{wide}s}" for score in scores))
        done.append(scores)
        records.append(as_record(row, scores))
    times = [[score.milliseconds for score in column if score] for column in zip(*done, strict=True)]
    medians = [median(column) if column else math.nan for column in times]
    click.echo(f"{'ms/frame (median)':{_WIDTH}s}" + "".join(f"{value:{wide}.2f}" for value in medians))
    click.echo(f"{len(rows)} rows in {time.perf_counter() - start:.0f} s", err=True)
    if json_path is not None:
        json_path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def sources(command: click.Command) -> click.Command:
    """Add the arguments that choose the rows."""
    for decorate in (
        click.argument("folders", nargs=-1, metavar="DIR..."),
        click.option("--background", "backgrounds", multiple=True, metavar="DIR[:COUNT]", help="Empty frames."),
        click.option("--synthetic", "with_scenes", is_flag=True, help=f"Also score {', '.join(SCENES)}."),
        click.option("--conditions", help=f"Some of {','.join(CONDITIONS)}; or none, for backgrounds only."),
        click.option("--frames", type=click.IntRange(1), help="Only the first frames of each sequence."),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
        click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes."),
        click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write JSON."),
    ):
        command = decorate(command)
    return command


def rows_of(folders, backgrounds, with_scenes, conditions, frames, seed) -> list[Row]:
    """Return the rows that the arguments of `sources` choose."""
    names = list(CONDITIONS) if conditions is None else [n for n in conditions.split(",") if n not in ("", "none")]
    for name in names:
        if name not in CONDITIONS:
            raise ParameterError(f"condition must be one of {', '.join(CONDITIONS)}, got {name!r}")
    common = {"frames": frames, "seed": seed}
    rows = []
    for folder in map(str, folders):
        title = Path(folder).resolve().name
        rows += [Row(f"{title} {condition}", condition, folder, **common) for condition in names]
        for text in backgrounds:
            place, _, count = text.rpartition(":")
            background = (place, int(count)) if place and count.isdecimal() else (text, None)
            path = Path(background[0]).resolve()
            other = path.parent.name if path.name == "input" else path.name
            rows.append(Row(f"{title} on {other}", "unchanged", folder, background, **common))
    rows += [Row(name, name, **common) for name in (SCENES if with_scenes else ())]
    if not rows:
        raise click.UsageError("nothing to score: give a folder or --synthetic")
    return rows


@click.command()
@sources
@click.option("--methods", default="bgsub,mog2,knn", show_default=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of bgsub.")
def main(methods, settings, jobs, json_path, **chosen) -> None:
    """Print F per condition for several methods."""
    try:
        given = parse_settings(settings)
        for name in methods.split(","):
            if name not in METHODS:
                raise ParameterError(f"method must be one of {', '.join(METHODS)}, got {name!r}")
        runs = [Run(name, name, given if name == "bgsub" else {}) for name in methods.split(",")]
        print_grid(rows_of(**chosen), runs, jobs, json_path)
    except BgsubError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
