"""Objects linked from frame to frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.events.detection import Detection, detect
from bgsub.events.event import Event, EventKind, ObjectInFrame
from bgsub.events.evidence import Experience
from bgsub.events.matching import link
from bgsub.events.track import Track
from bgsub.separation import FrameEvent, Separation
from bgsub.video.regions import Regions
from bgsub.video.sources.base import Frame

DEFAULT_RATE = 25.0
MIN_AREA_SHARE = 2.5e-4
"""Least share of the frame that is an object, where no area is given."""

_JOIN_SHARE = 0.005  # of the shorter side of the frame, to either side of a part
# After a change of light left-overs may look like objects: for so many seconds, or frames where these last longer.
_SETTLING, _SETTLING_FRAMES = 1.0, 2
_LATEST = 4  # times that long after its first sight it is an object, however often the light changes
_SATELLITE_AREA, _SATELLITE_REACH = 0.2, 0.2  # of the area and of the box of the object it belongs to
_CUTS = (FrameEvent.SCENE_CHANGE, FrameEvent.SCENE_RETURN)
_SIGHTS = 3  # that make an object, however much time each stands for, except where whatever comes is one
_EPSILON = 1e-6  # seconds: sums of intervals
_MOST_POINTS = 4096  # of a track
_REGION_SHARE, _FILLED_SHARE = 0.25, 0.5  # of the object, of the region


class ObjectLinker:
    """Follow the connected parts of the foreground from frame to frame.

    Each frame's objects are assigned to the tracks twice by the Hungarian algorithm: first those that overlap, by
    intersection over union of the masks, where the object was and where it should be at constant velocity, the
    larger of both; then the rest by the distance from the predicted centroid, within a gate of 0.75 box diagonals
    (2 for an object seen once) and half of the predicted way, for areas that differ by a factor of 5 at most.

    Where objects merge, the one with the larger overlap keeps its identity and the others are hidden: each one's
    place is predicted further, and where the merged object splits within `max_hidden` seconds, the parts get the
    identities back that fit the predictions best. Where an object splits that nothing is hidden in, the part with
    the larger overlap keeps the identity and the others are new. While hidden, an object is in no frame.

    An object is confirmed, and gets its identity, once it was seen for `min_duration` seconds, each frame standing for
    the time since the one before, but not for a gap in the stream, and once that is no flicker: each sight counts by
    how much it looks like the one before (its Dice coefficient, against the level half way between those of noise and
    of objects, which are learned from the scene), a gap counts against it, and steps that lead somewhere count for it.
    What flickers so much that nothing speaks for it begins anew. While the model of the background starts, only those
    steps count. It is not confirmed within a second, or two frames if those last longer, after a change of the light,
    whose left-overs look like objects; and not as long as it is a satellite, at most a fifth as large as a confirmed
    object and beside it by at most a fifth of that one's extent: most of those are parts of it that were torn off.
    What a satellite was before is forgotten. Tracks are thinned: after 4096 points every second one is dropped, and
    from then on every second one is taken.

    Parameters
    ----------
    fps : float, optional
        Frames per second where frames have no time. If that is missing, too, 25 is assumed within, but times
        remain None.
    max_gap : float, default 0.5
        Seconds for which an object may be out of sight.
    min_duration : float, default 0.2
        Seconds for which it must be seen, all of it looking the same; longer where it does not.
    min_area : int, optional
        Least area in pixels; by default 2.5e-4 of the frame and at least 4.
    join : int, optional
        Parts of the foreground that are at most twice as many pixels apart are one object; by default 0.005 of the
        shorter side of the frame.
    max_hidden : float, default 3
        Seconds for which an object may be hidden in another one.
    regions : Regions, optional
        Where objects are looked for: one is in a region when a quarter of it is, or when it fills half of it.

    Attributes
    ----------
    count : int
        Objects that were confirmed so far: the identity of the newest one.
    gap : float
        Seconds between the newest frame and the one before.
    interval : float
        Seconds that the newest frame stands for: those, but no more than there were before the frame before.

    Raises
    ------
    ParameterError
        If a number is out of range.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.events import ObjectLinker
    >>> linker = ObjectLinker(fps=25)
    >>> for frame, separation in bgsub.separate("video.mp4"):
    ...     boxes = {one.id: one.box for one in linker.update(frame, separation)}
    >>> objects = linker.finish()
    >>> all(one.kind == "object" and one.start_frame <= one.end_frame for one in objects)
    True
    """

    def __init__(
        self,
        fps: float | None = None,
        *,
        max_gap: float = 0.5,
        min_duration: float = 0.2,
        min_area: int | None = None,
        join: int | None = None,
        max_hidden: float = 3.0,
        regions: Regions | None = None,
    ) -> None:
        for name, value in (("max_gap", max_gap), ("min_duration", min_duration), ("max_hidden", max_hidden)):
            if not 0 <= value < math.inf:
                raise ParameterError(f"{name} must be a finite number of seconds, 0 or more, got {value!r}")
        if fps is not None and not 0 < fps < math.inf:
            raise ParameterError(f"fps must be a positive number of frames per second, got {fps!r}")
        if min_area is not None and min_area < 1:
            raise ParameterError(f"min_area must be 1 or more, got {min_area!r}")
        if join is not None and join < 0:
            raise ParameterError(f"join must be 0 or more, got {join!r}")
        self._fps = None if fps is None else float(fps)
        self._max_gap, self._min_duration, self._max_hidden = max_gap, min_duration, max_hidden
        self._min_area, self._join, self._regions = min_area, join, regions
        self._masks: dict[str, np.ndarray] = {}
        self._areas: dict[str, int] = {}
        self._tracks: list[Track] = []
        self._done: list[Event] = []
        self.count = 0
        self._experience = Experience()
        self._starting = False
        self._clock: float | None = None
        self._settled_at = -math.inf
        self._gap_before: float | None = None
        self.gap = self.interval = 1 / (self._fps or DEFAULT_RATE)

    @property
    def clock(self) -> float:
        """Seconds of the newest frame, 0 before the first."""
        return self._clock or 0.0

    @property
    def _settling(self) -> float:
        """Seconds after a change of light in which its left-overs may look like objects."""
        return max(_SETTLING, _SETTLING_FRAMES * self.interval)

    @property
    def settled(self) -> int | None:
        """Index of the first frame whose objects are not all known yet; None where all are."""
        return min((track.event.start_frame for track in self._tracks if track.event.id == 0), default=None)

    def time(self, frame: Frame) -> float | None:
        """Return the time of a frame in seconds; None where neither the frame nor the rate tells."""
        if frame.time is not None:
            return frame.time
        return None if self._fps is None else frame.index / self._fps

    def update(self, frame: Frame, separation: Separation) -> list[ObjectInFrame]:
        """Take the next frame; return the objects that are in it.

        At an object's confirmation it is returned for the frames before as well, so that each object comes
        once for each frame in which it was seen.

        Parameters
        ----------
        frame : Frame
            Its index and time are taken.
        separation : Separation
            Its mask is taken, and what befell the whole frame.

        Returns
        -------
        list of ObjectInFrame
            Those that are confirmed; the first time with all their frames before.
        """
        clock = self._tick(frame)
        if self._regions is not None and not self._masks:
            self._masks = self._regions.masks(separation.mask.shape)
            self._areas = {name: int(np.count_nonzero(mask)) for name, mask in self._masks.items()}
        self._starting = separation.phase == "start"
        cut = separation.event in _CUTS
        self._end([track for track in self._tracks if cut or self._is_over(track, clock)])
        if separation.event == FrameEvent.LIGHT_CHANGE:
            self._settled_at = clock + self._settling
            for track in self._tracks:
                track.earliest = self._settled_at  # without effect on those that are confirmed
        join = round(_JOIN_SHARE * min(separation.mask.shape)) if self._join is None else self._join
        found = detect(separation.mask, self._least(separation.mask.size), join)
        links = link(self._tracks, found, clock)
        result: list[ObjectInFrame] = []
        for track in self._tracks:
            if id(track) in links:
                detection = found[links[id(track)]]
                unseen = max(clock - track.clock - self.gap, 0.0)
                likeness = track.see(detection, clock, self.interval)
                counted = min(self.interval, self._min_duration / _SIGHTS)
                track.evidence.step(detection.centroid, likeness, counted, unseen, self._experience.level)
                result += self._record(track, detection, frame, clock)
        taken = set(links.values())
        for index, detection in enumerate(found):
            if index not in taken:
                result += self._begin(detection, frame, clock)
        return result

    def skip(self, frame: Frame) -> list[ObjectInFrame]:
        """Take the time of the next frame, but look for no objects in it."""
        self._tick(frame)
        return []

    def take_finished(self) -> list[Event]:
        """Return the events that have ended since the last call, in the order of their ends."""
        done, self._done = self._done, []
        return done

    def finish(self) -> list[Event]:
        """End all objects; return what has not been taken yet."""
        self._end(self._tracks)
        return self.take_finished()

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, as types that JSON knows; finished events must have been taken."""
        order = {id(track): number for number, track in enumerate(self._tracks)}
        return {
            "clock": self._clock,
            "gap": self._gap_before,
            "count": self.count,
            "settled_at": max(self._settled_at, -1e9),
            "experience": asdict(self._experience),
            "tracks": [track.state(order) for track in self._tracks],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        self._clock, self.count, self._done = state["clock"], state["count"], []
        self._settled_at, self._gap_before = state["settled_at"], state["gap"]
        self._experience = Experience(**state["experience"])
        self._tracks = Track.restored(state["tracks"])

    def _least(self, pixels: int) -> int:
        return self._min_area if self._min_area is not None else max(4, round(MIN_AREA_SHARE * pixels))

    def _tick(self, frame: Frame) -> float:
        """Return the seconds of a frame, always later than those before."""
        usual = 1 / (self._fps or DEFAULT_RATE)
        time = self.time(frame)
        clock = frame.index * usual if time is None else time
        if self._clock is not None:
            if clock <= self._clock:
                clock = self._clock + usual
            gap = clock - self._clock
            self.interval = min(gap, self._gap_before or gap)
            self.gap = self._gap_before = gap
        self._clock = clock
        return clock

    def _begin(self, detection: Detection, frame: Frame, clock: float) -> list[ObjectInFrame]:
        time = self.time(frame)
        event = Event(EventKind.OBJECT, 0, frame.index, frame.index, time, time)
        track = Track(event, detection, clock, self.interval, max(clock, self._settled_at))
        track.evidence.solid = min(self.interval, self._min_duration) * self._experience.trust
        self._tracks.append(track)
        return self._record(track, detection, frame, clock)

    def _record(self, track: Track, detection: Detection, frame: Frame, clock: float) -> list[ObjectInFrame]:
        """Add a frame to a track; return what is known to be an object by that."""
        regions = tuple(self._regions_of(detection))
        one = ObjectInFrame(track.event.id, frame.index, self.time(frame), regions=regions, **vars(detection))
        if track.event.id:
            self._experience.learn(track.evidence, True)
            track.add(one, _MOST_POINTS)
            return [one]
        if track.evidence.solid <= 0:
            self._experience.judge(track.evidence, False)
            track.restart(one)
            return []
        track.add(one, _MOST_POINTS)
        track.pending.append(one)
        settling = clock < track.earliest - _EPSILON and track.seen < _LATEST * self._settling - _EPSILON
        least = self._min_duration - _EPSILON
        if settling or track.seen < least or not track.evidence.suffices(least, self._starting):
            return []
        if self._is_satellite(track):
            track.restart(one)
            return []
        self._experience.judge(track.evidence, True)
        self.count += 1
        return track.confirm(self.count)

    def _is_satellite(self, track: Track) -> bool:
        """Whether a new object is a small one close to a confirmed one: a part of it that was torn off."""
        x, y, w, h = track.last.box
        for other in self._tracks:
            if other.event.id == 0 or track.last.area > _SATELLITE_AREA * other.last.area:
                continue
            left, top, width, height = other.last.box
            margin = _SATELLITE_REACH * max(width, height)
            beside = x > left + width + margin or x + w < left - margin
            if not beside and y <= top + height + margin and y + h >= top - margin:
                return True
        return False

    def _regions_of(self, detection: Detection) -> list[str]:
        x, y, w, h = detection.box
        names = []
        for name, mask in self._masks.items():
            inside = np.count_nonzero(mask[y : y + h, x : x + w] & detection.mask)
            if inside >= _REGION_SHARE * detection.area or inside >= _FILLED_SHARE * self._areas[name]:
                names.append(name)
        return names

    def _is_over(self, track: Track, clock: float) -> bool:
        """Whether a track was out of sight too long; never if it was seen in the frame before, however long ago."""
        limit = self._max_gap if track.host is None else self._max_hidden
        return clock - track.clock > max(limit, self.gap) + _EPSILON

    def _end(self, tracks: Sequence[Track]) -> None:
        """Finish tracks; what they hide is lost with them, unless it comes back in time."""
        over = {id(track) for track in tracks}
        for track in tracks:
            if track.event.id == 0 or track.event.frames == 1:
                self._experience.judge(track.evidence, False)
        self._done += [track.event for track in tracks if track.event.id]
        self._tracks = [track for track in self._tracks if id(track) not in over]
        for track in self._tracks:
            if track.host is not None and id(track.host) in over:
                track.host = None
            elif track.anchor is not None and track.host is None and not any(t.host is track for t in self._tracks):
                track.anchor = None
