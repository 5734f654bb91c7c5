"""Assignment of the detections of a frame to the tracks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from bgsub.events.detection import Detection, intersection
from bgsub.events.track import Track

_REACH, _YOUNG_REACH, _SLACK = 0.75, 2.0, 0.5  # of the diagonal, of a new track's diagonal, of the predicted way
_SIZE_RATIO = 5.0  # between two sights of an object
_MERGED_SHARE = 0.3  # of an object's mask that lies in the one it has merged into
_FRAGMENT_SHARE = 0.25  # of a merged object's area that a part must have


def assign(tracks: Sequence[Track], found: Sequence[Detection], clock: float) -> dict[int, int]:
    """Return the index of the detection of each track that has one, by the index of the track.

    An overlap of the masks counts more than a small distance; `Track.host` and `Track.anchor` are updated.
    """
    if not tracks:
        return {}
    links: dict[int, int] = {}
    rows_of = {track.event.id: row for row, track in enumerate(tracks) if track.event.id}
    for track in tracks:
        track.host = track.host if track.host in rows_of else 0
    if found:
        free = [row for row, track in enumerate(tracks) if not track.host]
        _solve(_overlaps(tracks, found, clock), free, range(len(found)), links)
        gains = _nearness(tracks, found, clock)
        for row, track in enumerate(tracks):
            if track.host:
                gains[row] = _part_gains(track, tracks[rows_of[track.host]], found, clock, gains[row])
        rest = [row for row in range(len(tracks)) if row not in links]
        taken = set(links.values())
        _solve(gains, rest, [column for column in range(len(found)) if column not in taken], links)
    for row in links:
        tracks[row].host = 0
    _merge(tracks, links, found, clock)
    return links


def _solve(gains: np.ndarray, rows: Sequence[int], columns: Sequence[int], links: dict[int, int]) -> None:
    """Add the assignment of some rows and columns with the largest sum of gains; pairs without gain stay apart."""
    part = gains[np.ix_(rows, columns)]
    for row, column in zip(*linear_sum_assignment(part, maximize=True), strict=True):
        if part[row, column] > 0:
            links[rows[row]] = columns[column]


def _overlaps(tracks: Sequence[Track], found: Sequence[Detection], clock: float) -> np.ndarray:
    """Return the intersection over union of the masks, the larger of last and predicted place, (n, m), float64."""
    table: np.ndarray = np.zeros((len(tracks), len(found)))
    shifts = np.array([track.shift(clock) for track in tracks])
    boxes = np.array([track.last.box for track in tracks])
    others = np.array([one.box for one in found])
    moved = boxes + np.pad(shifts, ((0, 0), (0, 2)))
    for row, column in np.argwhere(_touching(boxes, others) | _touching(moved, others)):
        last, one = tracks[row].last, found[column]
        common = max(intersection(last, one), intersection(last, one, (int(shifts[row, 0]), int(shifts[row, 1]))))
        table[row, column] = common / (last.area + one.area - common)
    return table


def _touching(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return which boxes, (n, 4) and (m, 4), have pixels in common, (n, m), bool."""
    low = np.maximum(boxes[:, np.newaxis, :2], others[:, :2])
    high = np.minimum((boxes[:, :2] + boxes[:, 2:])[:, np.newaxis], others[:, :2] + others[:, 2:])
    touching: np.ndarray = (low < high).all(axis=2)
    return touching


def _nearness(tracks: Sequence[Track], found: Sequence[Detection], clock: float) -> np.ndarray:
    """Return 1 at the predicted centroid, falling to 0 at the gate, and 0 for other sizes, (n, m), float64."""
    places = np.array([track.predicted(clock) for track in tracks])
    reach = np.array([_YOUNG_REACH if track.event.frames == 1 else _REACH for track in tracks])
    slack = np.array([_SLACK * math.hypot(*track.velocity) * (clock - track.clock) for track in tracks])
    areas, other_areas = np.array([[track.last.area] for track in tracks]), np.array([one.area for one in found])
    diagonals = np.maximum([[track.last.diagonal] for track in tracks], [one.diagonal for one in found])
    ways = places[:, np.newaxis] - np.array([one.centroid for one in found])
    gates = reach[:, np.newaxis] * diagonals + slack[:, np.newaxis]
    alike = np.maximum(areas, other_areas) <= _SIZE_RATIO * np.minimum(areas, other_areas)
    near: np.ndarray = np.where(alike, np.maximum(1 - np.hypot(ways[..., 0], ways[..., 1]) / gates, 0), 0)
    return near


def _part_gains(track: Track, host: Track, found: Sequence[Detection], clock: float, gains: np.ndarray) -> np.ndarray:
    """Return the gains of a track that has merged into `host`: parts of the host by the distance to the prediction."""
    gains = gains.copy()
    for column, one in enumerate(found):
        if one.area >= _FRAGMENT_SHARE * track.last.area and intersection(host.last, one):
            gains[column] = 1 + 1 / (1 + math.dist(one.centroid, track.predicted(clock)))
    return gains


def _merge(tracks: Sequence[Track], links: dict[int, int], found: Sequence[Detection], clock: float) -> None:
    """Keep the confirmed objects that have become part of another one; release those that are alone again."""
    owners = {column: tracks[row] for row, column in links.items() if tracks[row].event.id}
    for row, track in enumerate(tracks):
        if row in links or track.host or not track.event.id:
            continue
        shift = track.shift(clock)
        for column, owner in owners.items():
            common = max(intersection(track.last, found[column]), intersection(track.last, found[column], shift))
            if common >= _MERGED_SHARE * track.last.area:
                track.freeze(clock)
                owner.freeze(clock)
                track.host = owner.event.id
                break
    ids = {track.event.id: track for track in tracks}
    for track in tracks:
        if track.host:
            host = ids.get(track.host)
            track.host = 0 if host is None else host.host or track.host
    hosts = {track.host for track in tracks}
    for track in tracks:
        if not track.host and not (track.event.id and track.event.id in hosts):
            track.anchor = None
