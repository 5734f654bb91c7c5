"""Moments with motion, as events."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from bgsub.events.event import Event, EventKind
from bgsub.events.motion import MotionGate, MotionRules
from bgsub.separation import FOREGROUND, Separation


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
