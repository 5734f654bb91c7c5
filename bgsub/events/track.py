"""Tracks of objects: their motion model and their confirmation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from bgsub.events.detection import Detection, intersection
from bgsub.events.event import Event, EventKind, ObjectInFrame

Point = tuple[float, float]

_SMOOTHING = 0.35  # weight of the newest step in the velocity
_LEVEL = 0.55  # Dice coefficient of two sights that is evidence neither for an object nor for noise
_SIGNIFICANT = 6.0  # a random walk gets that far beyond its steps in one of exp(6) = 400 cases
_MOST_POINTS = 4096  # of a track


@dataclass
class TrackConfirmation:
    """Decides whether a track is an object: it keeps its shape, or it moves in one direction.

    Leaves, water and noise change their shape from sight to sight, and their steps cancel out.
    """

    origin: Point
    here: Point
    solid: float = 0.0  # seconds in sight, weighted by how much the shape stays the same, minus seconds out of sight
    walked: float = 0.0  # sum of the squared steps in pixels

    @property
    def motion(self) -> float:
        """Squared distance from the origin over the sum of squared steps: 1 for a random walk, n for n equal steps."""
        return math.dist(self.origin, self.here) ** 2 / max(self.walked, 1.0)

    def add(self, here: Point, likeness: float, seconds: float, unseen: float) -> None:
        """Add a sight that counts for `seconds`, after `unseen` seconds out of sight; `likeness` is its Dice."""
        self.solid += seconds * (likeness - _LEVEL) / (1 - _LEVEL) - unseen
        self.walked += math.dist(self.here, here) ** 2
        self.here = here

    def suffices(self, seconds: float, starting: bool) -> bool:
        """Whether this is an object; `seconds` for one at rest, and motion alone while the model starts."""
        moved = self.motion / _SIGNIFICANT
        return moved >= 1 if starting else self.solid >= seconds * (1 - moved)


@dataclass(eq=False)
class Track:
    """An object that is followed, confirmed when `event` has an ID."""

    event: Event
    last: Detection
    clock: float  # seconds of the last sight
    earliest: float  # seconds before which it is not confirmed
    confirmation: TrackConfirmation
    seen: float = 0.0  # seconds in sight
    velocity: Point = (0.0, 0.0)  # pixels per second, smoothed
    host: int = 0  # ID of the object it has merged into
    anchor: tuple[float, float, float] | None = None  # while merged: seconds, x, y from which to predict
    pending: list[ObjectInFrame] = field(default_factory=list)  # sights until the confirmation

    def predicted(self, clock: float) -> Point:
        """Return the centroid at `clock` seconds at constant velocity."""
        since, x, y = self.anchor or (self.clock, *self.last.centroid)
        return x + self.velocity[0] * (clock - since), y + self.velocity[1] * (clock - since)

    def shift(self, clock: float) -> tuple[int, int]:
        """Return the predicted movement (x, y) of the last mask in pixels."""
        x, y = self.predicted(clock)
        return round(x - self.last.centroid[0]), round(y - self.last.centroid[1])

    def freeze(self, clock: float) -> None:
        """Predict from here with the present velocity, because a merged mask does not show the object's motion."""
        if self.anchor is None:
            self.anchor = (clock, *self.predicted(clock))

    def see(self, detection: Detection, clock: float, interval: float, counted: float, gap: float) -> None:
        """Update the motion model and the confirmation with a sight."""
        passed, before = clock - self.clock, self.last
        if self.anchor is None and passed > 0:
            weight = _SMOOTHING if self.event.frames > 1 else 1.0
            step = ((b - a) / passed for a, b in zip(before.centroid, detection.centroid, strict=True))
            x, y = (old + weight * (new - old) for old, new in zip(self.velocity, step, strict=True))
            self.velocity = (x, y)
        self.last, self.clock = detection, clock
        self.seen += interval
        way = (round(self.velocity[0] * passed), round(self.velocity[1] * passed))
        common = max(intersection(before, detection), intersection(before, detection, way))
        likeness = 2 * common / (before.area + detection.area)
        self.confirmation.add(detection.centroid, likeness, counted, max(passed - gap, 0.0))

    def add(self, one: ObjectInFrame) -> None:
        """Add a sight to the event; a track of more than 4096 points loses every second one."""
        event = self.event
        event.end_frame, event.end_time = one.frame, one.time
        if one.area > event.peak_area:
            event.peak_area, event.peak_frame, event.peak_box = one.area, one.frame, one.box
        if event.frames % event.step == 0:
            if len(event.areas) >= _MOST_POINTS:
                event.step *= 2
                del event.boxes[1::2], event.centroids[1::2], event.areas[1::2]
            if event.frames % event.step == 0:
                event.boxes.append((one.frame, *one.box))
                event.centroids.append(one.centroid)
                event.areas.append(one.area)
        event.frames += 1
        event.regions += [name for name in one.regions if name not in event.regions]

    def restart(self, one: ObjectInFrame) -> None:
        """Forget the sights before `one`, the newest."""
        self.event = Event(EventKind.OBJECT, 0, one.frame, one.frame, one.time, one.time)
        self.pending, self.seen = [one], 0.0
        self.confirmation = TrackConfirmation(one.centroid, one.centroid)
        self.add(one)

    def confirm(self, number: int) -> list[ObjectInFrame]:
        """Set the ID; return the sights so far."""
        self.event.id = number
        known = [replace(one, id=number) for one in self.pending]
        self.pending = []
        return known
