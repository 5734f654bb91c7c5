"""What goes on in each region."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.events.event import Event, ObjectInFrame
from bgsub.events.feed import Step
from bgsub.events.writers import Writer, csv_row
from bgsub.separation import FOREGROUND
from bgsub.video.region_masks import bounding_box
from bgsub.video.regions import Regions

COLUMNS = ("region", "events", "entries", "peak_objects", "occupied_frames", "occupied_seconds", "mean_share")
_ENTRY_GAP = 0.5  # seconds outside before it enters again; less than a frame is none
_EPSILON = 1e-6  # seconds: sums and differences of times


@dataclass
class RegionCount:
    """What has gone on in a region."""

    events: int = 0  # objects that were in it
    entries: int = 0  # how often one came in, or appeared in it
    peak: int = 0  # most objects at a time
    occupied_frames: int = 0  # frames with an object in it
    occupied_seconds: float = 0.0  # the seconds they stand for
    share: float = 0.0  # sum of the shares of its pixels that are foreground


@dataclass
class Waiting:
    """A frame whose objects are not all known yet: seconds since the one before, seconds it stands for, and objects."""

    frame: int
    gap: float
    interval: float
    objects: dict[str, int] = field(default_factory=dict)


class RegionCounter:
    """Counts the objects of each region, each frame once all of its objects are known."""

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self._masks: dict[str, tuple[tuple[slice, slice], np.ndarray, int]] = {}
        self.counts = {name: RegionCount() for name in regions.names}
        self._waiting: list[Waiting] = []
        self._inside: dict[str, dict[int, float]] = {name: {} for name in regions.names}
        self._timed = False
        self._frames = 0

    def step(self, step: Step) -> list[Waiting]:
        """Take a frame; return the frames that are counted by now."""
        if not self._masks:
            self._masks = {name: _cut(inside) for name, inside in self._regions.masks(step.mask.shape).items()}
        for name, (box, inside, area) in self._masks.items():
            self.counts[name].share += np.count_nonzero((step.mask[box] == FOREGROUND) & inside) / area
        self._frames += 1
        self._timed |= step.time is not None
        self._waiting.append(Waiting(step.frame, step.gap, step.interval))
        at = {waiting.frame: waiting for waiting in self._waiting}
        for one in step.objects:
            self._enter(one, step, at.get(one.frame))
        for event in step.finished:
            self._leave(event)
        return self._count(step.settled)

    def finish(self) -> list[Waiting]:
        """Count the frames that wait still; return them."""
        return self._count(None)

    def rows(self) -> list[list[Any]]:
        """Return the values of `COLUMNS` for each region."""
        return [
            [
                name,
                count.events,
                count.entries,
                count.peak,
                count.occupied_frames,
                float(count.occupied_seconds) if self._timed else None,
                f"{count.share / max(self._frames, 1):.6f}",
            ]
            for name, count in self.counts.items()
        ]

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, as types that JSON knows."""
        return {
            "counts": {name: asdict(count) for name, count in self.counts.items()},
            "waiting": [asdict(waiting) for waiting in self._waiting],
            "inside": {name: list(ids.items()) for name, ids in self._inside.items()},
            "timed": self._timed,
            "frames": self._frames,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        self.counts = {name: RegionCount(**count) for name, count in state["counts"].items()}
        self._waiting = [Waiting(**waiting) for waiting in state["waiting"]]
        self._inside = {name: {int(i): float(t) for i, t in ids} for name, ids in state["inside"].items()}
        self._timed, self._frames = state["timed"], state["frames"]

    def _enter(self, one: ObjectInFrame, step: Step, waiting: Waiting | None) -> None:
        # Frames before this one belong to an object that is confirmed just now: time runs on within them.
        passed = (step.frame - one.frame) * step.interval
        if one.time is not None and step.time is not None:
            passed = step.time - one.time
        clock = step.clock - passed
        outside = max(_ENTRY_GAP, 0.0 if waiting is None else waiting.gap) + _EPSILON
        for name in one.regions:
            last = self._inside[name].get(one.id)
            self.counts[name].events += last is None
            self.counts[name].entries += last is None or clock - last > outside
            self._inside[name][one.id] = clock
            if waiting is not None:
                waiting.objects[name] = waiting.objects.get(name, 0) + 1

    def _leave(self, event: Event) -> None:
        for ids in self._inside.values():
            ids.pop(event.id, None)

    def _count(self, settled: int | None) -> list[Waiting]:
        ready = [waiting for waiting in self._waiting if settled is None or waiting.frame < settled]
        self._waiting = self._waiting[len(ready) :]
        for waiting in ready:
            for name, number in waiting.objects.items():
                count = self.counts[name]
                count.peak = max(count.peak, number)
                count.occupied_frames += 1
                count.occupied_seconds += waiting.interval
        return ready


def _cut(inside: np.ndarray) -> tuple[tuple[slice, slice], np.ndarray, int]:
    """Return the bounding box of a mask, what is in the box, and the number of pixels inside."""
    box = bounding_box(inside)
    return box, inside[box], int(np.count_nonzero(inside))


class RegionWriter(Writer):
    """One line per region with what has gone on in it; columns are `COLUMNS`. Written at the end."""

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
