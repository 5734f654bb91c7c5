"""Counts of the objects in each region."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.events._state import dump, load
from bgsub.events.event import Event, ObjectInFrame
from bgsub.events.feed import Step
from bgsub.events.writers import Writer, csv_row
from bgsub.separation import FOREGROUND
from bgsub.video.regions import Regions, bounding_box

COLUMNS = ("region", "events", "entries", "peak_objects", "occupied_frames", "occupied_seconds", "mean_share")
_ENTRY_GAP = 0.5  # seconds outside after which an object enters again, or one frame if that is longer
_EPSILON = 1e-6  # seconds: sums and differences of times


@dataclass
class RegionCount:
    """Counts of a region."""

    events: int = 0  # objects that were in it
    entries: int = 0  # how often an object entered or appeared
    peak: int = 0  # largest number of objects at a time
    occupied_frames: int = 0  # frames with an object in it
    occupied_seconds: float = 0.0  # seconds of these frames
    share: float = 0.0  # sum of the foreground shares


@dataclass
class Waiting:
    """A frame whose objects are not all known yet."""

    frame: int
    gap: float  # seconds since the frame before
    interval: float  # seconds it stands for
    objects: dict[str, int] = field(default_factory=dict)


@dataclass
class _Counts:
    """State of a `RegionCounter`."""

    counts: dict[str, RegionCount]
    inside: dict[str, dict[int, float]]  # when each object was last in a region
    waiting: list[Waiting] = field(default_factory=list)
    timed: bool = False
    frames: int = 0


class RegionCounter:
    """Counts objects in regions, if there are any; a frame is counted when all its objects are known."""

    def __init__(self, regions: Regions | None) -> None:
        self._regions, self.names = regions, () if regions is None else regions.names
        self._masks: dict[str, tuple[tuple[slice, slice], np.ndarray, int]] = {}
        self._state = _Counts({name: RegionCount() for name in self.names}, {name: {} for name in self.names})

    def step(self, step: Step) -> list[Waiting]:
        """Add a frame; return the frames that were counted."""
        if self._regions is not None and not self._masks:
            self._masks = {name: _cut(inside) for name, inside in self._regions.masks(step.mask.shape).items()}
        for name, (box, inside, area) in self._masks.items():
            self._state.counts[name].share += np.count_nonzero((step.mask[box] == FOREGROUND) & inside) / area
        self._state.frames += 1
        self._state.timed |= step.time is not None
        self._state.waiting.append(Waiting(step.frame, step.gap, step.interval))
        at = {waiting.frame: waiting for waiting in self._state.waiting}
        for one in step.objects:
            self._enter(one, step, at.get(one.frame))
        for ids in self._state.inside.values():
            for event in step.finished:
                ids.pop(event.id, None)
        return self._count(step.settled)

    def finish(self) -> list[Waiting]:
        """Count the remaining frames and return them."""
        return self._count(None)

    def rows(self) -> list[list[Any]]:
        """Return a row of `COLUMNS` for each region."""
        return [
            [
                name,
                count.events,
                count.entries,
                count.peak,
                count.occupied_frames,
                float(count.occupied_seconds) if self._state.timed else None,
                f"{count.share / max(self._state.frames, 1):.6f}",
            ]
            for name, count in self._state.counts.items()
        ]

    def state(self) -> dict[str, Any]:
        """Return the state as types that JSON knows."""
        state: dict[str, Any] = dump(self._state)
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self._state = load(_Counts, state)

    def _enter(self, one: ObjectInFrame, step: Step, waiting: Waiting | None) -> None:
        # An object that is confirmed now also has sights in earlier frames.
        passed = (step.frame - one.frame) * step.interval
        if one.time is not None and step.time is not None:
            passed = step.time - one.time
        clock = step.clock - passed
        outside = max(_ENTRY_GAP, 0.0 if waiting is None else waiting.gap) + _EPSILON
        for name in one.regions:
            last = self._state.inside[name].get(one.id)
            self._state.counts[name].events += last is None
            self._state.counts[name].entries += last is None or clock - last > outside
            self._state.inside[name][one.id] = clock
            if waiting is not None:
                waiting.objects[name] = waiting.objects.get(name, 0) + 1

    def _count(self, settled: int | None) -> list[Waiting]:
        ready = [waiting for waiting in self._state.waiting if settled is None or waiting.frame < settled]
        self._state.waiting = self._state.waiting[len(ready) :]
        for waiting in ready:
            for name, number in waiting.objects.items():
                count = self._state.counts[name]
                count.peak = max(count.peak, number)
                count.occupied_frames += 1
                count.occupied_seconds += waiting.interval
        return ready


def _cut(inside: np.ndarray) -> tuple[tuple[slice, slice], np.ndarray, int]:
    """Return the bounding box of a mask, the mask in the box, and its number of pixels."""
    box = bounding_box(inside)
    return box, inside[box], int(np.count_nonzero(inside))


class RegionWriter(Writer):
    """Writes a CSV file with one line per region at the end; columns are `COLUMNS`."""

    def __init__(self, path: Path, regions: Regions) -> None:
        super().__init__(path)
        self._counter = RegionCounter(regions)

    def step(self, step: Step) -> None:
        self._counter.step(step)

    def finish(self, last: list[Event]) -> None:
        self._counter.finish()
        self._file.append(csv_row(COLUMNS))
        for row in self._counter.rows():
            self._file.append(csv_row(row))
        self._file.finish()

    def checkpoint(self) -> dict[str, Any]:
        return self._counter.state()

    def resume(self, state: dict[str, Any]) -> None:
        self._counter.set_state(state)
