"""What a run did over time, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bgsub.events._pack import pack, unpack
from bgsub.events.event import Event, EventKind
from bgsub.events.feed import Step
from bgsub.events.region_counts import Waiting
from bgsub.separation import Separation


class Series:
    """Keeps the smallest and the largest value of each stretch of time.

    Stretches begin as single frames; when there are more than `most`, an even number, neighbours are joined, so that no
    peak is lost. Each frame has `columns` values, NaN for none.
    """

    def __init__(self, columns: int, most: int = 2048) -> None:
        self._most = most
        self._step = 1  # frames per stretch
        self._fill = 0  # frames in the newest stretch
        self._count = 0
        self._times: np.ndarray = np.zeros(most + 1)
        self._low: np.ndarray = np.full((most + 1, columns), np.nan)
        self._high: np.ndarray = np.full((most + 1, columns), np.nan)

    @property
    def columns(self) -> int:
        """Values per frame."""
        return int(self._low.shape[1])

    def add(self, time: float, values: np.ndarray) -> None:
        """Append a frame; `values` has shape (columns,), `time` is not before the last one."""
        if self._fill == 0:
            self._begin(time)
        at = self._count - 1
        np.fmin(self._low[at], values, out=self._low[at])
        np.fmax(self._high[at], values, out=self._high[at])
        self._fill = (self._fill + 1) % self._step

    def points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return times (n,), smallest (n, columns) and largest values (n, columns), float64."""
        return self._times[: self._count], self._low[: self._count], self._high[: self._count]

    def state(self) -> dict[str, Any]:
        """Return what `restored` needs, as types that JSON knows."""
        times, low, high = self.points()
        packed = {"times": pack(times), "low": pack(low), "high": pack(high)}
        return {"most": self._most, "step": self._step, "fill": self._fill, **packed}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Series:
        """Return the series that `state` was taken of."""
        low = unpack(state["low"])
        series = cls(low.shape[1], state["most"])
        series._step, series._fill, series._count = state["step"], state["fill"], len(low)
        series._times[: len(low)] = unpack(state["times"])
        series._low[: len(low)], series._high[: len(low)] = low, unpack(state["high"])
        return series

    def _begin(self, time: float) -> None:
        if self._count == self._most:
            self._halve()
        self._times[self._count] = time
        self._low[self._count] = self._high[self._count] = np.nan
        self._count += 1

    def _halve(self) -> None:
        half = self._count // 2
        self._times[:half] = self._times[: 2 * half : 2]
        self._low[:half] = np.fmin(self._low[: 2 * half : 2], self._low[1 : 2 * half : 2])
        self._high[:half] = np.fmax(self._high[: 2 * half : 2], self._high[1 : 2 * half : 2])
        self._count, self._step = half, 2 * self._step


MOST_BARS, MOST_MARKS = 600, 400
"""Objects or moments, and events of the whole frame, that a page holds: the longest ones, and the first marks."""


@dataclass(frozen=True)
class Bar:
    """An event on the page: kind, identity and where it begins and ends on the axis of time."""

    kind: str
    id: int
    start: float
    end: float


@dataclass
class Timeline:
    """The numbers and the objects of a run over time, in bounded memory.

    The axis has seconds, or frames where the time of one is not known.
    """

    title: str = ""  # what stands above
    names: tuple[str, ...] = ()  # names of the regions
    share: Series = field(default_factory=lambda: Series(1))  # share of the foreground; objects in each region
    counts: Series = field(init=False)
    coefficients: Series | None = None  # those of the background, once there are some
    bars: list[Bar] = field(default_factory=list)  # objects, and events of the whole frame
    marks: list[Bar] = field(default_factory=list)
    moments: list[Bar] = field(default_factory=list)  # with motion
    objects: int = 0  # number of objects, also of those without a bar
    timed: bool = True  # whether the axis has seconds
    _last: tuple[float, float] = (0.0, 0.0)
    _times: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts = Series(len(self.names))

    @property
    def span(self) -> tuple[float, float]:
        """Where the axis of time begins and ends."""
        times = self.share.points()[0]
        return (float(times[0]), self._last[0] + self._last[1]) if times.size else (0.0, 1.0)

    def add(self, step: Step, separation: Separation) -> None:
        """Take one frame."""
        self.timed &= step.time is not None
        self._last = (step.clock, step.interval) if self.timed else (float(step.frame), 1.0)
        at = self._last[0]
        self.share.add(at, np.array([separation.share]))
        self._add_coefficients(at, separation.coefficients)
        self.add_events([*step.finished, *step.motion.ended])
        if self.names:
            self._times[step.frame] = at

    def add_events(self, events: Iterable[Event]) -> None:
        """Take what has ended."""
        for event in events:
            bar = Bar(event.kind, event.id, *self.places(event))
            if event.kind == EventKind.OBJECT:
                self.objects += 1
                self.bars.append(bar)
            elif event.kind == EventKind.MOTION:
                self.moments.append(bar)
            elif len(self.marks) < MOST_MARKS:
                self.marks.append(bar)
        if max(len(self.bars), len(self.moments)) > 2 * MOST_BARS:
            self.bars, self.moments = longest(self.bars), longest(self.moments)

    def places(self, event: Event) -> tuple[float, float]:
        """Return where an event begins and ends on the axis of time."""
        if self.timed and event.start_time is not None and event.end_time is not None:
            return float(event.start_time), float(event.end_time)
        return float(event.start_frame), float(event.end_frame)

    def add_counts(self, counted: Iterable[Waiting]) -> None:
        """Take the frames whose objects are all known by now."""
        for waiting in counted:
            numbers = [waiting.objects.get(name, 0) for name in self.names]
            self.counts.add(self._times.pop(waiting.frame), np.array(numbers, float))

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, as types that JSON knows."""
        return {
            "share": self.share.state(),
            "coefficients": None if self.coefficients is None else self.coefficients.state(),
            "counts": self.counts.state(),
            "bars": [asdict(bar) for bar in self.bars],
            "marks": [asdict(mark) for mark in self.marks],
            "moments": [asdict(moment) for moment in self.moments],
            "objects": self.objects,
            "timed": self.timed,
            "last": list(self._last),
            "times": list(self._times.items()),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        self.share, self.counts = Series.restored(state["share"]), Series.restored(state["counts"])
        self.coefficients = None if state["coefficients"] is None else Series.restored(state["coefficients"])
        lists = ([Bar(**bar) for bar in state[name]] for name in ("bars", "marks", "moments"))
        self.bars, self.marks, self.moments = lists
        self.objects, self.timed = state["objects"], state["timed"]
        self._last = (state["last"][0], state["last"][1])
        self._times = {int(frame): float(at) for frame, at in state["times"]}

    def _add_coefficients(self, at: float, y: np.ndarray) -> None:
        if self.coefficients is None:
            if not y.size:
                return
            self.coefficients = Series(y.size)
        values: np.ndarray = np.full(self.coefficients.columns, np.nan)
        values[: y.size] = y[: values.size]
        self.coefficients.add(at, values)


def longest(bars: list[Bar]) -> list[Bar]:
    """Return the `MOST_BARS` longest bars, in the order of their starts."""
    kept = sorted(bars, key=lambda bar: (bar.start - bar.end, bar.start, bar.id))[:MOST_BARS]
    return sorted(kept, key=lambda bar: (bar.start, bar.id))


def packed(bars: list[Bar], gap: float) -> list[int]:
    """Return the row of each bar, sorted by start: the first row that is free from `gap` before it on."""
    ends: list[float] = []
    rows = []
    for bar in bars:
        row = next((number for number, end in enumerate(ends) if end + gap <= bar.start), len(ends))
        if row == len(ends):
            ends.append(bar.end)
        ends[row] = bar.end
        rows.append(row)
    return rows
