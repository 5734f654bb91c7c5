"""Who is in the scene at which frame: endless timetables, whatever the length of the sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bgsub.synthetic._cars import Car
from bgsub.synthetic._people import Person, Way
from bgsub.synthetic._shapes import generator

Mover = Person | Car
Plan = Callable[[np.random.Generator], Way]


@dataclass(frozen=True)
class Presence:
    """One mover at one frame."""

    key: tuple[int, ...]  # the same at every frame of its trip, and of no other
    mover: Mover  # its looks
    x: float  # its place on the floor in metres
    z: float
    distance: float  # metres travelled so far
    swing: float  # how far the limbs swing, in [0, 1]
    dx: float  # sideways part of the direction of travel, in [-1, 1]


class Track:
    """A place in the timetable: one trip after the other, each with a new mover.

    `plan` draws the `Way` of a trip from a random stream; trips begin every `period` frames from `start` on.
    """

    def __init__(self, make: type[Mover], plan: Plan, period: int, start: int, *key: int) -> None:
        self._make, self._plan, self._period, self._start, self._key = make, plan, period, start, key
        self._trips: dict[int, tuple[Mover, Way]] = {}

    def at(self, index: int) -> Presence | None:
        """Return who is on the way at a frame, or None."""
        trip, age = divmod(index - self._start, self._period)
        if trip < 0:
            return None
        mover, way = self._trip(trip)
        if age > way.frames:
            return None
        distance, swing = way.walked(age)
        x, z, dx, _ = way.place(distance)
        return Presence((*self._key, trip), mover, x, z, distance, swing, dx)

    def _trip(self, trip: int) -> tuple[Mover, Way]:
        if trip not in self._trips:
            way = self._plan(generator(*self._key, trip, 21))
            # Faster if need be: everyone has left before the next one starts.
            slowest = way.length / max(self._period - 2 - way.halt[1], 1.0)
            self._trips[trip] = (self._make(*self._key, trip), Way(way.corners, max(way.speed, slowest), way.halt))
        return self._trips[trip]
