"""One run of experiment 6, and what all of them found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import grid
import numpy as np
import timing
from stream import Stream, angle
from stream_questions import counts, late_counts, stream_of
from stream_trackers import METHODS

VALUES = ("seconds", "end", "rank_found", "curve", "ranks", "note")


@dataclass(frozen=True)
class Measured:
    """Angle and rank of the estimate after some numbers of samples."""

    angles: dict[int, float]
    ranks: dict[int, int]

    def add(self, count: int, U: np.ndarray, truth: np.ndarray) -> None:
        """Measure the basis, (m, j), after `count` samples."""
        self.angles[count], self.ranks[count] = angle(U, truth), U.shape[1]


@cache
def warm_up(name: str) -> None:
    """Compile the kernels of a tracker, once per process."""
    for small in (Stream(40, 2, 60), Stream(40, 2, 60, observed=0.5)):
        if METHODS[name].takes(small):
            tracker = METHODS[name].make(small)
            for _, x, mask in small:
                tracker.update(x, mask)


def evaluate(task: grid.Task, *, shown: frozenset[Stream]) -> dict[str, float | int | str]:
    """Track one stream.

    Parameters
    ----------
    task : dict
        The fields of a stream, and ``method``.
    shown : frozenset of Stream
        Cells, streams of seed 0, whose angles are kept one by one.

    Returns
    -------
    dict
        ``seconds`` of processor time of the updates alone; ``end``, the median angle over the last third of the
        samples in radians, and ``rank_found`` at the end; where shown, ``curve`` and ``ranks``: angles and ranks
        after `counts` samples, nan and 0 within the method's own start; ``note``: what the method raised, its angles
        from there on are right ones.
    """
    stream, method = stream_of(task), METHODS[task["method"]]
    given = method.stream(stream)
    warm_up(task["method"])
    late, kept = late_counts(stream), counts(stream) if replace(stream, seed=0) in shown else []
    wanted, measured, note, seconds = {*late, *kept}, Measured({}, {}), "", 0.0
    try:
        tracker, spent = method.make(given), method.spent(given)
        for count, (U, x, observed) in enumerate(given, 1):
            if count > spent:
                seconds += timing.timed(tracker.update, x, observed).cpu_seconds
            if count in wanted and count >= spent:
                measured.add(count, tracker.U, U)
    except (ArithmeticError, ValueError, RuntimeError) as error:  # diverged: a failure of the method, not of the run
        note = f"{type(error).__name__}: {error}".splitlines()[0]
        reached = max(measured.angles, default=0)
        measured.angles.update({count: np.pi / 2 for count in wanted if count > reached})
    return {
        "seconds": seconds,
        "end": float(np.median([measured.angles[count] for count in late])),
        "rank_found": measured.ranks.get(stream.length, 0),
        "curve": " ".join(f"{measured.angles.get(count, np.nan):.3g}" for count in kept),
        "ranks": " ".join(str(measured.ranks.get(count, 0)) for count in kept) if stream.rank_after else "",
        "note": note,
    }


class Results:
    """What the rows of the table say.

    Parameters
    ----------
    rows : iterable of dict
        Rows of the table.
    """

    def __init__(self, rows: Iterable[grid.Row]) -> None:
        self._runs: dict[tuple[Stream, str], list[grid.Row]] = {}
        for row in rows:
            self._runs.setdefault((replace(stream_of(row), seed=0), row["method"]), []).append(row)

    def runs(self, cell: Stream, method: str) -> list[grid.Row]:
        """Return the rows of one cell, a stream of seed 0; none where it was not run."""
        return self._runs.get((cell, method), [])

    def ends(self, cell: Stream, method: str) -> np.ndarray:
        """Return the end angles, (seeds,)."""
        return np.array([float(row["end"]) for row in self.runs(cell, method)])

    def end(self, cell: Stream, method: str) -> float:
        """Return the median of the end angles, nan where there is none."""
        ends = self.ends(cell, method)
        return float(np.median(ends)) if ends.size else float("nan")

    def curves(self, cell: Stream, method: str, column: str = "curve") -> np.ndarray:
        """Return the angles, or another column of that kind, (seeds, counts); empty where it was not run."""
        found = [[float(value) for value in row[column].split()] for row in self.runs(cell, method)]
        return np.array(found)

    def milliseconds(self, method: str, dimension: int) -> float:
        """Return the median processor time per sample over all streams of m = `dimension`, nan where there is none."""
        found = [
            1e3 * float(row["seconds"]) / (cell.length - METHODS[name].spent(cell))
            for (cell, name), rows in self._runs.items()
            if name == method and cell.dimension == dimension
            for row in rows
        ]
        return float(np.median(found)) if found else float("nan")
