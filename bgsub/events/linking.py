"""Tracking of objects from frame to frame."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from bgsub.errors import ParameterError
from bgsub.events.detection import Detection, detect, look
from bgsub.events.event import OBJECT, Event, ObjectInFrame
from bgsub.events.motion import check_seconds
from bgsub.events.track import Track, assign
from bgsub.separation import FrameEvent, Separation
from bgsub.video.regions import Regions
from bgsub.video.sources.base import Frame
from bgsub.video.timecode import CLOSE

DEFAULT_FPS = 25.0
MIN_AREA_SHARE = 2.5e-4  # smallest share of the frame that is an object by default

_JOIN_SHARE = 0.005  # of the shorter side of the frame, to either side of a part (three times above and below)
# Remains of a light change may look like objects for so many seconds, or for so many frames if these last longer.
_SETTLING, _SETTLING_FRAMES = 1.5, 2
_LATEST = 4  # times that long, after which a track is confirmed even if the light keeps changing
_TOO_LARGE = -1  # instead of the ID of the object that hides it
_SATELLITE_AREA, _SATELLITE_REACH = 0.2, 0.2  # of the area and of the box of the object it belongs to
_CUTS = (FrameEvent.SCENE_CHANGE, FrameEvent.SCENE_RETURN)
_SIGHTS = 3  # least number of sights of a confirmed track, unless most tracks are confirmed
_UNDECIDED = 10  # times `min_duration` in sight, after which an undecided track is confirmed
_MOST_PENDING = 1000  # sights of an undecided track, as of a model that never learns
REGION_SHARE, FILLED_SHARE = 0.25, 0.5  # least share of the object, or of the region, that lies in the other


@dataclass
class LinkerState:
    """State of a linker after a frame; finished events are not part of it."""

    interval: float  # seconds that the newest frame represents: `gap`, but no more than the gap before it
    clock: float | None = None
    gap: float | None = None  # before the newest frame
    count: int = 0  # confirmed objects: the ID of the newest one
    dropped: int = 0  # tracks that were never confirmed
    settled_at: float = -math.inf  # seconds at which the remains of a light change have disappeared
    tracks: list[Track] = field(default_factory=list)


class ObjectLinker:
    """Track objects: connected parts of the foreground, from frame to frame.

    The Hungarian algorithm assigns the objects of each frame to the tracks twice: first by the intersection over union
    of the masks, at the last place or at the one predicted at constant velocity, whichever is larger; then the rest by
    the distance from the predicted centroid, within a gate of half a box diagonal (2 for an object seen once) plus half
    of the predicted way, and for areas that differ by a factor of 5 at most. The velocity is a mean with a time
    constant of 0.4 s.

    Both gains are multiplied by the likeness of the colours: the chromaticities of the detection are compared with the
    mean ones of the track while it was alone. Frames in grey have none.

    If objects merge, the one with the larger overlap keeps its ID and the others are hidden: their positions are
    predicted further, and if the merged object splits within `max_hidden` seconds, its parts get the IDs of the objects
    with the most similar colours and the nearest predictions. If an object splits in which none is hidden, the part
    with the larger overlap and the more similar colours keeps the ID and the others are new objects. Hidden objects are
    not reported. An object that moves in the opposite direction with another size within 2.4 s has become another one
    while both were one part of the foreground: its track starts again.

    A track becomes an object, with an ID, after `min_duration` seconds in sight. A sight counts more the more its shape
    is like the one before (Dice coefficient), and negatively below 0.55; gaps count negatively, and movement in one
    direction counts in addition. A track whose count falls to 0 starts again; one with a count in between is an object
    after ten times `min_duration` in sight. While the background model starts, only movement counts. One sight suffices
    if frames are `min_duration` and half of `max_gap` or more apart. Within 1.5 seconds (or two frames) after a light
    change, only a track that has moved by its own size in one direction is confirmed. A satellite never is: a track
    with at most a fifth of the area of a confirmed object, at most a fifth of its extent away from it. Tracks of events
    are thinned: after 4096 points every second one is dropped.

    Parameters
    ----------
    fps : float or Fraction, optional
        Frames per second for frames without time. Without both, 25 is assumed internally and times are None.
    max_gap : float, default 1
        Longest time in seconds that an object may be out of sight.
    min_duration : float, default 0.2
        Seconds that an object must be seen, if its shape stays the same; longer if it does not.
    min_area : int, optional
        Least area in pixels; by default 2.5e-4 of the frame and at least 4.
    join : int, optional
        Parts of the foreground at most twice as many pixels apart are one object, six times as many if one is above
        the other; by default 0.005 of the shorter side of the frame.
    max_area, max_width, max_height : float, default 1
        Largest area, width and height of an object, as shares of those of the frame.
    max_hidden : float, default 3
        Longest time in seconds that an object may be hidden in another one, or larger than the limits.
    regions : Regions, optional
        Regions to report for objects; an attribute as well. An object is in a region if a quarter of the object is, or
        if it fills half of the region.

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
        fps: float | Fraction | None = None,
        *,
        max_gap: float = 1.0,
        min_duration: float = 0.2,
        min_area: int | None = None,
        join: int | None = None,
        max_area: float = 1.0,
        max_width: float = 1.0,
        max_height: float = 1.0,
        max_hidden: float = 3.0,
        regions: Regions | None = None,
    ) -> None:
        check_seconds(max_gap=max_gap, min_duration=min_duration, max_hidden=max_hidden)
        if fps is not None and not 0 < fps < math.inf:
            raise ParameterError(f"fps must be a positive number of frames per second, got {fps!r}")
        if min_area is not None and min_area < 1:
            raise ParameterError(f"min_area must be 1 or more, got {min_area!r}")
        if join is not None and join < 0:
            raise ParameterError(f"join must be 0 or more, got {join!r}")
        for name, share in (("max_area", max_area), ("max_width", max_width), ("max_height", max_height)):
            if not 0 < share <= 1:
                raise ParameterError(f"{name} must be a share of the frame, more than 0 and at most 1, got {share!r}")
        self._most = max_area, max_width, max_height
        self._fps = None if fps is None else float(fps)
        self._max_gap, self._min_duration, self._max_hidden = max_gap, min_duration, max_hidden
        self._min_area, self._join, self.regions = min_area, join, regions
        self._masks: dict[str, np.ndarray] = {}
        self._areas: dict[str, int] = {}
        self._done: list[Event] = []
        self._starting, self._size = False, (0, 0)
        self.state = LinkerState(interval=1 / (self._fps or DEFAULT_FPS))

    def use_regions(self, regions: Regions | None) -> None:
        """Report other regions from the next frame on."""
        self.regions, self._masks = regions, {}

    @property
    def clock(self) -> float:
        """Seconds of the newest frame, 0 before the first."""
        return self.state.clock or 0.0

    @property
    def gap(self) -> float:
        """Seconds between the newest frame and the one before."""
        return self.state.gap or self.state.interval

    @property
    def settled(self) -> int | None:
        """Index of the first frame whose objects are not all known yet; None if all are known."""
        return min((track.event.start_frame for track in self.state.tracks if track.event.id == 0), default=None)

    def time(self, frame: Frame) -> float | None:
        """Return the time of a frame in seconds; None if neither the frame nor `fps` gives it."""
        if frame.time is not None:
            return frame.time
        return None if self._fps is None else frame.index / self._fps

    def update(self, frame: Frame, separation: Separation) -> list[ObjectInFrame]:
        """Process the next frame and return its confirmed objects.

        When an object is confirmed, its sights in earlier frames are returned as well, so that each object is
        returned once for each frame in which it was seen.
        """
        clock, state = self._tick(frame), self.state
        if self.regions is not None and not self._masks:
            self._masks = self.regions.masks(separation.mask.shape)
            self._areas = {name: int(np.count_nonzero(mask)) for name, mask in self._masks.items()}
        self._starting = separation.phase == "start"
        cut = separation.event in _CUTS
        self._end([track for track in state.tracks if cut or self._is_over(track, clock)])
        if separation.event == FrameEvent.LIGHT_CHANGE:
            state.settled_at = clock + self._settling
            for track in state.tracks:
                track.earliest = state.settled_at  # without effect on confirmed tracks
        mask = separation.mask
        self._size = mask.shape[1], mask.shape[0]
        min_area = max(4, round(MIN_AREA_SHARE * mask.size)) if self._min_area is None else self._min_area
        found = detect(mask, min_area, round(_JOIN_SHARE * min(mask.shape)) if self._join is None else self._join)
        found = [replace(one, look=look(frame.image, one)) for one in found]
        fits = [self._fits(one, mask.shape) for one in found]
        links = assign(state.tracks, found, clock)
        result: list[ObjectInFrame] = []
        for row, track in enumerate(list(state.tracks)):
            if row in links and not fits[links[row]]:
                track.host = _TOO_LARGE if track.event.id else 0
            elif row in links:
                counted = min(state.interval, self._min_duration / _SIGHTS)
                track.see(found[links[row]], clock, state.interval, counted, self.gap)
                if track.event.id and track.has_changed():
                    self._done.append(track.event)
                    for other in state.tracks:
                        other.host = 0 if other.host == track.event.id else other.host
                    track.replace(frame.index, self.time(frame), state.interval, self._min_duration)
                result += self._record(track, frame)
        for index in sorted(set(np.flatnonzero(fits)) - set(links.values())):
            result += self._begin(found[index], frame)
        return result

    def _fits(self, one: Detection, shape: tuple[int, ...]) -> bool:
        area, width, height = self._most
        (rows, columns), (_, _, w, h) = shape, one.box
        return one.area <= area * rows * columns and w <= width * columns and h <= height * rows

    def skip(self, frame: Frame) -> list[ObjectInFrame]:
        """Take the time of the next frame without looking for objects in it."""
        self._tick(frame)
        return []

    def take_finished(self) -> list[Event]:
        """Return the events that have ended since the last call, in the order of their ends."""
        done, self._done = self._done, []
        return done

    def finish(self) -> list[Event]:
        """End all objects; return the events that were not taken yet."""
        self._end(self.state.tracks)
        return self.take_finished()

    @property
    def _settling(self) -> float:
        """Seconds after a light change in which its remains may look like objects."""
        return max(_SETTLING, _SETTLING_FRAMES * self.state.interval)

    def _tick(self, frame: Frame) -> float:
        """Return the seconds of a frame, always later than those before."""
        usual, state = 1 / (self._fps or DEFAULT_FPS), self.state
        time = self.time(frame)
        clock = frame.index * usual if time is None else time
        if state.clock is not None:
            if clock <= state.clock:
                clock = state.clock + usual
            gap = clock - state.clock
            state.interval = min(gap, state.gap or gap)
            state.gap = gap
        state.clock = clock
        return clock

    def _begin(self, detection: Detection, frame: Frame) -> list[ObjectInFrame]:
        """Start a track; its first sight counts fully if frames are rare, else by the share of confirmed tracks."""
        state, time = self.state, self.time(frame)
        event = Event(OBJECT, 0, frame.index, frame.index, time, time)
        is_rare = 2 * state.interval >= self._max_gap - CLOSE  # an object may leave before the next frame
        trust = 1.0 if is_rare else (1 + state.count) / (1 + state.count + state.dropped)
        solid = min(state.interval, self._min_duration) * trust
        earliest = max(self.clock, state.settled_at)
        track = Track(event, detection, self.clock, earliest, detection.centroid, solid, seen=state.interval)
        state.tracks.append(track)
        return self._record(track, frame)

    def _record(self, track: Track, frame: Frame) -> list[ObjectInFrame]:
        """Add the newest sight to a track; return the sights that are known to be of an object."""
        state, last = self.state, track.last
        regions = tuple(self._regions_of(last))
        seen = last.box, last.centroid, last.area, last.mask
        one = ObjectInFrame(track.event.id, frame.index, self.time(frame), *seen, regions)
        if not track.event.id and track.solid <= 0:
            state.dropped += 1
            track.restart(one)
            return []
        track.add(one)
        if track.event.id:
            return [one]
        track.pending.append(one)
        settling = self.clock < track.earliest - CLOSE and track.seen < _LATEST * self._settling - CLOSE
        settling = settling and not track.has_left()
        least = self._min_duration - CLOSE
        lasts = (track.seen >= _UNDECIDED * least and not self._starting) or len(track.pending) >= _MOST_PENDING
        if settling or track.seen < least or not (lasts or track.is_object(least, self._starting)):
            return []
        if self._is_satellite(track):
            track.restart(one)
            return []
        state.count += 1
        track.event.id, track.event.frame_size = state.count, self._size
        known, track.pending = [replace(sight, id=state.count) for sight in track.pending], []
        return known

    def _is_satellite(self, track: Track) -> bool:
        """Whether a new track is small and close to a confirmed object: probably a part of it."""
        x, y, w, h = track.last.box
        for other in self.state.tracks:
            left, top, width, height = other.last.box
            margin = _SATELLITE_REACH * max(width, height)
            is_near = x <= left + width + margin and x + w >= left - margin
            is_near = is_near and y <= top + height + margin and y + h >= top - margin
            if is_near and other.event.id and track.last.area <= _SATELLITE_AREA * other.last.area:
                return True
        return False

    def _regions_of(self, detection: Detection) -> list[str]:
        x, y, w, h = detection.box
        names = []
        for name, mask in self._masks.items():
            inside = np.count_nonzero(mask[y : y + h, x : x + w] & detection.mask)
            if inside >= REGION_SHARE * detection.area or inside >= FILLED_SHARE * self._areas[name]:
                names.append(name)
        return names

    def _is_over(self, track: Track, clock: float) -> bool:
        """Whether a track was out of sight too long; never if it was seen in the frame before."""
        limit = self._max_hidden if track.host else self._max_gap
        return clock - track.clock > max(limit, self.gap) + CLOSE

    def _end(self, tracks: Sequence[Track]) -> None:
        over = {id(track) for track in tracks}
        self.state.dropped += sum(track.event.id == 0 for track in tracks)
        self._done += [track.event for track in tracks if track.event.id]
        self.state.tracks = [track for track in self.state.tracks if id(track) not in over]
