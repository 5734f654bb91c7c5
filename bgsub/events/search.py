"""Search in the results of runs: objects and motion in regions."""

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

import numpy as np

from bgsub.errors import ParameterError, SourceError, logger
from bgsub.events.event import OBJECT, Event
from bgsub.events.feed import EventFeed
from bgsub.events.linking import FILLED_SHARE, REGION_SHARE, ObjectLinker
from bgsub.events.motion import MotionRules
from bgsub.events.results import Result, find_results, inside, is_of, read_events
from bgsub.events.tables import MotionListSink, Row, row_of
from bgsub.separation import FOREGROUND, SHADOW
from bgsub.video.output_names import VIDEO_ENDINGS
from bgsub.video.regions import Region, Regions, bounding_box
from bgsub.video.sinks.encoding import BEGIN
from bgsub.video.sinks.video import as_separation
from bgsub.video.sources.av_container import open_video
from bgsub.video.sources.opening import open_source
from bgsub.video.timecode import ALL, Selection, Timecode

_FOREGROUND_FROM = 191  # half of the way from shadow to foreground
_MOST_PIXELS = 1 << 26
_CHECKED = 10  # frames with anything but background
_NEAR = 24  # grey levels between a label and its values after compression with loss
_MOST_BETWEEN, _FEW = 0.25, 100  # share of values that are no label, of at least so many


def search_results(place: Path, regions: Regions, rules: MotionRules | None = None, part: Selection = ALL) -> list[Row]:
    """Return the objects (events.jsonl) or the motion (masks) in regions that meet a part of the recordings."""
    rules = rules or MotionRules()
    if place.is_file():
        return [row for row in _search_masks(place, place.name, regions, rules) if _meets(row, part)]
    try:
        results = [result for result in find_results(place) if result.events is not None]
    except SourceError:
        results = []
        if not place.is_dir():
            raise
    if results:
        return _rows_of_each({result.name: _search_objects(result, regions, rules) for result in results}, part)
    named = sorted(path for path in place.rglob("*mask*") if is_of(path.name, "mask"))
    masks = [path for path in named if (_is_masks(path) if path.is_dir() else path.suffix in VIDEO_ENDINGS)]
    if not masks and _is_masks(place):
        masks = [place]
    if not masks:
        raise SourceError(f"no events.jsonl and no masks in '{place}' or below")
    names = {path: path.name if path == place else path.relative_to(place).as_posix() for path in masks}
    return _rows_of_each({name: _search_masks(path, name, regions, rules) for path, name in names.items()}, part)


def _meets(row: Row, part: Selection) -> bool:
    """Return whether an event belongs to a part; ParameterError for a part in seconds if the event has no times."""

    def place(name: str, bound: Timecode) -> float:
        found = row[f"{name}_frame"] if bound.frame is not None else row[name]
        if found is None:
            raise ParameterError(f"'{row['source']}' has no frame rate: give a frame number instead of {bound}")
        return float(found)

    return (part.start is None or place("end", part.start) >= part.start.amount) and (
        part.end is None or place("start", part.end) <= part.end.amount
    )


def _rows_of_each(found: dict[str, Iterator[Row]], part: Selection) -> list[Row]:
    """Return the rows of a part of all recordings that contain the regions; ParameterError if there is none."""
    rows: list[Row] = []
    wrong: dict[str, ParameterError] = {}
    for name, some in found.items():
        try:
            some_in_part = (row for row in some if _meets(row, part))
            rows += sorted(some_in_part, key=lambda row: (row["start_frame"], row["number"]))
        except ParameterError as error:
            wrong[name] = error
    if len(wrong) == len(found):
        raise next(iter(wrong.values()))
    for name, reason in wrong.items():
        logger.warning("%s is not searched: %s", name, reason)
    return rows


def _is_masks(folder: Path) -> bool:
    return any(path.suffix.lower() == ".png" for path in folder.iterdir())


def _search_masks(path: Path, name: str, regions: Regions, rules: MotionRules) -> Iterator[Row]:
    with open_source(path) as source:
        found = MotionListSink(EventFeed(ObjectLinker(source.fps, regions=regions), rules, follow=False), name)
        inside, checked = regions.union(source.size[::-1]), 0
        begin = _begin_of(path) if source.files else 0.0
        first = round(begin * float(source.fps or 0))
        for frame in source:
            stored = frame.image if frame.image.ndim == 2 else frame.image[:, :, 0]
            if checked < _CHECKED and (stored > _NEAR).any():
                checked += 1
                if not _is_mask(frame.image):
                    other = f"frame {frame.index} has other values than 0, 127 and 255"
                    raise SourceError(f"{source.name} is no mask: {other}")
            # Compression with loss changes the values.
            mask = np.where(inside & (stored > _FOREGROUND_FROM), np.uint8(FOREGROUND), np.uint8(0))
            time = None if frame.time is None else begin + frame.time
            found.write(replace(frame, index=first + frame.index, time=time), as_separation(mask))
        found.close()
    yield from found.rows()


def _begin_of(path: Path) -> float:
    """Return the time of the first frame of stored masks in their source, 0 if it is not in the comment."""
    with open_video(path, threads=False) as video:
        tags = {name.lower(): text for name, text in video.container.metadata.items()}
    found = re.fullmatch(rf"{BEGIN}([0-9]{{1,9}}\.[0-9]{{6}})", tags.get("comment", ""))
    return float(found[1]) if found else 0.0


def _is_mask(image: np.ndarray) -> bool:
    """Return whether an image, (h, w) or (h, w, 3), is a mask; compression with loss changes some values."""
    bright = image[image > _NEAR].astype(float)
    between = np.minimum(abs(bright - SHADOW), abs(bright - FOREGROUND)) > _NEAR
    return bool(np.count_nonzero(between) <= _MOST_BETWEEN * max(bright.size, _FEW))


def _search_objects(result: Result, regions: Regions, rules: MotionRules) -> Iterator[Row]:
    """Yield the stays of the objects of a result in regions."""
    assert result.events is not None
    searched = lru_cache(1)(lambda size: [_SearchedRegion(region, size) for region in regions])
    for one in read_events(result.events):
        if one.kind != OBJECT or not len(one.boxes):
            continue
        shares = np.array([region.shares(one.boxes) for region in searched(one.frame_size)])
        times = one.times
        usual = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
        points = np.flatnonzero((shares > 0).any(axis=0))
        gaps = np.flatnonzero(np.diff(times[points]) > max(rules.max_gap, 2 * usual)) + 1
        for part in np.split(points, gaps) if len(points) else ():
            best = shares[:, part].max(axis=0)
            peak = part[int(best.argmax())]
            known = one.start is not None
            start, end = (float(times[part[0]]), float(times[part[-1]])) if known else (None, None)
            event = Event(OBJECT, one.id, int(one.frames[part[0]]), int(one.frames[part[-1]]), start, end)
            x, y, w, h = one.boxes[peak].tolist()
            event.peak_frame, event.peak_share, event.peak_box = int(one.frames[peak]), float(best.max()), (x, y, w, h)
            event.regions = [name for name, share in zip(regions.names, shares[:, part], strict=True) if share.any()]
            picture = inside(result.folder, one.picture)
            event.picture = None if picture is None else str(Path(picture))
            with suppress(ValueError, OverflowError):  # no date
                later = timedelta(seconds=(start or 0.0) - (one.start or 0.0))
                event.began = (datetime.fromisoformat(one.began) + later).isoformat(timespec="milliseconds")
            yield row_of(event, result.name)


class _SearchedRegion:
    """A region of a frame of a size, width and height."""

    def __init__(self, region: Region, size: tuple[int, int]) -> None:
        if math.prod(size) > _MOST_PIXELS:
            raise ParameterError(f"region '{region.name}' is larger than any frame")
        mask = region.mask(size[::-1])
        rows, columns = bounding_box(mask)
        self._top, self._left, mask = rows.start, columns.start, mask[rows, columns]
        self._area = int(np.count_nonzero(mask))
        self._sums = np.pad(mask.cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32), ((1, 0), (1, 0)))

    def shares(self, boxes: np.ndarray) -> np.ndarray:
        """Return the share of the region that each box, (n, 4), fills; 0 for a box that is not in it."""
        rows, columns = (length - 1 for length in self._sums.shape)
        x, u = (np.clip(side - self._left, 0, columns) for side in (boxes[:, 0], boxes[:, 0] + boxes[:, 2]))
        y, v = (np.clip(side - self._top, 0, rows) for side in (boxes[:, 1], boxes[:, 1] + boxes[:, 3]))
        common = self._sums[v, u] - self._sums[y, u] - self._sums[v, x] + self._sums[y, x]
        is_in = (common >= REGION_SHARE * boxes[:, 2] * boxes[:, 3]) | (common >= FILLED_SHARE * self._area)
        return np.where(is_in, common / self._area, 0.0)
