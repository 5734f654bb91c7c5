"""Grids of runs: labelled rows against methods and settings, each row made once and held in memory."""

from __future__ import annotations

import ast
import math
import multiprocessing
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, SourceError
from bgsub.evaluation.conditions._derived import Recording
from bgsub.evaluation.conditions._objects import load_background
from bgsub.evaluation.conditions._table import CONDITIONS, SCENES, derive, synthetic, transplant
from bgsub.evaluation.methods import METHODS, Method, make_method
from bgsub.evaluation.run import Score, evaluate
from bgsub.evaluation.sequences import Labelled, Sequence
from bgsub.parameters import SUBTRACTOR
from bgsub.subtractor.subtractor import BackgroundSubtractor

_SCENE_LENGTH = 500


@dataclass(frozen=True)
class Run:
    """One column of a grid: a method, and settings if it is ours.

    Attributes
    ----------
    label : str
        Head of the column.
    method : str
        A name for `make_method`.
    settings : dict
        Parameters of `BackgroundSubtractor`; OpenCV's methods run with their defaults.
    """

    label: str
    method: str = "bgsub"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def make(self, every: int = 1) -> Method:
        """Return a fresh method; ours is told where only every so manieth frame comes."""
        if self.method != "bgsub":
            return make_method(self.method)
        return BackgroundSubtractor(**{"fps": SUBTRACTOR["fps"].default / every, **self.settings})


@dataclass(frozen=True)
class Row:
    """One row of a grid, by names only, so that another process can make it.

    Attributes
    ----------
    label : str
        Head of the row.
    condition : str
        A name of `CONDITIONS`, or of `SCENES` where `folder` is None.
    folder : str or None
        Labelled sequence in the layout of changedetection.net.
    background : (str, int or None) or None
        Folder of frames of an empty place and how many of them; then the objects move in front of them.
    frames : int or None
        Number of frames; by default all, 500 of a scene.
    seed : int
        Seed of the condition or the scene.
    """

    label: str
    condition: str = "unchanged"
    folder: str | None = None
    background: tuple[str, int | None] | None = None
    frames: int | None = None
    seed: int = 0

    def make(self) -> Recording:
        """Return the labelled sequence, held in memory."""
        if self.folder is None:
            return Recording(synthetic(self.condition, self.frames or _SCENE_LENGTH, self.seed))
        sequence: Labelled = _recorded(self.folder, self.frames)
        if self.background is not None:
            sequence = transplant(sequence, load_background(*self.background))
        return Recording(derive(sequence, self.condition, self.seed))


def grid_rows(
    folders: Iterable[str | Path],
    backgrounds: Iterable[str] = (),
    *,
    conditions: Iterable[str] = CONDITIONS,
    scenes: Iterable[str] = (),
    frames: int | None = None,
    seed: int = 0,
) -> list[Row]:
    """Return the rows of a grid: every folder under every condition and on every background, then the scenes.

    Parameters
    ----------
    folders : iterable of path
        Labelled sequences.
    backgrounds : iterable of str
        Folders of frames of empty places, as ``DIR`` or ``DIR:COUNT`` for the first frames only.
    conditions, scenes : iterable of str
        Names of `CONDITIONS` and `SCENES`.
    frames : int, optional
        Number of frames; by default all, 500 of a scene.
    seed : int, default 0
        Seed of everything random.

    Raises
    ------
    ParameterError
        If a name is unknown.
    """
    conditions, scenes = list(conditions), list(scenes)
    for what, table, names in (("condition", CONDITIONS, conditions), ("scene", SCENES, scenes)):
        for name in names:
            if name not in table:
                raise ParameterError(f"{what} must be one of {', '.join(table)}, got {name!r}")
    places = [_background(text) for text in backgrounds]
    common: dict[str, Any] = {"frames": frames, "seed": seed}
    rows = []
    for folder in map(str, folders):
        name = Path(folder).resolve().name
        rows += [Row(f"{name} {condition}", condition, folder, **common) for condition in conditions]
        rows += [Row(f"{name} on {_place_name(p[0])}", "unchanged", folder, p, **common) for p in places]
    return rows + [Row(name, name, **common) for name in scenes]


def score_rows(rows: Iterable[Row], runs: Iterable[Run], jobs: int = 1) -> Iterator[tuple[Row, list[Score | None]]]:
    """Score every run on every row; results come row by row, in order.

    Parameters
    ----------
    rows : iterable of Row
        The rows; each is made once, and its folder is read once per process.
    runs : iterable of Run
        The columns.
    jobs : int, default 1
        Processes that work side by side; times are only worth something with 1.

    Yields
    ------
    (Row, list of (Score or None))
        One score for each run, None for OpenCV's methods on frames of 16 bits, which they are not made for.

    Raises
    ------
    BgsubError
        If a folder, a mask or a setting is wrong.
    """
    work = partial(_score_row, runs=list(runs))
    rows = list(rows)
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) if jobs > 1 else nullcontext(None)
    with pool as workers:
        # Compiled kernels and OpenCV's threads do not survive a fork, hence spawn.
        results = workers.map(work, rows) if workers is not None else map(work, rows)
        yield from zip(rows, results, strict=True)


def _score_row(row: Row, runs: list[Run]) -> list[Score | None]:
    sequence = row.make()
    if all(sequence.truth(number) is None for number, _ in sequence.frames()):
        raise SourceError(f"none of the first {len(sequence)} frames of {row.label} is scored; take more frames")
    every = 1 if row.folder is None else CONDITIONS[row.condition].every
    return [_score(sequence, run, every) for run in runs]


def _score(sequence: Recording, run: Run, every: int) -> Score | None:
    _, frame = next(sequence.frames())
    if run.method != "bgsub" and frame.dtype != np.uint8:
        return None
    return evaluate(sequence, run.make(every), name=run.label)


def parse_settings(words: Iterable[str]) -> dict[str, Any]:
    """Return the settings in words like ``rank=3``; none, true and false in any case, other words are strings.

    Raises
    ------
    ParameterError
        If a word has no ``=``.
    """
    settings: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise ParameterError(f"setting must be name=value, got {word!r}")
        settings[name.strip()] = _literal(value.strip())
    return settings


def _literal(text: str) -> Any:
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def parse_methods(text: str, settings: Mapping[str, Any] | None = None) -> list[Run]:
    """Return the runs of a list of methods like ``bgsub,mog2``; `settings` are for ours.

    Raises
    ------
    ParameterError
        If a method is unknown.
    """
    runs = []
    for name in text.split(","):
        if name not in METHODS:
            raise ParameterError(f"method must be one of {', '.join(METHODS)}, got {name!r}")
        runs.append(Run(name, name, dict(settings or {}) if name == "bgsub" else {}))
    return runs


def cell(score: Score | None) -> str:
    """Return a score in a few characters: F, or where nothing moves the share of false alarms in percent."""
    if score is None:
        return "-"
    counts = score.confusion
    if counts.tp + counts.fn == 0:
        return f"{100 * counts.fpr:.2f}%"
    return f"{counts.f_measure:.3f}"


def milliseconds(scores: Iterable[Score | None]) -> float:
    """Return the median time of a frame over the medians of several rows; nan where there is none."""
    times = [score.milliseconds for score in scores if score is not None]
    return median(times) if times else math.nan


def as_record(row: Row, scores: Iterable[Score | None]) -> dict[str, Any]:
    """Return a row as plain numbers for JSON: F, false positive rate and milliseconds for each column."""
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


@lru_cache(maxsize=1)
def _recorded(folder: str, frames: int | None) -> Recording:
    return Recording(Sequence(folder), frames)


def _background(text: str) -> tuple[str, int | None]:
    folder, _, count = text.rpartition(":")
    return (folder, int(count)) if folder and count.isdecimal() else (text, None)


def _place_name(folder: str) -> str:
    path = Path(folder).resolve()
    return path.parent.name if path.name == "input" else path.name
