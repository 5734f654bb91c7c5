"""Motion events: their rules and their detection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bgsub.errors import ParameterError
from bgsub.events.event import Event, EventKind
from bgsub.separation import FOREGROUND, Separation

# Times this close, in seconds, are equal: most are rounded multiples of the time between two frames.
CLOSE = 1e-6
# Motion in consecutive frames is one event even if `max_gap` is shorter, up to so many seconds without frames.
_UNSEEN = 1.0


@dataclass(frozen=True)
class MotionRules:
    """Rules of what counts as a motion event.

    Attributes
    ----------
    min_share : float
        Smallest share of the frame, in [0, 1], that must be foreground.
    min_area : int, optional
        The same in pixels, instead of `min_share`.
    min_duration : float
        Seconds in which every frame must show motion.
    max_gap : float
        Seconds without motion that do not end an event.

    Raises
    ------
    ParameterError
        If a value is out of range.

    Examples
    --------
    >>> from bgsub.events import MotionRules
    >>> MotionRules(min_share=0.01, max_gap=5)
    MotionRules(min_share=0.01, min_area=None, min_duration=0.3, max_gap=5)
    """

    min_share: float = 0.002
    min_area: int | None = None
    min_duration: float = 0.3
    max_gap: float = 3.0

    def __post_init__(self) -> None:
        for name in ("min_duration", "max_gap"):
            check_seconds(name, getattr(self, name))
        if not 0 <= self.min_share <= 1:
            raise ParameterError(f"min_share must lie in [0, 1], got {self.min_share!r}")
        if self.min_area is not None and self.min_area < 0:
            raise ParameterError(f"min_area must be a number of pixels, 0 or more, got {self.min_area!r}")

    def is_motion(self, separation: Separation, share: float) -> bool:
        """Whether a frame with this foreground share, in [0, 1], shows motion; never while the model starts."""
        if separation.phase != "tracking" or separation.event is not None:
            return False
        if self.min_area is not None:
            return share > 0 and share * separation.mask.size >= self.min_area
        return share > 0 and share >= self.min_share


def check_seconds(name: str, value: float) -> None:
    """Raise ParameterError unless `value` is a finite number of seconds, 0 or more."""
    if not 0 <= value < math.inf:
        raise ParameterError(f"{name} must be a number of seconds, 0 or more, got {value!r}")


@dataclass
class MotionGate:
    """Decides frame by frame when a motion event begins and ends; times are in seconds.

    Attributes
    ----------
    since : float or None
        Start of the current motion, which may still be too short for an event; None without motion.
    certain : bool
        Whether the motion is an event: every frame of `min_duration` showed it.
    last : float
        Time of the last frame with motion of the newest event.
    """

    rules: MotionRules
    since: float | None = None
    certain: bool = False
    last: float = -math.inf
    previous: float = -math.inf  # time of the frame before

    def update(self, time: float, moving: bool) -> bool:
        """Process the next frame; return whether an event has become certain."""
        steady = moving and self.last == self.previous  # without a frame without motion between
        self.previous = time
        if self.certain and time - self.last > max(self.rules.max_gap, _UNSEEN if steady else 0.0) + CLOSE:
            self.certain, self.since = False, None
        if self.certain:
            self.last = time if moving else self.last
            return False
        if not moving:
            self.since = None
            return False
        self.since = time if self.since is None else self.since
        self.certain = time - self.since >= self.rules.min_duration - CLOSE
        self.last = time if self.certain else self.last
        return self.certain


class Motion(NamedTuple):
    """Motion in a frame, and the motion event that lasts; times are those of `Step.clock`."""

    begun: list[Event]  # the event that has become certain with this frame
    ended: list[Event]  # the event that has ended, because the gap after it is too long
    share: float  # of the frame that is foreground, in [0, 1]
    moving: bool  # whether the frame shows motion
    since: float | None  # start of the current motion, which may still be too short for an event
    until: float | None  # last frame with motion of the event that lasts
    lasting: Event | None  # the current motion, with ID 0 until it is certain


@dataclass
class MotionEvents:
    """Joins frames with motion into events."""

    gate: MotionGate
    count: int = 0
    current: Event | None = None  # with an ID once it is certain

    @property
    def lasting(self) -> Event | None:
        """The event that lasts, if it is certain."""
        return self.current if self.current is not None and self.current.id else None

    def update(self, frame: int, time: float | None, clock: float, separation: Separation) -> Motion:
        """Process the next frame, at `clock` seconds."""
        area = int(np.count_nonzero(separation.mask == FOREGROUND))
        share = area / max(separation.mask.size, 1)
        gate = self.gate
        moving, lasted = gate.rules.is_motion(separation, share), gate.certain
        begins = gate.update(clock, moving)
        ended = self.finish() if lasted and (begins or not gate.certain) else []
        if gate.since is None:
            self.current = None
        elif moving:
            event = self.current = self.current or Event(EventKind.MOTION, 0, frame, frame, time, time)
            event.end_frame, event.end_time = frame, time
            event.frames += 1
            if area > event.peak_area:
                event.peak_area, event.peak_frame = area, frame
        begun = [] if self.current is None or not begins else [self.current]
        for event in begun:
            self.count += 1
            event.id = self.count
        return Motion(begun, ended, share, moving, gate.since, gate.last if gate.certain else None, self.current)

    def finish(self) -> list[Event]:
        """End the event that lasts and return it."""
        if self.lasting is None:
            return []
        event, self.current = self.lasting, None
        return [event]
