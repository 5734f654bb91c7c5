"""Tracks of objects: their motion model, their confirmation, and the detections that belong to them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bgsub.events.detection import Detection, intersection
from bgsub.events.event import OBJECT, Event, ObjectInFrame

Point = tuple[float, float]

_STEADY_SECONDS = 0.4  # time constant of the velocity
_LEVEL = 0.55  # Dice coefficient of two sights that is evidence neither for an object nor for noise
_UNSEEN = 0.8  # of a frame in sight: below 1, so that an object seen in every second frame is confirmed
_SIGNIFICANT = 6.0  # a random walk gets that far beyond its steps in one of exp(6) = 400 cases
_MOST_POINTS = 4096  # of a track
_MEMORY, _STRETCH = 2.4, 0.4  # seconds of sights that are compared, and of those at their beginning and end
_LOOK_SECONDS = 2.0  # time constant of the colours of a track
_WAY, _OTHER_SIZE = 0.5, 1.3  # least way in each stretch, in side lengths; ratio of the areas


@dataclass(eq=False)
class Track:
    """An object that is followed, confirmed when `event` has an ID: it keeps its shape, or moves in one direction."""

    event: Event
    last: Detection
    clock: float  # seconds of the last sight
    earliest: float  # seconds before which it is not confirmed
    origin: Point  # centroid of the sight since which `solid` and `walked` count
    solid: float  # seconds in sight, weighted by how much the shape stays the same, minus seconds out of sight
    walked: float = 0.0  # sum of the squared steps in pixels
    seen: float = 0.0  # seconds in sight
    velocity: Point = (0.0, 0.0)  # pixels per second, smoothed
    host: int = 0  # ID of the object it has merged into; -1 while it is larger than the limits
    anchor: tuple[float, float, float] | None = None  # while merged: seconds, x, y from which to predict
    pending: list[ObjectInFrame] = field(default_factory=list)  # sights until the confirmation
    recent: list[tuple[float, float, float, float]] = field(default_factory=list)  # seconds, x, y, area
    look: np.ndarray | None = None  # mean of the looks while no other object was part of it

    def likeness(self, one: Detection) -> float:
        """Return the squared Bhattacharyya coefficient of the colours, in [0, 1]; 1 if unknown."""
        return 1.0 if self.look is None or one.look is None else float(self.look @ one.look) ** 2

    def is_object(self, seconds: float, starting: bool) -> bool:
        """Whether this is an object; `seconds` for one at rest, and motion alone while the model starts."""
        way = math.dist(self.origin, self.last.centroid)
        moved = way**2 / max(self.walked, 1.0) / _SIGNIFICANT  # 1 / _SIGNIFICANT for a random walk
        return moved >= 1 if starting else self.solid >= seconds * (1 - moved)

    def has_left(self) -> bool:
        """Whether it has moved by its own size in one direction, as remains of a light change do not."""
        dx, dy = (abs(b - a) for a, b in zip(self.origin, self.last.centroid, strict=True))
        length = max(w * dx + h * dy for _, _, w, h in (self.last.box, self.event.peak_box))  # times the way
        return dx**2 + dy**2 >= max(length, _SIGNIFICANT * self.walked, 1)

    def has_changed(self) -> bool:
        """Whether a merged track has become another object: it moves in the opposite direction and has another size."""
        first, last = self.recent[0][0], self.recent[-1][0]
        if last - first < _MEMORY - 2 * _STRETCH:
            return False
        early = np.array([one for one in self.recent if one[0] <= first + _STRETCH])
        late = np.array([one for one in self.recent if one[0] >= last - _STRETCH])
        before, after = early[-1, 1:3] - early[0, 1:3], late[-1, 1:3] - late[0, 1:3]
        sizes = np.median(early[:, 3]), np.median(late[:, 3])
        ways = np.hypot(*before), np.hypot(*after)
        moves = min(ways) >= _WAY * math.sqrt(min(sizes)) > 0
        return bool(moves and before @ after < -0.5 * ways[0] * ways[1] and max(sizes) > _OTHER_SIZE * min(sizes))

    def predicted(self, clock: float) -> Point:
        """Return the centroid at `clock` seconds at constant velocity."""
        since, x, y = self.anchor or (self.clock, *self.last.centroid)
        return x + self.velocity[0] * (clock - since), y + self.velocity[1] * (clock - since)

    def shift(self, clock: float) -> tuple[int, int]:
        """Return the predicted movement (x, y) of the last mask in pixels."""
        x, y = self.predicted(clock)
        return round(x - self.last.centroid[0]), round(y - self.last.centroid[1])

    def freeze(self, clock: float) -> None:
        """Predict from here with the present velocity, because a merged mask does not show the object's motion."""
        if self.anchor is None:
            self.anchor = (clock, *self.predicted(clock))

    def see(self, detection: Detection, clock: float, interval: float, counted: float, gap: float) -> None:
        """Update the motion model and the confirmation with a sight."""
        passed, before = clock - self.clock, self.last
        if self.anchor is None and passed > 0:
            weight = max(passed / (passed + _STEADY_SECONDS), 1 / self.event.frames)
            step = ((b - a) / passed for a, b in zip(before.centroid, detection.centroid, strict=True))
            x, y = (old + weight * (new - old) for old, new in zip(self.velocity, step, strict=True))
            self.velocity = (x, y)
        self.last, self.clock = detection, clock
        self.recent.append((clock, *detection.centroid, float(detection.area)))
        while self.recent[0][0] < clock - _MEMORY:
            del self.recent[0]
        self.seen += interval
        if self.anchor is None and detection.look is not None:
            weight = 1.0 if self.look is None else float(interval / min(self.seen, _LOOK_SECONDS))
            mean = detection.look if self.look is None else (1 - weight) * self.look + weight * detection.look
            self.look = mean / np.linalg.norm(mean)
        way = (round(self.velocity[0] * passed), round(self.velocity[1] * passed))
        common = max(intersection(before, detection), intersection(before, detection, way))
        likeness = 2 * common / (before.area + detection.area)
        unseen = _UNSEEN * max(passed - gap, 0.0) * counted / interval
        self.solid += counted * (likeness - _LEVEL) / (1 - _LEVEL) - unseen
        self.walked += math.dist(before.centroid, detection.centroid) ** 2

    def replace(self, frame: int, time: float | None, interval: float, solid: float) -> None:
        """Begin the track of another object with the newest sight; it is confirmed when it was seen long enough."""
        self.event = Event(OBJECT, 0, frame, frame, time, time)
        self.recent, self.seen = self.recent[-1:], interval
        self.origin, self.solid, self.walked = self.last.centroid, solid, 0.0

    def add(self, one: ObjectInFrame) -> None:
        """Add a sight to the event; a track of more than 4096 points loses every second one."""
        event = self.event
        event.end_frame, event.end_time = one.frame, one.time
        if one.area > event.peak_area:
            event.peak_area, event.peak_frame, event.peak_box = one.area, one.frame, one.box
        if event.frames % event.step == 0:
            if len(event.areas) >= _MOST_POINTS:
                event.step *= 2
                del event.boxes[1::2], event.centroids[1::2], event.areas[1::2], event.times[1::2]
            if event.frames % event.step == 0:
                event.boxes.append((one.frame, *one.box))
                event.centroids.append(one.centroid)
                event.areas.append(one.area)
                event.times.append(one.time)
        event.frames += 1
        event.regions += [name for name in one.regions if name not in event.regions]

    def restart(self, one: ObjectInFrame) -> None:
        """Forget the sights before `one`, the newest."""
        self.event = Event(OBJECT, 0, one.frame, one.frame, one.time, one.time)
        self.pending, self.seen = [one], 0.0
        self.origin, self.solid, self.walked = one.centroid, 0.0, 0.0
        self.add(one)


_REACH, _YOUNG_REACH, _SLACK = 0.5, 2.0, 0.5  # of the diagonal, of a new track's diagonal, of the predicted way
_SIZE_RATIO = 5.0  # between two sights of an object
_MERGED_SHARE = 0.3  # of an object's mask that lies in the one it has merged into
_FRAGMENT_SHARE = 0.25  # of a merged object's area that a part must have
_LEAST_LIKENESS, _KEEPING = 0.6, 1.2  # of a part that a hidden object gets; factor for the object that hides it


def assign(tracks: Sequence[Track], found: Sequence[Detection], clock: float) -> dict[int, int]:
    """Return the index of the detection by the index of the track; update `Track.host` and `Track.anchor`."""
    if not tracks:
        return {}
    links: dict[int, int] = {}
    rows_of = {track.event.id: row for row, track in enumerate(tracks) if track.event.id}
    for track in tracks:
        track.host = track.host if track.host in rows_of else 0
    if found:
        alike = np.array([[track.likeness(one) for one in found] for track in tracks])
        gains, hosts = _overlaps(tracks, found, clock) * alike, {track.host for track in tracks}
        for row, track in enumerate(tracks):
            if track.host or (track.event.id and track.event.id in hosts):
                host = tracks[rows_of[track.host]] if track.host else track
                _add_parts(track, host, found, clock, alike[row], gains[row])
        _solve(gains, range(len(tracks)), range(len(found)), links)
        gains = _nearness(tracks, found, clock) * alike
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
    pairs = np.argwhere(part > 0)
    if any(len(np.unique(line)) < len(line) for line in pairs.T):  # else there is nothing to decide
        from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - takes .2 s

        pairs = np.transpose(linear_sum_assignment(part, maximize=True))
    for row, column in pairs:
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
    return (low < high).all(axis=2)


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
    return np.where(alike, np.maximum(1 - np.hypot(ways[..., 0], ways[..., 1]) / gates, 0), 0)


def _add_parts(
    track: Track, host: Track, found: Sequence[Detection], clock: float, alike: np.ndarray, gains: np.ndarray
) -> None:
    """Set the gains of parts of `host` for it or a track hidden in it, by likeness and distance to the prediction."""
    gains *= track is host  # the last place of a hidden object is old
    for column, one in enumerate(found):
        fits = one.area >= _FRAGMENT_SHARE * track.last.area and (track is host or alike[column] >= _LEAST_LIKENESS)
        if fits and intersection(host.last, one):
            near = 1 / math.sqrt(1 + math.dist(one.centroid, track.predicted(clock)) / track.last.diagonal)
            gains[column] = alike[column] * near * (_KEEPING if track is host else 1)


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
