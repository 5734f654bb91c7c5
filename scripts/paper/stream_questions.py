"""The questions of experiment 6: which streams answer each, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import grid
import numpy as np
from stream import Stream
from stream_trackers import AUTO, COMPARED, METHODS, OURS

SPEEDS = (0.0, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3)
OUTLIERS = (0.0, 0.1, 0.2, 0.3, 0.4)
OBSERVED = (1.0, 0.5, 0.25, 0.1)
NOISE = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, np.inf)
BLOCKS = (0.0, 0.1, 0.25)
TURNING, FEW = 1e-3, 0.25
MOTIONS = {"still": 0.0, "turning 1e-3 rad per sample": TURNING}
SHARES = {"complete": 1.0, "25 % observed": FEW}
KEYS = (*(field.name for field in fields(Stream) if field.name != "seed"), "method", "seed")


@dataclass(frozen=True)
class Question:
    """Cells of one figure and one part of the table.

    Parameters
    ----------
    name : str
        Names the figure.
    panels : dict
        Cells, streams of seed 0, by the title of their panel.
    axis : str
        What varies within a panel; empty where panels have one cell, shown against the number of samples.
    labels : tuple of str
        The values on the axis.
    methods : tuple of str
        Who is asked.
    """

    name: str
    panels: dict[str, tuple[Stream, ...]]
    axis: str = ""
    labels: tuple[str, ...] = ("",)
    methods: tuple[str, ...] = tuple(COMPARED)

    @property
    def cells(self) -> dict[str, Stream]:
        """All cells by their title."""
        named = {}
        for title, cells in self.panels.items():
            for label, cell in zip(self.labels, cells, strict=True):
                named[f"{title}, {self.axis} {label}" if self.axis else title] = cell
        return named


def _varied(name: str, base: Stream, field: str, values: Iterable[float], axis: str, form: str) -> Question:
    panels = {
        title: tuple(replace(base, speed=speed, **{field: value}) for value in values)
        for title, speed in MOTIONS.items()
    }
    labels = ("none" if value == np.inf else form.format(value) for value in values)
    return Question(name, panels, axis, tuple(labels))


def _each(base: Stream) -> dict[str, tuple[Stream, ...]]:
    return {
        f"{motion}, {seen}": (replace(base, speed=speed, observed=share),)
        for motion, speed in MOTIONS.items()
        for seen, share in SHARES.items()
    }


def base_question(base: Stream) -> Question:
    """Return the cells of question a that are shown against the number of samples too."""
    return Question("streams", _each(base))


def questions(base: Stream, large: Stream) -> dict[str, Question]:
    """Return the questions by their letter.

    Parameters
    ----------
    base : Stream
        What all but (g) vary.
    large : Stream
        What (g) varies.
    """
    turned = {seen: tuple(replace(base, speed=s, observed=share) for s in SPEEDS) for seen, share in SHARES.items()}
    changing = replace(base, change=base.length // 2)
    more, less = base.rank + (base.rank + 1) // 2, (base.rank + 1) // 2
    ranks = {
        f"rank {base.rank}, then {more}": (replace(changing, rank_after=more, kept=base.rank),),
        f"rank {base.rank}, then {less}": (replace(changing, rank_after=less, kept=less),),
        f"rank {base.rank}, then {more} others": (replace(changing, rank_after=more),),
    }
    return {
        "a": Question("streams_speed", turned, "rad per sample", tuple(f"{speed:g}" for speed in SPEEDS)),
        "b": _varied("streams_outliers", base, "outliers", OUTLIERS, "outliers", "{:.0%}"),
        "c": _varied("streams_observed", base, "observed", OBSERVED, "observed", "{:.0%}"),
        "d": _varied("streams_noise", base, "noise", NOISE, "noise", "{:g} dB"),
        "e": _varied("streams_block", base, "block", BLOCKS, "object covers", "{:.0%}"),
        "f": Question("streams_change", {seen: (replace(changing, observed=s),) for seen, s in SHARES.items()}),
        "g": Question("streams_large", _each(large)),
        "h": Question("streams_rank", ranks, methods=(OURS, AUTO)),
    }


def shown_cells(base: Stream, large: Stream) -> frozenset[Stream]:
    """Return the cells whose angles are kept one by one."""
    found = (base_question(base), *(one for one in questions(base, large).values() if not one.axis))
    return frozenset(cell for question in found for cell in question.cells.values())


def tasks_of(asked: Iterable[Question], seeds: range) -> list[grid.Task]:
    """Return one task per cell, method and seed, without duplicates."""
    found: dict[tuple[Stream, str], grid.Task] = {}
    for question in asked:
        for cell in question.cells.values():
            for name in (one for one in question.methods if METHODS[one].takes(cell)):
                for seed in seeds:
                    stream = replace(cell, seed=seed)
                    found[stream, name] = {**asdict(stream), "method": name}
    return list(found.values())


def stream_of(row: dict[str, Any]) -> Stream:
    """Return the stream of a task or of a row of the table."""
    kinds = {"int": int, "float": float}
    return Stream(**{field.name: kinds[str(field.type)](row[field.name]) for field in fields(Stream)})


def counts(stream: Stream, points: int = 36) -> list[int]:
    """Return the numbers of samples at which angles are recorded: geometrically spaced, again from a change on."""
    first, parts = min(10, stream.length), [(0, stream.change or stream.length)]
    if stream.change:
        parts.append((stream.change, stream.length))
    found = {
        begin + round(float(count))
        for begin, end in parts
        for count in np.geomspace(1 if begin else first, end - begin, points // len(parts))
    }
    return sorted(found)


def late_counts(stream: Stream, points: int = 20) -> list[int]:
    """Return the numbers of samples, evenly spaced over the last third, whose median angle is the end angle."""
    return sorted({round(float(count)) for count in np.linspace(2 / 3 * stream.length, stream.length, points)})
