"""The events of a run, detected once for all outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bgsub.events._state import dump, load
from bgsub.events.event import Event, ObjectInFrame
from bgsub.events.linking import ObjectLinker
from bgsub.events.motion import Motion, MotionEvents, MotionRules
from bgsub.separation import Separation
from bgsub.video.sources.base import Frame

# Names of events are shown so many seconds longer than they last, because most last one frame.
_SHOWN = 2.0


@dataclass(frozen=True, eq=False)
class Step:
    """Events of one frame.

    Attributes
    ----------
    frame : int
        Index of the frame.
    file : str or None
        Image file of the frame.
    time : float or None
        Seconds, if known.
    clock : float
        Seconds, always known: at 25 frames per second if `time` is None.
    gap, interval : float
        Seconds since the frame before, and seconds that the frame stands for.
    mask : ndarray, (h, w), uint8
        As of `Separation`.
    objects : list of ObjectInFrame
        As of `ObjectLinker.update`.
    started : list of ObjectInFrame
        Objects confirmed in this frame, as seen in it.
    begun : list of Event
        Events of the whole frame that begin.
    finished : list of Event
        Objects and events of the whole frame that have ended.
    motion : Motion
        Motion events: `begun` have become certain and `ended` have ended with this frame; `share` is the share of
        the foreground.
    settled : int
        Index of the first frame whose objects are not all known yet.
    recent : tuple of str
        Names of motion and of events of the whole frame that last or ended at most two seconds ago.
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


class EventFeed:
    """Detects objects, motion events and events of the whole frame, once per frame for all outputs.

    Parameters
    ----------
    linker : ObjectLinker
        Tracks the objects.
    rules : MotionRules, optional
        Rules of motion events.
    follow : bool
        Whether to track objects, which costs most of the time; an attribute as well.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.events import EventFeed, MotionRules, ObjectLinker
    >>> feed, motion = EventFeed(ObjectLinker(fps=25), MotionRules(min_duration=0.1)), []
    >>> for frame, separation in bgsub.separate("video.mp4"):
    ...     motion += feed.step(frame, separation).motion.begun
    >>> motion[0].kind == "motion", motion[0].start_frame > 0
    (True, True)
    >>> objects = feed.finish()  # events that have not ended
    """

    def __init__(self, linker: ObjectLinker, rules: MotionRules | None = None, follow: bool = True) -> None:
        self._linker, self.follow = linker, follow
        self._motion = MotionEvents(rules or MotionRules())
        self._whole: Event | None = None  # event of the whole frame that lasts
        self._newest: tuple[Frame, Step] | None = None
        self._shown: dict[str, float] = {}  # until which second the name of an event is shown
        self._last: list[Event] | None = None
        self._last_motion: list[Event] | None = None
        self._owner: object = None

    def step(self, frame: Frame, separation: Separation) -> Step:
        """Process a frame; return the same result if another output has given it already.

        Parameters
        ----------
        frame : Frame
            The next frame.
        separation : Separation
            Its separation.

        Returns
        -------
        Step
            The events of the frame.
        """
        if self._newest is not None and self._newest[0] is frame:
            return self._newest[1]
        linker, time = self._linker, self._linker.time(frame)
        known = linker.count
        objects = linker.update(frame, separation) if self.follow else linker.skip(frame)
        begun, ended = self._whole_frame(frame.index, time, separation.event)
        motion = self._motion.update(frame.index, time, linker.clock, separation)
        step = Step(
            frame.index,
            frame.file,
            time,
            linker.clock,
            linker.gap,
            linker.interval,
            separation.mask,
            objects,
            [one for one in objects if one.id > known and one.frame == frame.index],
            begun,
            [*ended, *linker.take_finished()],
            motion,
            frame.index + 1 if linker.settled is None else linker.settled,
            self._recent(linker.clock),
        )
        self._newest = (frame, step)
        return step

    def finish(self) -> list[Event]:
        """End all events except motion and return them; every call returns the same list."""
        if self._last is None:
            self._last = [*self._whole_frame(-1, None, None)[1], *self._linker.finish()]
        return self._last

    def finish_motion(self) -> list[Event]:
        """End the motion event that lasts and return it; every call returns the same list."""
        if self._last_motion is None:
            self._last_motion = self._motion.finish()
        return self._last_motion

    def checkpoint(self, caller: object) -> dict[str, Any]:
        """Return the state as types that JSON knows to the first caller, and an empty one to others."""
        if self._owner is None:
            self._owner = caller
        if self._owner is not caller:
            return {}
        motion, whole = dump(self._motion), dump(self._whole)
        return {"linker": self._linker.state(), "whole": whole, "motion": motion, "shown": dict(self._shown)}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore what `checkpoint` returned; an empty state changes nothing."""
        if state:
            self._linker.set_state(state["linker"])
            self._motion = load(MotionEvents, state["motion"])
            self._shown = dict(state["shown"])
            self._whole = None if state["whole"] is None else load(Event, state["whole"])

    def _whole_frame(self, frame: int, time: float | None, name: str | None) -> tuple[list[Event], list[Event]]:
        """Join the same event in consecutive frames into one; return events that begin and that have ended."""
        current = self._whole
        if current is not None and current.kind == name:
            current.end_frame, current.end_time = frame, time
            current.frames += 1
            return [], []
        self._whole = None if name is None else Event(name, 0, frame, frame, time, time, frames=1)
        return [] if self._whole is None else [self._whole], [] if current is None else [current]

    def _recent(self, clock: float) -> tuple[str, ...]:
        """Return the names of events that last or have just ended."""
        lasting = [event.kind for event in (self._motion.lasting, self._whole) if event is not None]
        until = dict.fromkeys(lasting, clock + _SHOWN)
        self._shown = {kind: end for kind, end in {**self._shown, **until}.items() if end >= clock}
        return tuple(self._shown)
