"""Search in the results of runs: what was in a region, and when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, SourceError
from bgsub.events.event import Event, EventKind
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.motion import MotionRules
from bgsub.events.motion_table import MotionListSink, Row, row_of
from bgsub.events.results import Record, Result, find_results, read_objects
from bgsub.separation import Separation
from bgsub.video.output_names import VIDEO_ENDINGS
from bgsub.video.regions import Regions
from bgsub.video.sources.opening import open_source

_OF_OBJECT, _OF_REGION = 0.25, 0.5  # least share of the object, or of the region, that lies in the other
_NAMES = ("mask.mkv", "mask", *(f"mask{ending}" for ending in VIDEO_ENDINGS))


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
    """Return what was in regions, one row for each stay of an object or for each motion event.

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
    if place.is_file() or (place.is_dir() and _is_masks(place)):
        return _search_masks(place, place.name, regions, rules, span)
    rows: list[Row] = []
    try:
        results = [result for result in find_results(place) if result.events is not None]
    except SourceError:
        results = []
    for result in results:
        rows += _search_objects(result, regions, rules, span)
    if results:
        return rows
    masks = [path for name in _NAMES for path in sorted(place.rglob(name)) if path.is_file() or _is_masks(path)]
    if not masks:
        raise SourceError(f"no events.jsonl and no masks in '{place}' or below")
    for path in masks:
        rows += _search_masks(path, path.relative_to(place).as_posix(), regions, rules, span)
    return rows


def _is_masks(folder: Path) -> bool:
    return any(path.suffix.lower() == ".png" for path in folder.iterdir())


def _search_masks(path: Path, name: str, regions: Regions, rules: MotionRules, span: Span) -> list[Row]:
    """Return the motion events of stored masks."""
    with open_source(path) as source:
        feed = EventFeed(
            ObjectLinker(None if source.fps is None else float(source.fps), regions=regions), rules, follow=False
        )
        found = MotionListSink(feed, name)
        for frame in source:
            mask = frame.image if frame.image.ndim == 2 else frame.image[:, :, 0]
            nothing = np.empty((0, 0), np.float32)
            found.write(frame, Separation(mask, mask, mask, nothing, np.empty(0), "tracking", None))
        found.close()
    rows = found.rows()
    return [row for row in rows if row["start"] is None or span.meets(row["start"], row["end"])]


def _search_objects(result: Result, regions: Regions, rules: MotionRules, span: Span) -> Iterator[Row]:
    """Yield the stays of the objects of a result in regions."""
    assert result.events is not None
    for record in read_objects(result.events):
        boxes = np.array(record["track"]["box"], np.int64).reshape(-1, 4)
        frames = np.array(record["track"]["frame"], np.int64)
        if not len(boxes) or len(boxes) != len(frames):
            continue
        inside = {name: _inside(boxes, regions, name) for name in regions.names}
        there = np.any([share > 0 for share in inside.values()], axis=0)
        seconds = _seconds(record, frames)
        for part in _stays(np.flatnonzero(there), frames if seconds is None else seconds, rules.max_gap):
            names = [name for name, share in inside.items() if (share[part] > 0).any()]
            share = np.max([inside[name][part] for name in names], axis=0)
            peak = int(share.argmax())
            times = (None, None) if seconds is None else (seconds[part[0]], seconds[part[-1]])
            if times[0] is not None and not span.meets(*times):
                continue
            event = Event(EventKind.OBJECT, int(record["id"]), int(frames[part[0]]), int(frames[part[-1]]), *times)
            event.peak_frame, event.peak_share = int(frames[part[peak]]), float(share[peak])
            x, y, w, h = boxes[part[peak]].tolist()
            event.peak_box, event.regions = (x, y, w, h), names
            with suppress(TypeError):
                event.picture = str(result.folder / record["picture"]) if "picture" in record else None
            yield row_of(event, result.name)


def _inside(boxes: np.ndarray, regions: Regions, name: str) -> np.ndarray:
    """Return the share of a region, by name, that each box fills, (n,); 0 where the box is not in it."""
    region = regions[regions.names.index(name)]
    if any(length.percent for point in region.points for length in point) or region.path is not None:
        raise ParameterError(f"region '{name}' must be in pixels: a list of objects has no frame size")
    ends = list(region.points) if region.kind == "polygon" else [region.points[0]]
    if region.kind == "rectangle":
        (x, y), (w, h) = region.points
        ends.append((type(x)(x.value + w.value), type(y)(y.value + h.value)))
    shape = tuple(
        int(max(*(point[axis].value for point in ends), (boxes[:, axis] + boxes[:, axis + 2]).max())) + 2
        for axis in (1, 0)
    )
    mask = region.mask(shape)
    table = np.pad(mask.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    x, y = np.maximum(boxes[:, 0], 0), np.maximum(boxes[:, 1], 0)
    u, v = x + boxes[:, 2], y + boxes[:, 3]
    common = table[v, u] - table[y, u] - table[v, x] + table[y, x]
    area, whole = np.maximum(boxes[:, 2] * boxes[:, 3], 1), int(mask.sum())
    counts: np.ndarray = (common >= _OF_OBJECT * area) | (common >= _OF_REGION * whole)
    share: np.ndarray = np.where(counts & (common > 0), common / whole, 0.0)
    return share


def _seconds(record: Record, frames: np.ndarray) -> np.ndarray | None:
    """Return the time of each point of a track, between those of its ends; None if these are unknown."""
    start, end = record.get("start_time"), record.get("end_time")
    if not (isinstance(start, (int, float)) and isinstance(end, (int, float))):
        return None
    return np.interp(frames, [record["start_frame"], max(record["end_frame"], record["start_frame"] + 1)], [start, end])


def _stays(points: np.ndarray, times: np.ndarray, max_gap: float) -> list[Any]:
    """Return the indices of each stay among `points`, which is interrupted for longer than `max_gap` between two."""
    if not len(points):
        return []
    return np.split(points, np.flatnonzero(np.diff(times[points]) > max_gap) + 1)
