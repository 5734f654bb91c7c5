"""The numbers and events of a run for the summary page, and the names of its times."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bgsub.events.event import Event, EventKind, Step
from bgsub.separation import Separation
from bgsub.video.sources.base import Frame
from bgsub.video.timecode import clock_text

#: Most events of the whole frame on a page: the first ones.
MOST_MARKS = 400
_LAST_BAR = 99.8  # per cent of the axis: a short bar further to the right would stick out


@dataclass
class RunFacts:
    """Numbers and events of a run."""

    frames: int = 0
    width: int = 0  # of the frames
    height: int = 0
    first: int = 0  # index of the first and the last frame
    last: int = 0
    stride: int = 0  # greatest common divisor of the distances of indices
    begin: float = 0.0  # start of the first frame and end of the last one on `Step.clock`
    end: float = 0.0
    timed: bool = True  # whether the time of all frames is known
    began: str | None = None  # when the first frame of a camera arrived, ISO with the time zone
    total: float = 0.0  # sum of the foreground shares
    tracked: bool = False  # whether the start phase has ended
    objects: int = 0
    whole: dict[str, int] = field(default_factory=dict)  # number of events of the whole frame, by kind
    marks: list[Event] = field(default_factory=list)  # the first of them that have ended

    def add(self, frame: Frame, step: Step, separation: Separation) -> None:
        """Add one frame."""
        if self.frames == 0:
            self.height, self.width = separation.mask.shape
            self.first = self.last = frame.index
            self.begin = step.clock
            self.began = None if frame.arrived is None else frame.arrived.isoformat()
        self.stride = math.gcd(self.stride, frame.index - self.last)
        self.last, self.end = frame.index, step.clock + step.interval
        self.timed &= step.time is not None
        self.frames += 1
        self.total += separation.share
        self.tracked |= separation.phase == "tracking"
        for event in step.begun:
            self.whole[event.kind] = self.whole.get(event.kind, 0) + 1
        self.add_events(step.finished)

    def add_events(self, finished: Iterable[Event]) -> None:
        """Add objects and events of the whole frame that have ended."""
        for event in finished:
            if event.kind == EventKind.OBJECT:
                self.objects += 1
            elif len(self.marks) < MOST_MARKS:
                self.marks.append(event)

    @property
    def missing(self) -> int:
        """Number of frames between the first and the last one that were dropped or unreadable."""
        return (self.last - self.first) // max(self.stride, 1) + 1 - self.frames if self.frames else 0


class TimeAxis:
    """Names of times: time of day for a camera, time in the file, or frames."""

    def __init__(self, facts: RunFacts) -> None:
        self._timed = facts.timed
        self.began = None if facts.began is None else datetime.fromisoformat(facts.began)
        self.start = facts.begin if facts.timed else float(facts.first)
        self.end = facts.end if facts.timed else float(facts.last + 1)

    def span(self, event: Event) -> tuple[float, float]:
        """Return the places of start and end of an event."""
        if self._timed and event.start_time is not None and event.end_time is not None:
            return float(event.start_time), float(event.end_time)
        return event.start_frame, event.end_frame

    def at(self, place: float) -> str:
        """Return the name of a place."""
        if not self._timed:
            return f"frame {place:.0f}"
        if self.began is None:
            return _whole(place)
        date, first, last = (
            self.began + timedelta(seconds=seconds - self.start) for seconds in (place, self.start, self.end)
        )
        return f"{date:%H:%M:%S}" if first.date() == last.date() else f"{date:%m-%d %H:%M:%S}"

    def length(self, amount: float) -> str:
        """Return the name of a length."""
        if not self._timed:
            return f"{amount:.0f} frames"
        return f"{amount:.1f} s" if amount < 60 else _whole(amount)

    def style(self, event: Event) -> str:
        """Return the place of an event on the time line as CSS."""
        left, right = (100 * (place - self.start) / ((self.end - self.start) or 1) for place in self.span(event))
        return f"left:{min(left, _LAST_BAR):.2f}%;width:{right - left:.2f}%"


def _whole(seconds: float) -> str:
    """Return whole seconds as ``01:02:03``."""
    return clock_text(seconds).partition(".")[0]
