"""Motion events: their rules and their detection."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, did_you_mean
from bgsub.events.event import MOTION, Event, Motion
from bgsub.separation import FOREGROUND, Separation
from bgsub.video.timecode import CLOSE

FRAME = ""  # name of the whole frame where there are no regions

# Motion in consecutive frames is one event up to so many seconds apart, or twice the usual time between two frames.
_UNSEEN = 1.0
_RARE = 0.5  # seconds between frames from which each frame may be an event


class Cover(NamedTuple):
    """The foreground in a region or in the whole frame."""

    pixels: int
    share: float  # of the region, in [0, 1]


Covers = Mapping[str, Cover]


@dataclass(frozen=True)
class MotionRules:
    """Rules of what counts as a motion event.

    Attributes
    ----------
    min_share : float
        Smallest share of the frame, in [0, 1], that must be foreground; with regions, of at least one region.
    min_area : int, optional
        The same in pixels, instead of `min_share`.
    min_duration : float
        Seconds in which every frame must show motion. One frame is enough if frames are as far apart, and 0.5 s at
        least.
    max_gap : float
        Seconds without motion that do not end an event.
    region_shares : mapping of str to float
        `min_share` of single regions by name.

    Raises
    ------
    ParameterError
        If a value is out of range.

    Examples
    --------
    >>> from bgsub.events import MotionRules
    >>> MotionRules(min_share=0.01, max_gap=5, region_shares={"gate": 0.05}).least_share("gate")
    0.05
    """

    min_share: float = 0.002
    min_area: int | None = None
    min_duration: float = 0.3
    max_gap: float = 3.0
    region_shares: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_seconds(min_duration=self.min_duration, max_gap=self.max_gap)
        for share in (self.min_share, *self.region_shares.values()):
            if not 0 <= share <= 1:
                raise ParameterError(f"min_share must lie in [0, 1], got {share!r}")
        if self.min_area is not None and self.min_area < 0:
            raise ParameterError(f"min_area must be a number of pixels, 0 or more, got {self.min_area!r}")

    def check_regions(self, names: Collection[str]) -> None:
        """Raise ParameterError if `region_shares` has a region that is not among `names`."""
        for name in self.region_shares:
            if name not in names:
                hint = did_you_mean(name, list(names)) if names else f"; --roi {name}=REGION names one"
                raise ParameterError(
                    f"a motion threshold is for a region: {', '.join(names) or 'none'}; got {name!r}{hint}"
                )

    def least_share(self, region: str) -> float:
        """Return the smallest share of a region that counts as motion."""
        return self.region_shares.get(region, self.min_share)

    def moving(self, separation: Separation, covers: Covers) -> list[str]:
        """Return the regions that show motion by their names; none while the model starts."""
        if separation.phase != "tracking" or separation.event is not None:
            return []
        if self.min_area is not None:
            return [name for name, cover in covers.items() if cover.pixels >= max(self.min_area, 1)]
        return [name for name, cover in covers.items() if cover.pixels and cover.share >= self.least_share(name)]


def check_seconds(**values: float) -> None:
    """Raise ParameterError unless all `values` are finite numbers of seconds, 0 or more."""
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise ParameterError(f"{name} must be a number of seconds, 0 or more, got {value!r}")


def _longest(interval: float) -> float:
    """Return the seconds up to which motion in consecutive frames is one event: frames may be rare and uneven."""
    return max(_UNSEEN, 2 * interval)


@dataclass
class MotionEvents:
    """Joins frames with motion into events; times are those of `Step.clock`."""

    rules: MotionRules
    count: int = 0
    current: Event | None = None  # the current motion, with an ID once it is an event
    since: float = 0.0  # start of the current motion
    last: float = -math.inf  # last frame with motion of the newest event
    previous: float = -math.inf  # time of the frame before

    @property
    def lasting(self) -> Event | None:
        """The event that lasts."""
        return self.current if self.current is not None and self.current.id else None

    def update(
        self, frame: int, time: float | None, clock: float, interval: float, separation: Separation, covers: Covers
    ) -> Motion:
        """Process the next frame, at `clock` for `interval` seconds; `covers` of the regions, or of `FRAME`."""
        places = self.rules.moving(separation, covers)
        moving = bool(places)
        area = covers[FRAME].pixels if FRAME in covers else int(np.count_nonzero(separation.mask == FOREGROUND))
        share = max(covers[name].share for name in places or covers)
        steady = moving and self.last == self.previous  # without a frame without motion between
        longest = _longest(interval)
        over = clock - self.last > max(self.rules.max_gap, longest if steady else 0.0) + CLOSE
        ended, begun = self.finish() if over else [], []
        unseen = self.is_over(clock - self.previous, interval)
        if self.lasting is None and (unseen or not moving):
            self.current = None  # a gap in the stream is not motion
        if moving:
            if self.current is None:
                self.current, self.since = Event(MOTION, 0, frame, frame, time, time), clock
            event = self.current
            event.end_frame, event.end_time = frame, time
            event.frames += 1
            if area > event.peak_area:
                event.peak_area, event.peak_frame = area, frame
                parts = cv2.connectedComponentsWithStats(np.equal(separation.mask, FOREGROUND).view(np.uint8))[2][1:]
                x, y, w, h, _ = max(parts.tolist(), key=lambda part: part[4])
                event.peak_box = x, y, w, h
            event.peak_share = max(event.peak_share, share)
            event.regions += [name for name in places if name not in (FRAME, *event.regions)]
            least, is_rare = self.rules.min_duration - CLOSE, interval >= _RARE - CLOSE
            if not event.id and max(clock - self.since, interval if is_rare else 0.0) >= least:
                self.count += 1
                event.id, begun = self.count, [event]
            self.last = clock if event.id else self.last
        self.previous = clock
        since = None if self.current is None else self.since
        until = None if self.lasting is None else self.last
        return Motion(begun, ended, share, moving, since, until, self.current)

    def is_over(self, silence: float, interval: float) -> bool:
        """Return whether an event ends because no frame came for `silence` seconds."""
        return silence > max(self.rules.max_gap, _longest(interval)) + CLOSE

    def finish(self) -> list[Event]:
        """End the event that lasts and return it."""
        if self.lasting is None:
            return []
        event, self.current = self.lasting, None
        return [event]
