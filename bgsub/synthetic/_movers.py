"""Movers of a scene: people and cars, their ways over the floor, and the timetable of their trips."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bgsub.synthetic._shapes import Canvas, Mottle, Point, bgr, capsule, convex, ellipse, generator

# Close to the tones of walls and floors, so that a coat may look like the wall behind it.
_TOPS = [
    (178, 52, 44), (38, 66, 120), (196, 188, 172), (58, 84, 62), (214, 168, 60), (64, 62, 68),
    (112, 132, 158), (150, 128, 106), (228, 226, 220), (122, 58, 92), (36, 38, 44), (88, 138, 142),
]  # fmt: skip
_TROUSERS = [(44, 50, 72), (62, 60, 58), (120, 108, 88), (30, 30, 34), (84, 98, 122), (98, 88, 78)]
_SKIN = [(224, 178, 148), (198, 146, 112), (142, 96, 70), (98, 66, 50)]
_HAIR = [(40, 30, 24), (84, 58, 36), (150, 116, 70), (120, 118, 114), (22, 20, 20)]
_PATTERNS = ("plain", "stripes", "checks", "jacket")


@dataclass(frozen=True)
class Way:
    """A walk over the floor along straight lines."""

    corners: tuple[Point, ...]  # in metres; the first and the last are out of sight
    speed: float  # metres per frame
    halt: tuple[float, float] = (0.0, 0.0)  # distance at which the walker stops, and the frames of the stop; 0 for none

    @property
    def length(self) -> float:
        return sum(math.dist(p, q) for p, q in zip(self.corners, self.corners[1:], strict=False))

    @property
    def frames(self) -> float:
        return self.length / self.speed + self.halt[1]

    def walked(self, age: float) -> tuple[float, float]:
        """Return the metres walked after `age` frames and how fully the limbs swing, in [0, 1]."""
        at, rest = self.halt
        before = at / self.speed
        if not rest or age <= before:
            swing = 1.0 if not rest else min(1.0, 0.12 + (before - age) / 6)
            return age * self.speed, swing
        if age <= before + rest:
            return at, 0.12
        return at + (age - before - rest) * self.speed, min(1.0, 0.12 + (age - before - rest) / 6)

    def place(self, distance: float) -> tuple[float, float, float, float]:
        """Return (x, z) after some metres and the direction (dx, dz) of the walk there."""
        pieces = [*zip(self.corners, self.corners[1:], strict=False)]
        while len(pieces) > 1 and distance > math.dist(*pieces[0]):
            distance -= math.dist(*pieces.pop(0))
        p, q = pieces[0]
        piece = math.dist(p, q)
        dx, dz = (q[0] - p[0]) / piece, (q[1] - p[1]) / piece
        return p[0] + dx * distance, p[1] + dz * distance, dx, dz


class Person:
    """The appearance of one person, given by a key of non-negative integers."""

    shadow_radius = 0.17

    def __init__(self, *key: int) -> None:
        rng = generator(*key, 11)
        self.height = float(rng.uniform(1.58, 1.86))
        self.stout = float(rng.uniform(0.92, 1.14))
        self._top = bgr(*_TOPS[rng.integers(len(_TOPS))])
        self._second = bgr(*_TOPS[rng.integers(len(_TOPS))])
        self._legs = bgr(*_TROUSERS[rng.integers(len(_TROUSERS))])
        self._skin = bgr(*_SKIN[rng.integers(len(_SKIN))])
        self._hair = bgr(*_HAIR[rng.integers(len(_HAIR))])
        self._pattern = _PATTERNS[rng.integers(len(_PATTERNS))]
        self._coat = bool(rng.random() < 0.3)
        self._bag = bool(rng.random() < 0.45)
        self._folds = Mottle(rng, 0.11)
        self.reach = 0.62 * self.height / 1.75, 1.03 * self.height  # to either side and upwards in metres

    def draw(self, canvas: Canvas, distance: float, swing: float, dx: float) -> None:
        """Paint the person, feet at (0, 0), y up in metres, after `distance` metres; the others as in `Presence`."""
        unit = self.height / 1.75
        phase = 2 * math.pi * distance / (1.42 * unit)
        aside = math.copysign(max(abs(dx), 0.2), dx)
        stride = swing * aside
        legs = [_joints(unit, phase + math.pi, stride), _joints(unit, phase, stride)]
        canvas.y = canvas.y + (min(ankle[1] for _, ankle in legs) - 0.05 * unit)  # stand on the lower foot
        self._leg(canvas, unit, legs[0], 0.72, dx)
        self._arm(canvas, phase, stride, 0.72, dx)
        if self._bag:
            back = -math.copysign(0.17, dx) * abs(dx) * unit
            pack = ellipse(canvas.x, canvas.y, (back, 1.22 * unit), (0.14 * unit, 0.22 * unit))
            canvas.paint(pack, self._second * 0.6)
        self._leg(canvas, unit, legs[1], 1.0, dx)
        self._torso(canvas, unit, dx)
        self._head(canvas, unit, dx, 0.012 * math.sin(2 * phase) * swing)
        self._arm(canvas, phase + math.pi, stride, 0.92, dx)

    def _leg(self, canvas: Canvas, unit: float, joints: tuple[Point, Point], light: float, dx: float) -> None:
        apart = (0.085 if light < 1 else -0.085) * (1 - abs(dx)) * unit
        hip = (apart, 0.90 * unit)
        knee, ankle = ((x + apart, y) for x, y in joints)
        tone = self._legs * light
        wide = self.stout * unit
        canvas.paint(capsule(canvas.x, canvas.y, hip, knee, (0.105 * wide, 0.075 * wide)), tone)
        canvas.paint(capsule(canvas.x, canvas.y, knee, ankle, (0.075 * wide, 0.055 * wide)), tone)
        toe = (ankle[0] + 0.17 * unit * dx, ankle[1] - 0.025 * unit)
        canvas.paint(capsule(canvas.x, canvas.y, ankle, toe, (0.05 * unit, 0.038 * unit)), bgr(38, 32, 30))

    def _arm(self, canvas: Canvas, phase: float, stride: float, light: float, dx: float) -> None:
        unit = self.height / 1.75
        upper = 0.42 * stride * math.sin(phase)
        lower = upper + 0.35 * abs(stride) * math.copysign(1.0, dx)
        side = (0.21 if light < 0.9 else -0.21) * (1 - 0.9 * abs(dx)) * unit * self.stout
        shoulder = (side, 1.41 * unit)
        elbow = (side * 1.15 + 0.27 * unit * math.sin(upper), shoulder[1] - 0.27 * unit * math.cos(upper))
        hand = (elbow[0] + 0.25 * unit * math.sin(lower), elbow[1] - 0.25 * unit * math.cos(lower))
        canvas.paint(ellipse(canvas.x, canvas.y, hand, (0.05 * unit, 0.055 * unit)), self._skin)
        sleeve = self._top * light
        canvas.paint(capsule(canvas.x, canvas.y, shoulder, elbow, (0.068 * unit, 0.058 * unit)), sleeve)
        canvas.paint(capsule(canvas.x, canvas.y, elbow, hand, (0.058 * unit, 0.042 * unit)), sleeve)

    def _torso(self, canvas: Canvas, unit: float, dx: float) -> None:
        x, y = canvas.x, canvas.y
        wide = (0.19 - 0.05 * abs(dx)) * self.stout * unit
        cloth = self._cloth(x / unit, y / unit, wide / unit)
        canvas.paint(capsule(x, y, (0.0, 0.98 * unit), (0.0, 1.36 * unit), (0.92 * wide, wide)), cloth)
        if self._coat:
            hem = 1.35 * wide
            skirt = [(-0.9 * wide, 1.1 * unit), (0.9 * wide, 1.1 * unit), (hem, 0.58 * unit), (-hem, 0.58 * unit)]
            canvas.paint(convex(x, y, skirt), cloth * 0.94)

    def _cloth(self, x: np.ndarray, y: np.ndarray, wide: float) -> np.ndarray:
        """Return the picture (h, w, 3) of the cloth: pattern, folds and shading."""
        if self._pattern == "stripes":
            second = (y * (1 / 0.15)) % 1 < 0.42
        elif self._pattern == "checks":
            second = ((y * (1 / 0.16)) % 1 < 0.5) ^ ((x * (1 / 0.16)) % 1 < 0.5)
        elif self._pattern == "jacket":
            second = (np.abs(x) < 0.25 * wide) & (y > 1.05)
        else:
            second = np.zeros(x.shape, bool)
        cloth = np.where(second[..., np.newaxis], self._second, self._top)
        bend = np.clip(x * (1 / wide), -1, 1)
        light = 1.08 - 0.28 * bend * bend + 0.14 * self._folds(x, y)
        return cloth * light[..., np.newaxis]

    def _head(self, canvas: Canvas, unit: float, dx: float, bob: float) -> None:
        x, y = canvas.x, canvas.y
        high = 1.625 * unit + bob
        look = 0.03 * dx * unit
        canvas.paint(capsule(x, y, (0.0, 1.44 * unit), (look, high), (0.06 * unit, 0.055 * unit)), self._skin)
        canvas.paint(ellipse(x, y, (look, high + 0.022 * unit), (0.105 * unit, 0.125 * unit)), self._hair)
        face = ellipse(x, y, (look + 0.045 * dx * unit, high - 0.02 * unit), (0.082 * unit, 0.10 * unit))
        canvas.shade(face, self._skin)


def _joints(unit: float, phase: float, stride: float) -> tuple[Point, Point]:
    """Return knee and ankle of a leg with its hip at x = 0; the knee bends in the forward swing."""
    thigh = 0.46 * stride * math.sin(phase)
    shin = thigh - 0.75 * stride * max(0.0, math.cos(phase)) ** 2
    knee = (0.43 * unit * math.sin(thigh), (0.90 - 0.43 * math.cos(thigh)) * unit)
    return knee, (knee[0] + 0.42 * unit * math.sin(shin), knee[1] - 0.42 * unit * math.cos(shin))


# The second and third are close to the asphalt and the kerb.
_PAINT = [
    (168, 38, 34), (112, 114, 116), (150, 146, 138), (32, 62, 118), (226, 226, 222), (34, 36, 40),
    (44, 92, 74), (206, 160, 54),
]  # fmt: skip
# Outline of the cabin as (along, up) in metres for a car that drives to the right: saloon, estate, van.
_CABINS = [
    [(-1.35, 0.86), (-0.80, 1.40), (0.35, 1.42), (1.05, 0.88)],
    [(-2.00, 0.86), (-1.80, 1.42), (0.35, 1.46), (1.10, 0.88)],
    [(-2.12, 0.86), (-2.08, 1.90), (0.90, 1.92), (1.55, 0.95)],
]


class Car:
    """The appearance of one car, given by a key of non-negative integers."""

    half_length = 2.15
    half_width = 0.85

    def __init__(self, *key: int) -> None:
        rng = generator(*key, 12)
        self._cabin = _CABINS[rng.choice(3, p=[0.45, 0.35, 0.2])]
        self.height = max(p[1] for p in self._cabin)
        self._paint = bgr(*_PAINT[rng.integers(len(_PAINT))])
        self._glass = bgr(58, 70, 82) * rng.uniform(0.8, 1.5)
        self.reach = self.half_length + 0.12, self.height + 0.1

    def draw(self, canvas: Canvas, distance: float, swing: float, dx: float) -> None:
        """Paint the car, wheels on y = 0, turned by the distance; the others as in `Presence`."""
        way = math.copysign(1.0, dx)
        x, y = canvas.x * way, canvas.y
        tone = np.clip(0.78 + 0.35 * y, 0.7, 1.25)[..., np.newaxis] * self._paint
        body = [(-2.12, 0.28), (-2.12, 0.80), (-1.5, 0.92), (1.1, 0.92), (2.05, 0.74), (2.15, 0.30)]
        # overlaps the body: no seam of half covered pixels between them
        cabin = [*self._cabin, (self._cabin[-1][0], 0.6), (self._cabin[0][0], 0.6)]
        canvas.paint(convex(x, y, cabin, 0.12), tone * 0.95)
        canvas.paint(convex(x, y, body, 0.16), tone)
        self._windows(canvas, x, y)
        canvas.shade(np.abs(y - 0.30) - 0.07, bgr(40, 40, 42), 0.8)
        canvas.shade(ellipse(x, y, (2.0, 0.66), (0.12, 0.07)), bgr(244, 240, 220))
        canvas.shade(ellipse(x, y, (-2.06, 0.72), (0.09, 0.1)), bgr(190, 30, 26))
        turn = distance / 0.33
        for axle in (-1.32, 1.32):
            canvas.paint(ellipse(x, y, (axle, 0.32), (0.33, 0.33)), bgr(26, 26, 28))
            canvas.paint(ellipse(x, y, (axle, 0.32), (0.19, 0.19)), bgr(150, 150, 152))
            spoke = (axle + 0.1 * math.cos(turn), 0.32 - 0.1 * math.sin(turn))
            canvas.paint(ellipse(x, y, spoke, (0.06, 0.06)), bgr(70, 70, 74))

    def _windows(self, canvas: Canvas, x: np.ndarray, y: np.ndarray) -> None:
        """Paint the windows between the pillars, brighter where they reflect the sky."""
        mx, my = (sum(coordinates) / 4 for coordinates in zip(*self._cabin, strict=True))
        glass = convex(x, y, [(mx + 0.86 * (u - mx), my + 0.74 * (v - my) + 0.02) for u, v in self._cabin])
        pillars = np.minimum(np.abs(x - (mx + 0.05)), np.abs(x - (mx - 0.85))) - 0.045
        mirror = np.clip((y - 0.9) * 1.6 + x * 0.15, 0, 1)[..., np.newaxis]
        canvas.shade(np.maximum(glass, -pillars), self._glass * (0.6 + mirror))


Mover = Person | Car
Plan = Callable[[np.random.Generator], Way]


@dataclass(frozen=True)
class Presence:
    """One mover at one frame."""

    key: tuple[int, ...]  # identifies the trip
    mover: Mover
    x: float  # place on the floor in metres
    z: float
    distance: float  # metres travelled so far
    swing: float  # amplitude of the limbs, in [0, 1]
    dx: float  # sideways part of the direction of travel, in [-1, 1]


class Track:
    """An endless sequence of trips, each with a new mover, every `period` frames; `plan` draws the `Way` of one."""

    def __init__(self, make: type[Mover], plan: Plan, period: int, start: int, *key: int) -> None:
        self._make, self._plan, self._period, self._start, self._key = make, plan, period, start, key
        self._trips: dict[int, tuple[Mover, Way]] = {}

    def at(self, index: int) -> Presence | None:
        trip, age = divmod(index - self._start, self._period)
        if trip < 0:
            return None
        if trip not in self._trips:
            way = self._plan(generator(*self._key, trip, 21))
            # fast enough to leave before the next one starts
            slowest = way.length / max(self._period - 2 - way.halt[1], 1.0)
            self._trips[trip] = (self._make(*self._key, trip), Way(way.corners, max(way.speed, slowest), way.halt))
        mover, way = self._trips[trip]
        if age > way.frames:
            return None
        distance, swing = way.walked(age)
        x, z, dx, _ = way.place(distance)
        return Presence((*self._key, trip), mover, x, z, distance, swing, dx)
