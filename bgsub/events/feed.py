"""One feed of events for all outputs: the work on a frame is done once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bgsub.events.event import Event, ObjectInFrame
from bgsub.events.linking import ObjectLinker
from bgsub.events.motion import Change, Moments, Motion, MotionRules
from bgsub.separation import Separation
from bgsub.video.sources.base import Frame


@dataclass(frozen=True, eq=False)
class Step:
    """What a frame brought.

    Attributes
    ----------
    frame : int
        Its index.
    file : str or None
        The image file that it comes from.
    time : float or None
        In seconds, where it is known.
    clock : float
        Seconds in any case: at 25 frames per second where the time is not known.
    gap, interval : float
        Seconds since the frame before, and those that the frame stands for.
    mask : ndarray, (h, w), uint8
        As of `Separation`.
    objects : list of ObjectInFrame
        See `ObjectLinker.update`.
    started : list of ObjectInFrame
        Those that are known to be objects since this frame, as they are in it.
    begun : list of Event
        What befalls the whole frame from this one on.
    finished : list of Event
        Objects, and what befell the whole frame, that have ended.
    motion : Motion
        Its `begun` and `ended` are the moments with motion, as `Event`, that have become certain and that have ended
        with this frame, its `share` the share of the foreground.
    settled : int
        Index of the first frame whose objects are not all known yet.
    recent : tuple of str
        Names of motion and of events of the whole frame, for two seconds after their ends, too.
    """

    frame: int
    file: str | None
    time: float | None
    clock: float
    gap: float
    interval: float
    mask: np.ndarray
    objects: list[ObjectInFrame]
    started: list[ObjectInFrame]
    begun: list[Event]
    finished: list[Event]
    motion: Motion
    settled: int
    recent: tuple[str, ...] = ()


# Names of events are shown so many seconds longer than these last: most of them are over with the frame.
_SHOWN = 2.0


@dataclass
class FrameEvents:
    """Joins the same event in consecutive frames into one."""

    current: Event | None = None  # the one that lasts

    def update(self, frame: int, time: float | None, name: str | None) -> Change:
        """Take the event of a frame."""
        current = self.current
        if current is not None and current.kind == name:
            current.end_frame, current.end_time = frame, time
            current.frames += 1
            return Change([], [])
        self.current = None if name is None else Event(name, 0, frame, frame, time, time, frames=1)
        return Change([] if self.current is None else [self.current], [] if current is None else [current])

    def finish(self) -> list[Event]:
        """Return what still lasts."""
        return self.update(-1, None, None).ended


class EventFeed:
    """Takes each frame once for all outputs that ask for it: objects, moments with motion, events of the frame.

    Parameters
    ----------
    linker : ObjectLinker
        Follows the objects.
    rules : MotionRules, optional
        What is motion.
    follow : bool
        Whether any output asks for objects, as they cost most of the time; an attribute as well.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.events import EventFeed, MotionRules, ObjectLinker
    >>> feed, moments = EventFeed(ObjectLinker(fps=25), MotionRules(min_duration=0.1)), []
    >>> for frame, separation in bgsub.separate("video.mp4"):
    ...     moments += feed.step(frame, separation).motion.begun
    >>> moments[0].kind == "motion", moments[0].start_frame > 0
    (True, True)
    >>> objects = feed.finish()  # what still lasts
    """

    def __init__(self, linker: ObjectLinker, rules: MotionRules | None = None, follow: bool = True) -> None:
        self._linker, self.follow = linker, follow
        self._moments = Moments(rules or MotionRules())
        self._whole = FrameEvents()
        self._newest: tuple[Frame, Step] | None = None
        self._shown: dict[str, float] = {}  # until which second the name of an event is shown
        self._last: list[Event] | None = None
        self._last_motion: list[Event] | None = None
        self._owner: object = None

    def step(self, frame: Frame, separation: Separation) -> Step:
        """Take a frame, or return what the same frame brought already.

        Parameters
        ----------
        frame : Frame
            The next frame.
        separation : Separation
            Of that frame.

        Returns
        -------
        Step
            Objects, moments with motion and events of the frame.
        """
        if self._newest is not None and self._newest[0] is frame:
            return self._newest[1]
        time = self._linker.time(frame)
        known = self._linker.count
        objects = self._linker.update(frame, separation) if self.follow else self._linker.skip(frame)
        settled = self._linker.settled
        whole = self._whole.update(frame.index, time, separation.event)
        moments = self._moments.update(frame.index, time, self._linker.clock, separation)
        step = Step(
            frame.index,
            frame.file,
            time,
            self._linker.clock,
            self._linker.gap,
            self._linker.interval,
            separation.mask,
            objects,
            [one for one in objects if one.id > known and one.frame == frame.index],
            whole.begun,
            [*whole.ended, *self._linker.take_finished()],
            moments,
            frame.index + 1 if settled is None else settled,
            self._recent(self._linker.clock),
        )
        self._newest = (frame, step)
        return step

    def _recent(self, clock: float) -> tuple[str, ...]:
        """Return the names of what lasts or has ended a little while ago."""
        lasting = [event.kind for event in (self._moments.lasting, self._whole.current) if event is not None]
        until = dict.fromkeys(lasting, clock + _SHOWN)
        self._shown = {kind: end for kind, end in {**self._shown, **until}.items() if end >= clock}
        return tuple(self._shown)

    def finish(self) -> list[Event]:
        """End what still lasts and return it, but for motion, each time the same."""
        if self._last is None:
            self._last = [*self._whole.finish(), *self._linker.finish()]
        return self._last

    def finish_motion(self) -> list[Event]:
        """End the moment with motion that lasts and return it, each time the same."""
        if self._last_motion is None:
            self._last_motion = self._moments.finish()
        return self._last_motion

    def checkpoint(self, caller: object) -> dict[str, Any]:
        """Return the state, as JSON can hold it, to the first one that asks; nothing to the others."""
        if self._owner is None:
            self._owner = caller
        if self._owner is not caller:
            return {}
        current = self._whole.current
        whole = None if current is None else asdict(current)
        moments, shown = self._moments.state(), dict(self._shown)
        return {"linker": self._linker.state(), "whole": whole, "moments": moments, "shown": shown}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where `checkpoint` returned `state`; nothing happens for an empty one."""
        if state:
            self._linker.set_state(state["linker"])
            self._moments.set_state(state["moments"])
            self._shown = dict(state.get("shown", {}))
            self._whole.current = None if state["whole"] is None else Event.from_state(state["whole"])
