"""Editing of regions in a window with mouse and keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.live.region_store import KINDS, RegionStore, text_of
from bgsub.video.text_overlay import add_bar, put_label, text_scale

Point = tuple[float, float]
"""A place in the frame, in percent of its width and height."""

HELP = (
    "drag: draw, corner, side, whole", "type: name", "Tab: next", "/: purpose", "Del: remove",
    "Enter: save for the next start", "Esc: leave",
)  # fmt: skip

_ESCAPE, _TAB, _RUB_OUT, _DELETE = 27, 9, 8, (127, 255)
_ENTER = (10, 13)
_NEAR = 0.025  # of the longer side of the picture; reach of the mouse
_LEAST = 1.0  # percent; smaller regions are dropped
_CLOSE = 2.0  # percent; a corner closer to its neighbour is dropped
_WHITE, _BLACK, _CHOSEN = (255, 255, 255), (0, 0, 0), (0, 159, 230)
_PURPOSES = {"roi": "look here only", "privacy": "never show"}


@dataclass
class _Region:
    """A region: its corners (none for a mask image), and its text until it is changed."""

    kind: str
    name: str
    points: list[Point]
    text: str | None = None


class RegionDrawing:
    """The regions of a session while they are edited, which is `active`, in all of its windows at once.

    Positions are in percent of the frame, so that windows of all sizes share them.
    """

    def __init__(self, store: RegionStore) -> None:
        self._store = store
        self.active = False
        self._regions: list[_Region] = []
        self._chosen = -1
        self._drag: Callable[[Point], None] | None = None
        self._dragged: int | None = None  # the corner

    def begin(self, width: int, height: int) -> None:
        """Begin to edit the stored regions, for frames of that size."""
        self.active, self._drag = True, None
        self._regions = [
            _Region(one["kind"], one["name"], [(x, y) for x, y in one["points"] or ()], one["text"])
            for one in self._store.describe(width, height)
        ]
        self._chosen = len(self._regions) - 1

    @property
    def _current(self) -> _Region | None:
        return self._regions[self._chosen] if self._regions else None

    @property
    def _points(self) -> list[Point]:
        """The corners of the selected region."""
        return self._regions[self._chosen].points if self._regions else []

    def press(self, key: int) -> str:
        """Run the command of a key; return a message, or an empty text."""
        region = self._current
        if key == _ESCAPE:
            self.active = False
        elif key in _ENTER:
            return self._save()
        elif region is None:
            return ""
        elif key == _TAB:
            self._chosen = (self._chosen + 1) % len(self._regions)
        elif key in _DELETE:
            self._remove()
        elif key == ord("/"):
            region.kind = KINDS[1 - KINDS.index(region.kind)]
        elif region.points and (key == _RUB_OUT or (key < 127 and (chr(key).isalnum() or chr(key) in "-_ "))):
            region.name = region.name[:-1] if key == _RUB_OUT else region.name + chr(key)
            region.text = None
        return ""

    def _save(self) -> str:
        texts = [(one.kind, one.text or text_of(one.name.strip(), one.points)) for one in self._regions]
        try:
            notice = self._store.replace({kind: [text for of, text in texts if of == kind] for kind in KINDS})
        except (ParameterError, SinkError) as error:
            return str(error)
        self.active = False
        return notice

    def _remove(self) -> None:
        del self._regions[self._chosen]
        self._chosen, self._drag = len(self._regions) - 1, None

    def grab(self, place: Point, shape: tuple[int, ...]) -> None:
        """Grab a corner, a side or a region at a position of a picture of that shape, or begin a new region."""
        points, reach = self._points, _NEAR * max(shape[:2])
        corner = _nearest(points, place, shape, reach)
        side = None if corner is not None else _nearest(_middles(points), place, shape, reach)
        if side is not None:
            corner = side + 1
            points.insert(corner, place)
        self._dragged = corner
        if corner is not None:
            self._drag = partial(points.__setitem__, corner)
        elif self._choose_at(place):
            self._drag = _mover(self._points, place)
        else:
            self._drag = _stretcher(self._begin_at(place), place)
        self._regions[self._chosen].text = None

    def drag(self, place: Point) -> None:
        """Move the grabbed part."""
        if self._drag is not None:
            self._drag((min(max(place[0], 0.0), 100.0), min(max(place[1], 0.0), 100.0)))

    def drop(self) -> None:
        """Release the grabbed part; drop a corner close to another one and a region without size."""
        held, self._drag = self._drag, None
        if held is None:
            return
        points, at = self._points, self._dragged
        if at is not None and len(points) > 3:
            neighbours = (points[at - 1], points[(at + 1) % len(points)])
            if any(_far(points[at], other) < _CLOSE for other in neighbours):
                del points[at]
        if all(_far(point, points[0]) < _LEAST for point in points):
            self._remove()

    def _choose_at(self, place: Point) -> bool:
        """Select the region at a position, the selected one before others; return whether there is one."""
        for index in sorted(range(len(self._regions)), key=lambda index: index != self._chosen):
            points = self._regions[index].points
            if points and cv2.pointPolygonTest(np.array(points, np.float32), place, False) >= 0:
                self._chosen = index
                return True
        return False

    def _begin_at(self, place: Point) -> list[Point]:
        """Begin and select a new region; return its corners."""
        names = {region.name for region in self._regions}
        name = next(f"region{number}" for number in range(1, len(names) + 2) if f"region{number}" not in names)
        self._regions.append(_Region("roi", name, [place] * 4))
        self._chosen = len(self._regions) - 1
        return self._points

    def draw(self, picture: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Draw the regions and a help bar into a picture, (h, w, 3) uint8, whose top left part is the frame."""
        picture = picture.copy()
        scale = text_scale(picture)
        line = max(1, round(2 * scale))
        for one in self._regions:
            if not one.points:
                continue
            corners = np.array([_pixel(point, shape) for point in one.points], np.int32)
            if one.kind == "privacy":
                cv2.fillPoly(picture, [corners], _BLACK)
            cv2.polylines(picture, [corners], True, _BLACK, 3 * line)
            cv2.polylines(picture, [corners], True, _CHOSEN if one is self._current else _WHITE, line)
            left, top = min(corners.tolist(), key=lambda corner: (corner[1], corner[0]))
            put_label(picture, one.name, left + line, top + line, scale, _WHITE)
        for points, size in ((_middles(self._points), 1.5), (self._points, 3)):
            for place in (_pixel(point, shape) for point in points):
                cv2.circle(picture, place, round(size * (line + 1)), _BLACK, cv2.FILLED)
                cv2.circle(picture, place, round(size * line), _CHOSEN, cv2.FILLED)
        region = self._current
        told = [] if region is None else [f"{region.name}: {_PURPOSES[region.kind]}"]
        return add_bar(picture, [*told, *HELP], scale)


def _mover(points: list[Point], start: Point) -> Callable[[Point], None]:
    """Return a function that moves corners by the distance from the start."""
    before = list(points)

    def move(to: Point) -> None:
        points[:] = [(x + to[0] - start[0], y + to[1] - start[1]) for x, y in before]

    return move


def _stretcher(points: list[Point], start: Point) -> Callable[[Point], None]:
    """Return a function that makes the corners a rectangle from the start."""

    def stretch(to: Point) -> None:
        points[:] = [start, (to[0], start[1]), to, (start[0], to[1])]

    return stretch


def _pixel(point: Point, shape: tuple[int, ...]) -> tuple[int, int]:
    return round(point[0] / 100 * shape[1]), round(point[1] / 100 * shape[0])


def _middles(points: list[Point]) -> list[Point]:
    """Return the middle of each side, from the one between the first two corners on."""
    following = [*points[1:], *points[:1]]
    return [((x + u) / 2, (y + v) / 2) for (x, y), (u, v) in zip(points, following, strict=True)]


def _nearest(points: list[Point], place: Point, shape: tuple[int, ...], reach: float) -> int | None:
    """Return the index of the point nearest to a position within `reach` pixels, or None."""
    x, y = _pixel(place, shape)
    distances = [max(abs(x - u), abs(y - v)) for u, v in (_pixel(point, shape) for point in points)]
    return min(range(len(points)), key=distances.__getitem__) if min(distances, default=reach + 1) <= reach else None


def _far(one: Point, other: Point) -> float:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1]))
