"""Which object of a frame is which track; see `ObjectLinker` for the rules."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from bgsub.events.detection import Detection, intersection
from bgsub.events.track import Track

_REACH, _YOUNG_REACH, _SLACK = 0.75, 2.0, 0.5  # of the diagonal, of a new object's diagonal, of the predicted way
_SIZE_RATIO = 5.0  # between two sights of an object
_HIDDEN_SHARE = 0.3  # of an object that lies in another one where it is hidden
_FRAGMENT_SHARE = 0.25  # of a hidden object's area that comes out


def link(tracks: Sequence[Track], found: Sequence[Detection], clock: float) -> dict[int, int]:
    """Return the index of the object that each track is at a second, by ``id()`` of the track.

    Hides tracks in others where they merge, and brings them out where they split.
    """
    links: dict[int, int] = {}
    free = [track for track in tracks if track.host is None]
    for row, column in _assigned(_overlaps(free, found, clock)):
        links[id(free[row])] = column
    _split(tracks, links, found, clock)
    rest = [track for track in tracks if id(track) not in links]
    taken = set(links.values())
    left = [index for index in range(len(found)) if index not in taken]
    for row, column in _assigned(_nearness(rest, [found[index] for index in left], clock)):
        links[id(rest[row])] = left[column]
        rest[row].host = rest[row].anchor = None
    _merge(tracks, links, found, clock)
    return links


def _assigned(gains: np.ndarray) -> list[tuple[int, int]]:
    """Return rows and columns of the assignment with the largest sum of gains; pairs that gain nothing stay apart."""
    if not gains.any():
        return []
    rows, columns = linear_sum_assignment(gains, maximize=True)
    return [(int(row), int(column)) for row, column in zip(rows, columns, strict=True) if gains[row, column] > 0]


def _overlaps(tracks: Sequence[Track], found: Sequence[Detection], clock: float) -> np.ndarray:
    """Return the intersection over union of tracks and objects, (n, m), float64."""
    table: np.ndarray = np.zeros((len(tracks), len(found)))
    if not table.size:
        return table
    shifts = np.array([track.shift(clock) for track in tracks])
    boxes = np.array([track.last.box for track in tracks])
    others = np.array([one.box for one in found])
    moved = boxes + np.pad(shifts, ((0, 0), (0, 2)))
    for row, column in np.argwhere(_touching(boxes, others) | _touching(moved, others)):
        last, one = tracks[row].last, found[column]
        shift = (int(shifts[row, 0]), int(shifts[row, 1]))
        common = intersection(last, one)
        if shift != (0, 0):
            common = max(common, intersection(last, one, shift))
        table[row, column] = common / (last.area + one.area - common)
    return table


def _touching(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return which boxes, (n, 4) and (m, 4) of left, top, width, height, have pixels in common, (n, m), bool."""
    low = np.maximum(boxes[:, np.newaxis, :2], others[:, :2])
    high = np.minimum((boxes[:, :2] + boxes[:, 2:])[:, np.newaxis], others[:, :2] + others[:, 2:])
    touching: np.ndarray = (low < high).all(axis=2)
    return touching


def _nearness(tracks: Sequence[Track], found: Sequence[Detection], clock: float) -> np.ndarray:
    """Return 1 at the predicted centroid, falling to 0 at the gate, (n, m), float64; 0 for other sizes, too."""
    if not tracks or not found:
        return np.zeros((len(tracks), len(found)))
    places = np.array([track.predicted(clock) for track in tracks])
    reach = np.array([_YOUNG_REACH if track.event.frames == 1 else _REACH for track in tracks])
    slack = np.array([_SLACK * track.speed * (clock - track.clock) for track in tracks])
    areas, other_areas = np.array([[track.last.area] for track in tracks]), np.array([one.area for one in found])
    diagonals = np.maximum([[track.last.diagonal] for track in tracks], [one.diagonal for one in found])
    ways = places[:, np.newaxis] - np.array([one.centroid for one in found])
    gates = reach[:, np.newaxis] * diagonals + slack[:, np.newaxis]
    alike = np.maximum(areas, other_areas) <= _SIZE_RATIO * np.minimum(areas, other_areas)
    near: np.ndarray = np.where(alike, np.maximum(1 - np.hypot(ways[..., 0], ways[..., 1]) / gates, 0), 0)
    return near


def _split(tracks: Sequence[Track], links: dict[int, int], found: Sequence[Detection], clock: float) -> None:
    """Give the parts that come out of a merged object to those that were hidden in it."""
    hidden = [(track, track.host) for track in tracks if track.host is not None and id(track.host) in links]
    if not hidden:
        return
    taken = set(links.values())
    parts = [index for index in range(len(found)) if index not in taken]
    gains: np.ndarray = np.zeros((len(hidden), len(parts)))
    for row, (track, host) in enumerate(hidden):
        for column, index in enumerate(parts):
            one = found[index]
            if one.area >= _FRAGMENT_SHARE * track.last.area and intersection(host.last, one):
                gains[row, column] = 1 / (1 + math.dist(one.centroid, track.predicted(clock)))
    for row, column in _assigned(gains):
        track, host = hidden[row]
        links[id(track)] = parts[column]
        _exchange(track, host, links, found, clock)
        track.host = track.anchor = None
        if not any(other.host is host for other in tracks):
            host.anchor = None


def _exchange(first: Track, second: Track, links: dict[int, int], found: Sequence[Detection], clock: float) -> None:
    """Swap the objects of two tracks where that fits their predicted places better."""
    one, other = links[id(first)], links[id(second)]

    def cost(track: Track, index: int) -> float:
        return math.dist(track.predicted(clock), found[index].centroid)

    if cost(first, other) + cost(second, one) < cost(first, one) + cost(second, other):
        links[id(first)], links[id(second)] = other, one


def _merge(tracks: Sequence[Track], links: dict[int, int], found: Sequence[Detection], clock: float) -> None:
    """Hide the confirmed objects that have become part of another one."""
    owners = {links[id(track)]: track for track in tracks if id(track) in links}
    for track in tracks:
        if id(track) in links or track.host is not None or track.event.id == 0:
            continue
        shift = track.shift(clock)
        for index, owner in owners.items():
            common = max(intersection(track.last, found[index]), intersection(track.last, found[index], shift))
            if common >= _HIDDEN_SHARE * track.last.area:
                track.hold(clock)
                owner.hold(clock)
                track.host = owner
                break
    for track in tracks:
        if track.host is not None and track.host.host is not None:
            track.host = track.host.host
