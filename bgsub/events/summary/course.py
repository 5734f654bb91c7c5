"""How a run went, in a few numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bgsub.events.feed import Step
from bgsub.events.summary.timeline import Timeline
from bgsub.separation import Separation
from bgsub.video.sources.base import Frame
from bgsub.video.timecode import clock_text

_PAUSE, _PAUSE_FRAMES = 5.0, 10.0  # seconds, and times the usual interval, without a frame


@dataclass
class Course:
    """What the head of the page says of a run, and what went wrong in it."""

    frames: int = 0
    width: int = 0  # of the frames
    height: int = 0
    first: int = 0  # index of the first and the last frame
    last: int = 0
    stride: int = 0  # all indices are so many apart, or a multiple of it
    total: float = 0.0  # sum of the shares of the foreground
    began: str | None = None  # when the first frame of a camera arrived, ISO with the time zone
    tracked: bool = False  # whether the start phase came to its end
    pauses: int = 0  # how often no frame came for long
    longest_pause: float = 0.0  # seconds
    whole: dict[str, int] = field(default_factory=dict)  # number of events of the whole frame, by kind

    def add(self, frame: Frame, step: Step, separation: Separation) -> None:
        """Take one frame."""
        if self.frames == 0:
            self.height, self.width = separation.mask.shape
            self.first = self.last = frame.index
            arrived = frame.arrived
            self.began = None if arrived is None else arrived.isoformat()
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
    def share(self) -> float:
        """Mean share of the foreground, in [0, 1]."""
        return self.total / max(self.frames, 1)

    @property
    def missing(self) -> int:
        """Frames between the first and the last one that never came: dropped, or not to be read."""
        return (self.last - self.first) // max(self.stride, 1) + 1 - self.frames if self.frames else 0

    def state(self) -> dict[str, Any]:
        """Return the fields, as types that JSON knows."""
        return asdict(self)


@dataclass(frozen=True)
class Clock:
    """What the places on the axis of time are called: time of day for a camera, time in the file, or frames."""

    start: float  # of the axis
    end: float
    timed: bool  # whether the axis has seconds
    began: datetime | None  # date and time at `start`

    @classmethod
    def of(cls, timeline: Timeline, began: str | None) -> Clock:
        """Return that of a timeline whose first frame arrived at that time, in ISO format."""
        return cls(*timeline.span, timeline.timed, None if began is None else datetime.fromisoformat(began))

    def at(self, place: float) -> str:
        """Return what a place is called."""
        if not self.timed:
            return f"frame {place:.0f}"
        date = self._date(place)
        if date is None:
            return _whole(place)
        days = {day.date() for day in (self._date(self.start), self._date(self.end)) if day is not None}
        return f"{date:%H:%M:%S}" if len(days) == 1 else f"{date:%m-%d %H:%M:%S}"

    def length(self, amount: float) -> str:
        """Return what a stretch of the axis is called."""
        if not self.timed:
            return f"{amount:.0f} frames"
        return f"{amount:.1f} s" if amount < 60 else _whole(amount)

    def ticks(self, most: int = 8) -> list[float]:
        """Return round places on the axis, `most` at most."""
        span = self.end - self.start
        minutes = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
        days = [86400 * step for step in _ROUND]
        step = next(step for step in ((*minutes, *days) if self.timed else _ROUND) if span / step <= most - 1)
        midnight = self.began.replace(hour=0, minute=0, second=0, microsecond=0) if self.began else None
        zero = 0.0 if midnight is None or self.began is None else self.start - (self.began - midnight).total_seconds()
        first = math.ceil((self.start - zero) / step - 1e-6)
        places = (zero + step * number for number in range(first, first + most))
        return [place for place in places if place <= self.end]

    def _date(self, place: float) -> datetime | None:
        return None if self.began is None else self.began + timedelta(seconds=place - self.start)


def _whole(seconds: float) -> str:
    """Return whole seconds as ``01:02:03``."""
    return clock_text(seconds).partition(".")[0]


_ROUND = [factor * 10**power for power in range(12) for factor in (1, 2, 5)]
