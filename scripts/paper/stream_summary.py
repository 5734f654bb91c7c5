"""The table of experiment 6 and its verdict: in which cells bgsub is not the nearest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, isnan, nan

from stream import Stream
from stream_questions import Question
from stream_results import Results
from stream_trackers import BEFORE_NAME, COMPARED, OURS, RIVALS, YARDSTICK

YARDSTICK_BAR = 1.5  # times the yardstick, on turning subspaces with few outliers
FEW_OUTLIERS = 0.1
STILL_BAR = 1e-5  # radians, on a still subspace without noise


@dataclass(frozen=True)
class Line:
    """One cell.

    Parameters
    ----------
    question, title : str
        Where it stands.
    cell : Stream
        The stream, of seed 0.
    ends : dict
        Median end angle of every method, nan where it was not run.
    """

    question: str
    title: str
    cell: Stream
    ends: dict[str, float]

    @property
    def best_rival(self) -> str:
        """The robust rival with the smallest end angle, empty if none was run."""
        run = [name for name in RIVALS if not isnan(self.ends.get(name, nan))]
        return min(run, key=self.ends.__getitem__, default="")

    def ratio(self, method: str) -> float:
        """Return the end angle of bgsub over that of a method, nan where one was not run."""
        ours, other = self.ends.get(OURS, nan), self.ends.get(method, nan)
        return ours / other if other else nan if isnan(ours) else inf

    @property
    def bars(self) -> dict[str, float]:
        """The largest allowed ratio by method."""
        found = {self.best_rival: 1.0, BEFORE_NAME: 1.0}
        if self.cell.speed and self.cell.outliers + self.cell.block <= FEW_OUTLIERS:
            found[YARDSTICK] = YARDSTICK_BAR
        return found

    def misses(self, method: str, tolerance: float) -> bool:
        """Say whether the ratio to a method is above its bar by more than a share `tolerance`."""
        return self.ratio(method) > self.bars.get(method, inf) * (1 + tolerance)

    def stays(self, tolerance: float) -> bool:
        """Say whether bgsub stays above the bar of still subspaces without noise."""
        of_this_kind = self.cell.speed == self.cell.change == 0 and self.cell.noise == inf
        return of_this_kind and self.ends.get(OURS, nan) > STILL_BAR * (1 + tolerance)

    def missed(self, tolerance: float) -> list[str]:
        """Return the bars that bgsub misses here, in words."""
        found = [
            f"{self.ratio(name):.3g} x {name} (bar {bar:g})"
            for name, bar in self.bars.items()
            if self.misses(name, tolerance)
        ]
        if self.stays(tolerance):
            found.append(f"{self.ends[OURS]:.2g} rad (bar {STILL_BAR:g})")
        return found


def lines(asked: dict[str, Question], results: Results) -> list[Line]:
    """Return one line per question and cell."""
    return [
        Line(letter, title, cell, {name: results.end(cell, name) for name in question.methods})
        for letter, question in asked.items()
        for title, cell in question.cells.items()
    ]


def as_markdown(found: Iterable[Line], tolerance: float) -> str:
    """Return the table: end angles, the best robust rival in italics, ratios of bgsub; missed bars in bold."""
    names = list(COMPARED)
    header = ["", "cell", *names, "best robust rival", "bgsub / it", "/ before", f"/ {YARDSTICK}"]
    body = [header, ["---"] * len(header)]
    for line in found:
        angles = [_text(line.ends.get(name, nan), ".1e") for name in names]
        angles[names.index(OURS)] = _bold(angles[names.index(OURS)], line.stays(tolerance))
        ratios = [
            _bold(_text(line.ratio(name), ".3g"), line.misses(name, tolerance))
            for name in (line.best_rival, BEFORE_NAME, YARDSTICK)
        ]
        body.append([line.question, line.title, *angles, line.best_rival or "-", *ratios])
    return "".join(f"| {' | '.join(row)} |\n" for row in body)


def verdict(found: Iterable[Line], tolerance: float) -> Iterator[str]:
    """Yield the cells in which bgsub misses a bar, one line each, without repeating what questions share."""
    told = set()
    for line in found:
        missed = line.missed(tolerance)
        if missed and line.cell not in told:
            told.add(line.cell)
            yield f"({line.question}) {line.title}: {'; '.join(missed)}"


def _text(value: float, form: str) -> str:
    return "-" if isnan(value) else format(value, form)


def _bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text
