"""The numbers and events of a run over time, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from bgsub.events.event import Event, EventKind
from bgsub.events.feed import Step
from bgsub.events.region_counts import Waiting
from bgsub.separation import Separation
from bgsub.video.sources.base import Frame

MOST_BARS, MOST_MARKS = 600, 400
"""Most objects and motion events (the longest ones) and events of the whole frame (the first ones) on a page."""

_PAUSE, _PAUSE_FRAMES = 5.0, 10.0  # seconds, and times the usual interval, without a frame


@dataclass
class Series:
    """Smallest and largest values of stretches of time.

    A stretch begins as one frame; when there are `most` of them (an even number), neighbours are joined, which keeps
    the peaks. Each frame has `columns` values, NaN for none.
    """

    columns: int
    most: int = 2048
    step: int = 1  # frames per stretch
    fill: int = 0  # frames in the newest stretch
    count: int = 0  # stretches
    times: np.ndarray = field(init=False)
    low: np.ndarray = field(init=False)
    high: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.times = np.zeros(self.most)
        self.low = np.full((self.most, self.columns), np.nan)
        self.high = np.full((self.most, self.columns), np.nan)

    def add(self, time: float, values: np.ndarray) -> None:
        """Append a frame with values of shape (columns,); `time` is not before the last one."""
        if self.fill == 0:
            if self.count == self.most:
                self._halve()
            self.times[self.count] = time
            self.low[self.count] = self.high[self.count] = np.nan
            self.count += 1
        at = self.count - 1
        np.fmin(self.low[at], values, out=self.low[at])
        np.fmax(self.high[at], values, out=self.high[at])
        self.fill = (self.fill + 1) % self.step

    def points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return times (n,), smallest (n, columns) and largest values (n, columns), float64."""
        return self.times[: self.count], self.low[: self.count], self.high[: self.count]

    def _halve(self) -> None:
        half = self.most // 2
        self.times[:half] = self.times[::2]
        self.low[:half] = np.fmin(self.low[::2], self.low[1::2])
        self.high[:half] = np.fmax(self.high[::2], self.high[1::2])
        self.count, self.step = half, 2 * self.step


@dataclass(frozen=True)
class Bar:
    """An event on the page: kind, ID, start and end on the time axis."""

    kind: str
    id: int
    start: float
    end: float


@dataclass
class Timeline:
    """Numbers and events of a run; the axis has seconds, or frames if the time of a frame is unknown."""

    names: tuple[str, ...] = ()  # of the regions
    share: Series = field(default_factory=lambda: Series(1))  # of the foreground
    counts: Series = field(init=False)  # objects in each region
    coefficients: Series | None = None  # of the background
    objects: list[Bar] = field(default_factory=list)
    motion: list[Bar] = field(default_factory=list)
    marks: list[Bar] = field(default_factory=list)  # events of the whole frame
    object_count: int = 0  # including objects without a bar
    timed: bool = True  # whether the axis has seconds
    last: tuple[float, float] = (0.0, 0.0)  # place and length of the newest frame
    waiting: dict[int, float] = field(default_factory=dict)  # places of the frames that are not counted yet

    def __post_init__(self) -> None:
        self.counts = Series(len(self.names))

    @property
    def span(self) -> tuple[float, float]:
        """Start and end of the time axis."""
        times = self.share.points()[0]
        return (float(times[0]), sum(self.last)) if times.size else (0.0, 1.0)

    def add(self, step: Step, separation: Separation) -> None:
        """Add one frame."""
        self.timed &= step.time is not None
        self.last = (step.clock, step.interval) if self.timed else (float(step.frame), 1.0)
        at = self.last[0]
        self.share.add(at, np.array([separation.share]))
        y = separation.coefficients
        if self.coefficients is None and y.size:
            self.coefficients = Series(y.size)
        if self.coefficients is not None:
            values: np.ndarray = np.full(self.coefficients.columns, np.nan)
            values[: y.size] = y[: values.size]
            self.coefficients.add(at, values)
        self.add_events([*step.finished, *step.motion.ended])
        self.waiting[step.frame] = at

    def add_events(self, events: Iterable[Event]) -> None:
        """Add events that have ended."""
        for event in events:
            bar = Bar(event.kind, event.id, *self.places(event))
            if event.kind == EventKind.OBJECT:
                self.object_count += 1
                self.objects.append(bar)
            elif event.kind == EventKind.MOTION:
                self.motion.append(bar)
            elif len(self.marks) < MOST_MARKS:
                self.marks.append(bar)
        if max(len(self.objects), len(self.motion)) > 2 * MOST_BARS:
            self.objects, self.motion = longest(self.objects), longest(self.motion)

    def places(self, event: Event) -> tuple[float, float]:
        """Return start and end of an event on the time axis."""
        if self.timed and event.start_time is not None and event.end_time is not None:
            return float(event.start_time), float(event.end_time)
        return float(event.start_frame), float(event.end_frame)

    def add_counts(self, counted: Iterable[Waiting]) -> None:
        """Add the object counts of frames whose objects are all known."""
        for waiting in counted:
            numbers = [waiting.objects.get(name, 0) for name in self.names]
            self.counts.add(self.waiting.pop(waiting.frame), np.array(numbers, float))


def longest(bars: list[Bar]) -> list[Bar]:
    """Return the `MOST_BARS` longest bars, in the order of their starts."""
    kept = sorted(bars, key=lambda bar: (bar.start - bar.end, bar.start, bar.id))[:MOST_BARS]
    return sorted(kept, key=lambda bar: (bar.start, bar.id))


def rows_of(bars: list[Bar], gap: float) -> list[int]:
    """Return the row of each bar, sorted by start: the first one that is free since `gap` before the bar."""
    ends: list[float] = []
    rows = []
    for bar in bars:
        row = next((number for number, end in enumerate(ends) if end + gap <= bar.start), len(ends))
        if row == len(ends):
            ends.append(bar.end)
        ends[row] = bar.end
        rows.append(row)
    return rows


@dataclass
class RunFacts:
    """Numbers of a run for the head of the page."""

    frames: int = 0
    width: int = 0  # of the frames
    height: int = 0
    first: int = 0  # index of the first and the last frame
    last: int = 0
    stride: int = 0  # greatest common divisor of the distances of indices
    total: float = 0.0  # sum of the foreground shares
    began: str | None = None  # when the first frame of a camera arrived, ISO with the time zone
    tracked: bool = False  # whether the start phase has ended
    pauses: int = 0  # long times without a frame
    longest_pause: float = 0.0  # seconds
    whole: dict[str, int] = field(default_factory=dict)  # number of events of the whole frame, by kind

    def add(self, frame: Frame, step: Step, separation: Separation) -> None:
        """Add one frame."""
        if self.frames == 0:
            self.height, self.width = separation.mask.shape
            self.first = self.last = frame.index
            self.began = None if frame.arrived is None else frame.arrived.isoformat()
        elif step.time is not None and step.gap > max(_PAUSE, _PAUSE_FRAMES * step.interval):
            self.pauses += 1
            self.longest_pause = max(self.longest_pause, step.gap)
        self.stride = math.gcd(self.stride, frame.index - self.last)
        self.last = frame.index
        self.frames += 1
        self.total += separation.share
        self.tracked |= separation.phase == "tracking"
        for event in step.begun:
            self.whole[event.kind] = self.whole.get(event.kind, 0) + 1

    @property
    def missing(self) -> int:
        """Number of frames between the first and the last one that were dropped or unreadable."""
        return (self.last - self.first) // max(self.stride, 1) + 1 - self.frames if self.frames else 0
