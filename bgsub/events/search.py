"""Search in the results of runs: objects and motion in regions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, SourceError
from bgsub.events.event import Event, EventKind
from bgsub.events.feed import EventFeed
from bgsub.events.linking import FILLED_SHARE, REGION_SHARE, ObjectLinker
from bgsub.events.motion import MotionRules
from bgsub.events.motion_table import MotionListSink, Row, row_of
from bgsub.events.results import Result, find_results, read_objects
from bgsub.separation import FOREGROUND, Separation
from bgsub.video.output_names import VIDEO_ENDINGS
from bgsub.video.regions import Region, Regions
from bgsub.video.sources.opening import open_source

_NAMES = ("mask", *(f"mask{ending}" for ending in VIDEO_ENDINGS))
_FOREGROUND_FROM = 191  # half of the way from shadow to foreground
_MOST_PIXELS = 1 << 28


@dataclass(frozen=True)
class Span:
    """A part of the time; None is without limit."""

    start: float | None = None
    end: float | None = None

    def meets(self, start: float, end: float) -> bool:
        """Return whether an event lies in it, at least in part."""
        return (self.end is None or start <= self.end) and (self.start is None or end >= self.start)


def search_results(
    place: Path, regions: Regions, rules: MotionRules | None = None, span: Span | None = None
) -> list[Row]:
    """Return the objects or the motion in regions, one row for each stay of an object or for each motion event.

    Parameters
    ----------
    place : Path
        A folder of results, or one with such folders in it: their objects (events.jsonl) are searched, or else their
        masks. Or a video or a folder of masks.
    regions : Regions
        An object is in a region if a quarter of its box is, or if its box fills half of the region.
    rules : MotionRules, optional
        What counts as motion in masks; ``max_gap`` also joins the stays of an object.
    span : Span, optional
        Part of the time, in seconds from the start of each recording.

    Returns
    -------
    list of dict
        Rows as of `MotionListSink.rows`, in the order of the recordings and their times; objects have their ID as
        ``number``, and their picture.

    Raises
    ------
    SourceError
        If there are no results, or they cannot be read.
    ParameterError
        If a region lies outside of the masks, or is in percent although only objects are known.
    """
    rules, span = rules or MotionRules(), span or Span()
    if place.is_file():
        return _search_masks(place, place.name, regions, rules, span)
    rows: list[Row] = []
    try:
        results = [result for result in find_results(place) if result.events is not None]
    except SourceError:
        results = []
        if not place.is_dir():
            raise
    for result in results:
        found = _search_objects(result, regions, rules, span)
        rows += sorted(found, key=lambda row: (row["start_frame"], row["number"]))
    if results:
        return rows
    masks = [path for name in _NAMES for path in sorted(place.rglob(name)) if path.is_file() or _is_masks(path)]
    if not masks and _is_masks(place):
        masks = [place]
    if not masks:
        raise SourceError(f"no events.jsonl and no masks in '{place}' or below")
    for path in masks:
        name = path.name if path == place else path.relative_to(place).as_posix()
        rows += _search_masks(path, name, regions, rules, span)
    return rows


def _is_masks(folder: Path) -> bool:
    return any(path.suffix.lower() == ".png" for path in folder.iterdir())


def _search_masks(path: Path, name: str, regions: Regions, rules: MotionRules, span: Span) -> list[Row]:
    """Return the motion events of stored masks."""
    nothing = np.empty((0, 0), np.float32)
    with open_source(path) as source:
        linker = ObjectLinker(None if source.fps is None else float(source.fps), regions=regions)
        found = MotionListSink(EventFeed(linker, rules, follow=False), name)
        inside = regions.union(source.size[::-1])
        for frame in source:
            stored = frame.image if frame.image.ndim == 2 else frame.image[:, :, 0]
            # Compression with loss changes the values.
            mask = np.where(inside & (stored > _FOREGROUND_FROM), np.uint8(FOREGROUND), np.uint8(0))
            found.write(frame, Separation(mask, mask, mask, nothing, np.empty(0), "tracking", None))
        found.close()
    return [row for row in found.rows() if row["start"] is None or span.meets(row["start"], row["end"])]


def _search_objects(result: Result, regions: Regions, rules: MotionRules, span: Span) -> Iterator[Row]:
    """Yield the stays of the objects of a result in regions."""
    assert result.events is not None
    searched = [_SearchedRegion(region) for region in regions]
    for one in read_objects(result.events):
        if not len(one.boxes):
            continue
        shares = np.array([region.shares(one.boxes) for region in searched])
        times = one.frames.astype(float)
        if one.start is not None and one.end is not None:
            times = np.interp(times, [one.start_frame, max(one.end_frame, one.start_frame + 1)], [one.start, one.end])
        usual = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
        for part in _stays(np.flatnonzero((shares > 0).any(axis=0)), times, max(rules.max_gap, 2 * usual)):
            best = shares[:, part].max(axis=0)
            peak = part[int(best.argmax())]
            known = one.start is not None
            start, end = (float(times[part[0]]), float(times[part[-1]])) if known else (None, None)
            if start is not None and end is not None and not span.meets(start, end):
                continue
            event = Event(EventKind.OBJECT, one.id, int(one.frames[part[0]]), int(one.frames[part[-1]]), start, end)
            x, y, w, h = one.boxes[peak].tolist()
            event.peak_frame, event.peak_share, event.peak_box = int(one.frames[peak]), float(best.max()), (x, y, w, h)
            event.regions = [name for name, share in zip(regions.names, shares[:, part], strict=True) if share.any()]
            event.picture = str(result.folder / one.picture) if one.picture else None
            yield row_of(event, result.name)


class _SearchedRegion:
    """A region in pixels; only the box around it is computed."""

    def __init__(self, region: Region) -> None:
        if any(length.percent for point in region.points for length in point) or region.path is not None:
            raise ParameterError(f"region '{region.name}' must be in pixels: a list of objects has no frame size")
        points = [(x.value, y.value) for x, y in region.points]
        if region.kind == "rectangle":
            (x, y), (w, h) = points
            points = [(x, y), (x + w, y + h)]
        self._left, self._top = (max(int(min(values)), 0) for values in zip(*points, strict=True))
        right, bottom = (int(max(values)) + 2 for values in zip(*points, strict=True))
        if (right - self._left) * (bottom - self._top) > _MOST_PIXELS:
            raise ParameterError(f"region '{region.name}' is larger than any frame")
        mask = region.mask((bottom, right))[self._top :, self._left :]
        self._area = int(np.count_nonzero(mask))
        self._sums = np.pad(mask.cumsum(axis=0, dtype=np.int64).cumsum(axis=1), ((1, 0), (1, 0)))

    def shares(self, boxes: np.ndarray) -> np.ndarray:
        """Return the share of the region that each box, (n, 4), fills; 0 for a box that is not in it."""
        rows, columns = (length - 1 for length in self._sums.shape)
        x, u = (np.clip(side - self._left, 0, columns) for side in (boxes[:, 0], boxes[:, 0] + boxes[:, 2]))
        y, v = (np.clip(side - self._top, 0, rows) for side in (boxes[:, 1], boxes[:, 1] + boxes[:, 3]))
        common = self._sums[v, u] - self._sums[y, u] - self._sums[v, x] + self._sums[y, x]
        is_in = (common >= REGION_SHARE * boxes[:, 2] * boxes[:, 3]) | (common >= FILLED_SHARE * self._area)
        found: np.ndarray = np.where(is_in, common / self._area, 0.0)
        return found


def _stays(points: np.ndarray, times: np.ndarray, max_gap: float) -> list[Any]:
    """Return the indices of each stay among `points`, which is interrupted for longer than `max_gap` between two."""
    if not len(points):
        return []
    return np.split(points, np.flatnonzero(np.diff(times[points]) > max_gap) + 1)
