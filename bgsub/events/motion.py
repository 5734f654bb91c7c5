"""Moments with motion: their rules, and the events made of them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from bgsub.errors import ParameterError
from bgsub.events.event import Event, EventKind
from bgsub.separation import FOREGROUND, Separation

# Times this close, in seconds, are the same: most are rounded multiples of the time between two frames.
CLOSE = 1e-6
# Motion goes on from one frame to the next, however short the gap may be; but not over so many seconds without frames.
_UNSEEN = 1.0


@dataclass(frozen=True)
class MotionRules:
    """What is a moment with motion.

    Attributes
    ----------
    min_share : float
        Share of the frame, in [0, 1], that must be foreground.
    min_area : int, optional
        The same in pixels, instead of `min_share`.
    min_duration : float
        Seconds for which every frame must show motion, so that it is a moment.
    max_gap : float
        Seconds without motion that do not end a moment: what comes again within them belongs to it.

    Raises
    ------
    ParameterError
        If one of them is out of range.

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
        """Whether a frame of which this share, in [0, 1], is foreground shows motion; none while the model starts."""
        if separation.phase != "tracking" or separation.event is not None:
            return False
        if self.min_area is not None:
            return share > 0 and share * separation.mask.size >= self.min_area
        return share > 0 and share >= self.min_share


def check_seconds(name: str, value: float) -> None:
    """ParameterError unless `value` is a finite number of seconds, 0 or more."""
    if not 0 <= value < math.inf:
        raise ParameterError(f"{name} must be a number of seconds, 0 or more, got {value!r}")


class MotionGate:
    """Joins frames with motion, one by one; knows times in seconds and no pictures.

    Attributes
    ----------
    since : float or None
        When the motion at hand began, which may still be too short; None where there is none.
    certain : bool
        Whether it is a moment: every frame of `min_duration` showed it.
    last : float
        The last frame with motion of the newest moment.
    """

    def __init__(self, rules: MotionRules) -> None:
        self._rules = rules
        self.since: float | None = None
        self.certain = False
        self.last = -math.inf
        self._before = -math.inf  # the frame before

    def update(self, time: float, moving: bool) -> bool:
        """Take the next frame into account; return whether a moment has become certain with it."""
        steady = moving and self.last == self._before  # with no frame without motion between
        self._before = time
        if self.certain and time - self.last > max(self._rules.max_gap, _UNSEEN if steady else 0.0) + CLOSE:
            self.certain, self.since = False, None
        if self.certain:
            self.last = time if moving else self.last
            return False
        if not moving:
            self.since = None
            return False
        self.since = time if self.since is None else self.since
        self.certain = time - self.since >= self._rules.min_duration - CLOSE
        self.last = time if self.certain else self.last
        return self.certain

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, as types that JSON knows."""
        times = [max(time, -1e9) for time in (self.last, self._before)]
        return {"since": self.since, "certain": self.certain, "times": times}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        self.since, self.certain = state["since"], state["certain"]
        self.last, self._before = state["times"]


class Change(NamedTuple):
    """What a frame did to the events of a kind."""

    begun: list[Event]
    ended: list[Event]


class Motion(NamedTuple):
    """What a frame did to the moments with motion, and where they stand; times on the clock of the feed."""

    begun: list[Event]  # the moment that has become certain with this frame
    ended: list[Event]  # the one that has ended: the gap after it is longer than it may be
    share: float  # of the frame that is foreground, in [0, 1]
    moving: bool  # whether the frame shows motion
    since: float | None  # when the motion at hand began, which may still be too short to be a moment
    until: float | None  # its last frame so far; None while it is no moment
    lasting: Event | None  # the motion at hand, with identity 0 while it is no moment


class Moments:
    """Joins the frames with motion to moments; a moment has begun when its motion is certain."""

    def __init__(self, rules: MotionRules) -> None:
        self._rules, self._gate = rules, MotionGate(rules)
        self._count = 0
        self._lasting: Event | None = None  # with identity once it is certain

    @property
    def lasting(self) -> Event | None:
        """The moment with motion that lasts, once it is certain."""
        return self._lasting if self._lasting is not None and self._lasting.id else None

    def update(self, frame: int, time: float | None, clock: float, separation: Separation) -> Motion:
        """Take the next frame, at `clock` seconds."""
        area = int(np.count_nonzero(separation.mask == FOREGROUND))
        share = area / max(separation.mask.size, 1)
        moving, gate = self._rules.is_motion(separation, share), self._gate
        lasted = gate.certain
        begins = gate.update(clock, moving)
        ended = self.finish() if lasted and (begins or not gate.certain) else []
        if gate.since is None:
            self._lasting = None
        elif moving:
            event = self._lasting = self._lasting or Event(EventKind.MOTION, 0, frame, frame, time, time)
            event.end_frame, event.end_time = frame, time
            event.frames += 1
            if area > event.peak_area:
                event.peak_area, event.peak_frame = area, frame
        begun = [] if self._lasting is None or not begins else [self._lasting]
        for event in begun:
            self._count += 1
            event.id = self._count
        return Motion(begun, ended, share, moving, gate.since, gate.last if gate.certain else None, self._lasting)

    def finish(self) -> list[Event]:
        """End the moment that lasts, and return it."""
        if self._lasting is None or self._lasting.id == 0:
            return []
        event, self._lasting = self._lasting, None
        return [event]

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, as types that JSON knows."""
        lasting = None if self._lasting is None else asdict(self._lasting)
        return {"gate": self._gate.state(), "count": self._count, "lasting": lasting}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        self._gate.set_state(state["gate"])
        self._count = state["count"]
        self._lasting = None if state["lasting"] is None else Event.from_state(state["lasting"])
