"""A run as one picture: what the numbers and the objects did over time."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import DependencyError, ParameterError, SinkError
from bgsub.events.event import Event
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.region_counts import RegionCounter, Waiting
from bgsub.events.series import Series
from bgsub.separation import Separation
from bgsub.storage.atomic import replacing
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources.base import Frame

MOST_BARS, MOST_MARKS = 600, 400
"""Object events, and events of the whole frame, that a picture holds; the longest objects, and the first marks."""


@dataclass(frozen=True)
class Bar:
    """An event in the picture: kind, identity and where it begins and ends on the axis of time."""

    kind: str
    id: int
    start: float
    end: float


class TimelineSink(Sink):
    """Draws a run over time as a PNG: foreground, coefficients, events, objects, and objects by region.

    The axis has seconds, or frames where neither frames nor `fps` tell the time. Long runs keep the smallest
    and the largest value of each stretch of time.

    Parameters
    ----------
    path : str or path
        The file, ``.png``; its folder is created if missing.
    title : str
        What stands above, such as the name of the source.
    fps : float, optional
        Frames per second where frames have no time.
    regions : Regions, optional
        Where to count.
    feed : EventFeed, optional
        Shared with other sinks; by default one of its own.

    Raises
    ------
    DependencyError
        If matplotlib is missing.
    ParameterError
        If the file is no ``.png``.
    SinkError
        If it cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        title: str = "",
        *,
        fps: float | None = None,
        regions: Regions | None = None,
        feed: EventFeed | None = None,
    ) -> None:
        try:
            import matplotlib  # noqa: F401, PLC0415 - what is missing shows before the work
        except ImportError:
            raise DependencyError("a timeline needs the package matplotlib: pip install 'bgsub[plot]'") from None
        self.path = Path(path)
        if self.path.suffix.lower() != ".png":
            raise ParameterError(f"a timeline is a file .png, got '{self.path}'")
        self.title = title
        self._feed = feed or EventFeed(ObjectLinker(fps, regions=regions))
        self._counter = None if regions is None else RegionCounter(regions)
        self._names = () if regions is None else regions.names
        self.share = Series(1)
        self.coefficients: Series | None = None
        self.counts = Series(len(self._names))
        self.bars: list[Bar] = []
        self.marks: list[Bar] = []
        self.objects = 0
        self.timed = True
        self._last: tuple[float, float] = (0.0, 0.0)
        self._times: dict[int, float] = {}
        self._done = False
        prepare_folder(self.path.parent)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the regions."""
        return self._names

    @property
    def span(self) -> tuple[float, float]:
        """Where the axis of time begins and ends."""
        times = self.share.points()[0]
        return (float(times[0]), self._last[0] + self._last[1]) if times.size else (0.0, 1.0)

    def write(self, frame: Frame, separation: Separation) -> None:
        """Take one frame and what it was separated into."""
        step = self._feed.step(frame, separation)
        if step.time is None:
            self.timed = False
        at, length = (step.clock, step.interval) if self.timed else (float(step.frame), 1.0)
        self._last = (at, length)
        self.share.add(at, np.array([separation.share]))
        self._add_coefficients(at, separation.coefficients)
        self._add_events(step.finished)
        if self._counter is not None:
            self._times[step.frame] = at
            self._add_counts(self._counter.step(step))

    def close(self) -> None:
        """Draw the picture; without any frame there is none."""
        if self._done:
            return
        self._add_events(self._feed.finish())
        if self._counter is not None:
            self._add_counts(self._counter.finish())
        if self.share.points()[0].size:
            self._draw()
        self._done = True

    def abort(self) -> None:
        """Make no picture."""
        self._done = True

    def checkpoint(self) -> dict[str, Any]:
        """Return what `resume` needs, as JSON can hold it; nothing is on the disk before the end."""
        return {
            "feed": self._feed.checkpoint(self),
            "counter": None if self._counter is None else self._counter.state(),
            "share": self.share.state(),
            "coefficients": None if self.coefficients is None else self.coefficients.state(),
            "counts": self.counts.state(),
            "bars": [asdict(bar) for bar in self.bars],
            "marks": [asdict(mark) for mark in self.marks],
            "objects": self.objects,
            "timed": self.timed,
            "last": list(self._last),
            "times": list(self._times.items()),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where `checkpoint` returned `state`."""
        if not state:
            return
        self._feed.resume(state["feed"])
        if self._counter is not None:
            self._counter.set_state(state["counter"])
        self.share, self.counts = Series.restored(state["share"]), Series.restored(state["counts"])
        self.coefficients = None if state["coefficients"] is None else Series.restored(state["coefficients"])
        self.bars = [Bar(**bar) for bar in state["bars"]]
        self.marks = [Bar(**mark) for mark in state["marks"]]
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

    def _add_events(self, events: list[Event]) -> None:
        for event in events:
            times = event.start_time, event.end_time
            known = self.timed and times[0] is not None and times[1] is not None
            start, end = times if known else (event.start_frame, event.end_frame)
            bar = Bar(event.kind, event.id, float(start or 0), float(end or 0))
            if event.kind == "object":
                self.objects += 1
                self.bars.append(bar)
            elif len(self.marks) < MOST_MARKS:
                self.marks.append(bar)
        if len(self.bars) > 2 * MOST_BARS:
            self.bars = longest(self.bars)

    def _add_counts(self, counted: list[Waiting]) -> None:
        for waiting in counted:
            numbers = [waiting.objects.get(name, 0) for name in self._names]
            self.counts.add(self._times.pop(waiting.frame), np.array(numbers, float))

    def _draw(self) -> None:
        from bgsub.events.drawing import draw  # noqa: PLC0415 - it brings matplotlib along

        self.bars = longest(self.bars)
        try:
            with replacing(self.path) as partial:
                draw(self, partial)
        except OSError as error:
            raise SinkError(f"'{self.path}' cannot be written: {error.strerror or error}") from None


def longest(bars: list[Bar]) -> list[Bar]:
    """Return the `MOST_BARS` longest bars, in the order of their starts."""
    kept = sorted(bars, key=lambda bar: (bar.start - bar.end, bar.start, bar.id))[:MOST_BARS]
    return sorted(kept, key=lambda bar: (bar.start, bar.id))
