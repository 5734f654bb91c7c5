"""An object followed from frame to frame."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bgsub.events._pack import pack, unpack
from bgsub.events.detection import Detection, intersection
from bgsub.events.event import Event, EventKind, ObjectInFrame
from bgsub.events.evidence import Evidence, Point

_SMOOTHING = 0.35  # weight of the newest step in the velocity


@dataclass(eq=False)
class Track:
    """An object that is being followed."""

    event: Event  # what is known of it so far
    last: Detection  # as it was seen last
    clock: float  # seconds at which it was seen last
    seen: float = 0.0  # seconds for which it was seen
    earliest: float = 0.0  # second before which it is not confirmed
    velocity: Point = (0.0, 0.0)  # pixels per second, smoothed
    host: Track | None = None  # the object that hides it
    # while it hides others or is hidden: second, x and y from which its place is predicted
    anchor: tuple[float, float, float] | None = None
    pending: list[ObjectInFrame] = field(default_factory=list)  # what it was seen as until it is known to be an object
    evidence: Evidence = field(init=False)  # that it is one

    def __post_init__(self) -> None:
        self.evidence = Evidence(self.last.centroid, self.last.centroid)

    @property
    def speed(self) -> float:
        """Pixels per second."""
        return math.hypot(*self.velocity)

    def predicted(self, clock: float) -> Point:
        """Return where its centroid should be at a second, at constant velocity."""
        since, x, y = self.anchor or (self.clock, *self.last.centroid)
        return x + self.velocity[0] * (clock - since), y + self.velocity[1] * (clock - since)

    def shift(self, clock: float) -> tuple[int, int]:
        """Return by how many pixels (x, y) its last mask should have moved at a second."""
        x, y = self.predicted(clock)
        return round(x - self.last.centroid[0]), round(y - self.last.centroid[1])

    def hold(self, clock: float) -> None:
        """Predict from where it should be now on: its own motion cannot be seen."""
        if self.anchor is None:
            self.anchor = (clock, *self.predicted(clock))

    def see(self, detection: Detection, clock: float, interval: float) -> float:
        """Take over what it looks like now; return how much it looks like before: a Dice coefficient."""
        passed, before = clock - self.clock, self.last
        if self.anchor is None and passed > 0:
            step = [(b - a) / passed for a, b in zip(self.last.centroid, detection.centroid, strict=True)]
            weight = _SMOOTHING if self.event.frames > 1 else 1.0
            old = self.velocity
            self.velocity = (old[0] + weight * (step[0] - old[0]), old[1] + weight * (step[1] - old[1]))
        self.last, self.clock = detection, clock
        self.seen += interval
        way = (round(self.velocity[0] * passed), round(self.velocity[1] * passed))
        common = max(intersection(before, detection), intersection(before, detection, way))
        return 2 * common / (before.area + detection.area)

    def add(self, one: ObjectInFrame, most_points: int) -> None:
        """Add a frame to the event; from `most_points` on every second point of the track is dropped."""
        event = self.event
        event.end_frame, event.end_time = one.frame, one.time
        if one.area > event.peak_area:
            event.peak_area, event.peak_frame, event.peak_box = one.area, one.frame, one.box
        if event.frames % event.step == 0:
            if len(event.areas) >= most_points:
                event.step *= 2
                del event.boxes[1::2], event.centroids[1::2], event.areas[1::2]
            if event.frames % event.step == 0:
                event.boxes.append((one.frame, *one.box))
                event.centroids.append(one.centroid)
                event.areas.append(one.area)
        event.frames += 1
        event.regions += [name for name in one.regions if name not in event.regions]

    def state(self, order: dict[int, int]) -> dict[str, Any]:
        """Return everything as types that JSON knows; `order` numbers the tracks by ``id()``."""
        return {
            "event": asdict(self.event),
            "last": _seen_state(self.last),
            "clock": self.clock,
            "seen": self.seen,
            "earliest": self.earliest,
            "velocity": list(self.velocity),
            "host": None if self.host is None else order[id(self.host)],
            "anchor": self.anchor,
            "evidence": asdict(self.evidence),
            "pending": [
                {**_seen_state(one), "frame": one.frame, "time": one.time, "regions": list(one.regions)}
                for one in self.pending
            ],
        }

    @classmethod
    def restored(cls, states: Iterable[dict[str, Any]]) -> list[Track]:
        """Return the tracks that `state` was taken of, in their order."""
        tracks, hosts = [], []
        for state in states:
            track = cls(Event.from_state(state["event"]), Detection(**_seen(state["last"])), state["clock"])
            track.seen, track.earliest, track.velocity = state["seen"], state["earliest"], tuple(state["velocity"])
            track.anchor = None if state["anchor"] is None else tuple(state["anchor"])
            places = {name: tuple(state["evidence"][name]) for name in ("origin", "here")}
            track.evidence = Evidence(**{**state["evidence"], **places})
            track.pending = [
                ObjectInFrame(0, one["frame"], one["time"], regions=tuple(one["regions"]), **_seen(one))
                for one in state["pending"]
            ]
            tracks.append(track)
            hosts.append(state["host"])
        for track, host in zip(tracks, hosts, strict=True):
            track.host = None if host is None else tracks[host]
        return tracks

    def restart(self, one: ObjectInFrame) -> None:
        """Forget what it was seen as before `one`, the newest: it begins now."""
        self.event = Event(EventKind.OBJECT, 0, one.frame, one.frame, one.time, one.time)
        self.pending, self.seen, self.evidence = [one], 0.0, Evidence(one.centroid, one.centroid)
        self.add(one, 2)

    def confirm(self, number: int) -> list[ObjectInFrame]:
        """Give it its identity; return what it was seen as so far."""
        self.event.id = number
        known = [replace(one, id=number) for one in self.pending]
        self.pending = []
        return known


def _seen_state(one: Detection | ObjectInFrame) -> dict[str, Any]:
    return {"box": list(one.box), "centroid": list(one.centroid), "area": one.area, "mask": pack(one.mask)}


def _seen(state: dict[str, Any]) -> dict[str, Any]:
    mask, box, centroid = unpack(state["mask"]), tuple(state["box"]), tuple(state["centroid"])
    return {"box": box, "centroid": centroid, "area": state["area"], "mask": mask}
