"""The events of a run and the counts of its regions, detected once for all outputs."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from bgsub.events._state import dump, load
from bgsub.events.event import Event, FrameCount, ObjectInFrame, Step
from bgsub.events.linking import LinkerState, ObjectLinker
from bgsub.events.motion import FRAME, Cover, Covers, MotionEvents, MotionRules
from bgsub.separation import FOREGROUND, Separation
from bgsub.video.regions import Regions, bounding_box
from bgsub.video.sources.base import Frame
from bgsub.video.timecode import CLOSE

REGION_COLUMNS = ("region", "events", "entries", "peak_objects", "occupied_frames", "occupied_seconds", "mean_share")
_ENTRY_GAP = 0.5  # seconds outside after which an object enters again, or one frame if that is longer
_LONGEST = 1.0  # seconds that a frame can stand for if those before stand for less: a longer gap may be a lost camera


@dataclass
class RegionCount:
    """Counts of a region."""

    events: int = 0  # objects that were in it
    entries: int = 0  # how often an object entered or appeared
    peak: int = 0  # largest number of objects at a time
    occupied_frames: int = 0  # frames with an object in it
    occupied_seconds: float = 0.0  # seconds of these frames
    share: float = 0.0  # sum of the foreground shares
    inside: dict[int, float] = field(default_factory=dict)  # when each object was last in it


@dataclass
class Counts:
    """State of a `RegionCounter`."""

    regions: dict[str, RegionCount]
    waiting: list[FrameCount] = field(default_factory=list)
    timed: bool = False
    frames: int = 0


class RegionCounter:
    """Counts objects in regions, if there are any; a frame is counted when all its objects are known."""

    def __init__(self, regions: Regions | None) -> None:
        self._regions, self.names = regions, () if regions is None else regions.names
        self._masks: dict[str, tuple[tuple[slice, slice], np.ndarray, int]] = {}
        self.state = Counts({name: RegionCount() for name in self.names})

    def covers(self, mask: np.ndarray) -> dict[str, Cover]:
        """Return the foreground of a mask, (h, w) uint8, in each region, or in the whole frame without regions."""
        if self._regions is None:
            pixels = int(np.count_nonzero(mask == FOREGROUND))
            return {FRAME: Cover(pixels, pixels / max(mask.size, 1))}
        if not self._masks:
            for name, inside in self._regions.masks(mask.shape).items():
                box = bounding_box(inside)
                self._masks[name] = box, inside[box], int(np.count_nonzero(inside))
        found = {}
        for name, (box, inside, area) in self._masks.items():
            pixels = int(np.count_nonzero((mask[box] == FOREGROUND) & inside))
            found[name] = Cover(pixels, pixels / area)
        return found

    def step(self, step: Step, covers: Covers) -> None:
        state = self.state
        if self._regions is None:
            return
        for name, cover in covers.items():
            state.regions[name].share += cover.share
        state.frames += 1
        state.timed |= step.time is not None
        interval = step.gap if step.gap <= _LONGEST else step.interval
        state.waiting.append(FrameCount(step.frame, step.clock, step.gap, interval))
        at = {waiting.frame: waiting for waiting in state.waiting}
        for one in step.objects:  # an object that is confirmed now also has sights in earlier frames
            if one.frame in at:  # else the regions were others then
                self._enter(one, at[one.frame])
        for region in state.regions.values():
            for event in step.finished:
                region.inside.pop(event.id, None)
        self.finish(step.settled)

    def rows(self) -> list[list[Any]]:
        """Return a row of `REGION_COLUMNS` for each region."""
        rows = []
        for name, count in self.state.regions.items():
            seconds = float(count.occupied_seconds) if self.state.timed else None
            share = f"{count.share / max(self.state.frames, 1):.6f}"
            rows.append([name, count.events, count.entries, count.peak, count.occupied_frames, seconds, share])
        return rows

    def _enter(self, one: ObjectInFrame, frame: FrameCount) -> None:
        outside = max(_ENTRY_GAP, frame.gap) + CLOSE
        for name in one.regions:
            if name not in self.state.regions:
                continue
            region = self.state.regions[name]
            last = region.inside.get(one.id)
            region.events += last is None
            region.entries += last is None or frame.clock - last > outside
            region.inside[one.id] = frame.clock
            frame.objects[name] = frame.objects.get(name, 0) + 1

    def finish(self, settled: int | None = None) -> None:
        """Count the remaining frames before `settled`, by default all."""
        ready = [frame for frame in self.state.waiting if settled is None or frame.frame < settled]
        self.state.waiting = self.state.waiting[len(ready) :]
        for frame in ready:
            for name, number in frame.objects.items():
                count = self.state.regions[name]
                count.peak = max(count.peak, number)
                count.occupied_frames += 1
                count.occupied_seconds += frame.interval


_SHOWN = 2.0  # names of events are shown so many seconds longer than they last, because most last one frame


class EventFeed:
    """Detects objects, motion events and events of the whole frame, once per frame for all outputs.

    Parameters
    ----------
    linker : ObjectLinker
        Tracks the objects; an attribute as well. If it has regions, motion is detected in these.
    rules : MotionRules, optional
        Rules of motion events.
    follow : bool
        Whether to track objects, which costs most of the time; an attribute as well.

    Attributes
    ----------
    regions : RegionCounter
        Counts the objects in the regions of the linker.

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
        self.linker, self.follow = linker, follow
        self.regions = RegionCounter(linker.regions)
        rules = rules or MotionRules()
        rules.check_regions(self.regions.names)
        self._motion = MotionEvents(rules)
        self._whole: Event | None = None  # event of the whole frame that lasts
        self._newest: tuple[Frame, Step] | None = None
        self._shown: dict[str, float] = {}  # until which second the name of an event is shown
        self._last: list[Event] | None = None
        self._last_motion: list[Event] | None = None
        self._owner: object = None
        self._given_regions = self._used_regions = linker.regions
        self._origin: datetime | None = None  # date of second 0 of a camera

    def step(self, frame: Frame, separation: Separation) -> Step:
        """Process the next frame and return its events; the same result if another output has given it already."""
        if self._newest is not None and self._newest[0] is frame:
            return self._newest[1]
        given = self._given_regions
        if given is not self._used_regions:
            self.linker.use_regions(given)
            self.regions, self._used_regions = RegionCounter(given), given
        linker, time = self.linker, self.linker.time(frame)
        known = linker.state.count
        objects = linker.update(frame, separation) if self.follow else linker.skip(frame)
        begun, ended = self._whole_frame(frame.index, time, separation.event)
        covers = self.regions.covers(separation.mask)
        motion = self._motion.update(frame.index, time, linker.clock, linker.state.interval, separation, covers)
        moment = (frame.index, time, linker.clock, linker.gap, linker.state.interval)
        started = [one for one in objects if one.id > known and one.frame == frame.index]
        finished = [*ended, *linker.take_finished()]
        self._origin = None if frame.arrived is None or time is None else frame.arrived - timedelta(seconds=float(time))
        self._date([*finished, *motion.ended])
        settled = frame.index + 1 if linker.settled is None else linker.settled
        lasting = [event.kind for event in (self._motion.lasting, self._whole) if event is not None]
        until = {**self._shown, **dict.fromkeys(lasting, linker.clock + _SHOWN)}
        self._shown = {kind: end for kind, end in until.items() if end >= linker.clock}
        recent = tuple(self._shown)
        step = Step(*moment, separation.mask, objects, started, begun, finished, motion, settled, recent, frame.arrived)
        self.regions.step(step, covers)
        self._newest = (frame, step)
        return step

    def is_silent(self, silence: float) -> bool:
        """Return whether motion is over because no frame came for `silence` seconds."""
        return self._motion.is_over(silence, self.linker.state.interval)

    def replace_regions(self, regions: Regions | None) -> None:
        """Use other regions from the next frame on, with new counts; from any thread."""
        self._given_regions = regions

    def finish(self) -> list[Event]:
        """End all events except motion and return them; every call returns the same list."""
        if self._last is None:
            self._last = self._date([*self._whole_frame(-1, None, None)[1], *self.linker.finish()])
        return self._last

    def finish_motion(self) -> list[Event]:
        """End the motion event that lasts and return it; every call returns the same list."""
        if self._last_motion is None:
            self._last_motion = self._date(self._motion.finish())
        return self._last_motion

    def date_at(self, seconds: float | None) -> datetime | None:
        """Return the date of a time in front of a camera; None if it is unknown."""
        if self._origin is None or seconds is None:
            return None
        return self._origin + timedelta(seconds=float(seconds))

    def _date(self, ended: list[Event]) -> list[Event]:
        """Set the date of events in front of a camera."""
        for event in ended:
            if date := self.date_at(event.start_time):
                event.began = date.isoformat(timespec="milliseconds")
        return ended

    def checkpoint(self, caller: object) -> dict[str, Any]:
        """Return the state as JSON types to the first caller, and an empty one to others."""
        if self._owner is None:
            self._owner = caller
        if self._owner is not caller:
            return {}
        parts = {"motion": self._motion, "whole": self._whole, "regions": self.regions.state}
        dumped = {name: dump(part) for name, part in parts.items()}
        return {**dumped, "linker": dump(self.linker.state), "shown": dict(self._shown)}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore what `checkpoint` returned; an empty state changes nothing."""
        if state:
            self.linker.state = load(LinkerState, state["linker"])
            self._motion = load(MotionEvents, state["motion"])
            self._shown = dict(state["shown"])
            self._whole = None if state["whole"] is None else load(Event, state["whole"])
            self.regions.state = load(Counts, state["regions"])

    def _whole_frame(self, frame: int, time: float | None, name: str | None) -> tuple[list[Event], list[Event]]:
        """Join the same event in consecutive frames into one; return events that begin and that have ended."""
        current = self._whole
        if current is not None and current.kind == name:
            current.end_frame, current.end_time = frame, time
            current.frames += 1
            return [], []
        self._whole = None if name is None else Event(name, 0, frame, frame, time, time, frames=1)
        return [] if self._whole is None else [self._whole], [] if current is None else [current]
