"""Cars seen from the side."""

from __future__ import annotations

import math

import numpy as np

from bgsub.synthetic._shapes import Canvas, bgr, convex, ellipse, generator

# The second and third are close to the asphalt and the kerb.
_PAINT = [
    (168, 38, 34), (112, 114, 116), (150, 146, 138), (32, 62, 118), (226, 226, 222), (34, 36, 40),
    (44, 92, 74), (206, 160, 54),
]  # fmt: skip
# Outline of the cabin as (along, up) in metres for a car that drives to the right.
_CABINS = {
    "saloon": [(-1.35, 0.86), (-0.80, 1.40), (0.35, 1.42), (1.05, 0.88)],
    "estate": [(-2.00, 0.86), (-1.80, 1.42), (0.35, 1.46), (1.10, 0.88)],
    "van": [(-2.12, 0.86), (-2.08, 1.90), (0.90, 1.92), (1.55, 0.95)],
}


class Car:
    """One car's looks; the same key of non-negative integers gives the same car."""

    half_length = 2.15
    half_width = 0.85

    def __init__(self, *key: int) -> None:
        rng = generator(*key, 12)
        kind = ("saloon", "estate", "van")[rng.choice(3, p=[0.45, 0.35, 0.2])]
        self._cabin = _CABINS[kind]
        self.height = max(p[1] for p in self._cabin)
        self._paint = bgr(*_PAINT[rng.integers(len(_PAINT))])
        self._glass = bgr(58, 70, 82) * np.float32(rng.uniform(0.8, 1.5))

    @property
    def reach(self) -> tuple[float, float]:
        """Largest extent to either side and upwards in metres."""
        return self.half_length + 0.12, self.height + 0.1

    def draw(self, canvas: Canvas, distance: float, swing: float, dx: float) -> None:
        """Paint the car, wheels on y = 0; see `Person.draw`. The distance turns the wheels, and nothing swings."""
        way = math.copysign(1.0, dx)
        x, y = canvas.x * np.float32(way), canvas.y
        tone = np.clip(np.float32(0.78) + np.float32(0.35) * y, 0.7, 1.25)[..., np.newaxis] * self._paint
        body = [(-2.12, 0.28), (-2.12, 0.80), (-1.5, 0.92), (1.1, 0.92), (2.05, 0.74), (2.15, 0.30)]
        # Down into the body, or a seam of half covered pixels would part the two.
        cabin = [*self._cabin, (self._cabin[-1][0], 0.6), (self._cabin[0][0], 0.6)]
        canvas.paint(convex(x, y, cabin, 0.12), tone * np.float32(0.95))
        canvas.paint(convex(x, y, body, 0.16), tone)
        self._windows(canvas, x, y)
        canvas.shade(np.abs(y - np.float32(0.30)) - np.float32(0.07), bgr(40, 40, 42), 0.8)
        canvas.shade(ellipse(x, y, (2.0, 0.66), (0.12, 0.07)), bgr(244, 240, 220))
        canvas.shade(ellipse(x, y, (-2.06, 0.72), (0.09, 0.1)), bgr(190, 30, 26))
        for axle in (-1.32, 1.32):
            self._wheel(canvas, x, y, axle, distance)

    def _windows(self, canvas: Canvas, x: np.ndarray, y: np.ndarray) -> None:
        """Paint the glass into the cabin, parted by the pillars; brighter where the sky is mirrored."""
        middle = (sum(p[0] for p in self._cabin) / 4, sum(p[1] for p in self._cabin) / 4)
        inner = [
            (middle[0] + 0.86 * (p[0] - middle[0]), middle[1] + 0.74 * (p[1] - middle[1]) + 0.02) for p in self._cabin
        ]
        glass = convex(x, y, inner)
        pillars = np.minimum(
            np.abs(x - np.float32(middle[0] + 0.05)), np.abs(x - np.float32(middle[0] - 0.85))
        ) - np.float32(0.045)
        mirror = np.clip((y - np.float32(0.9)) * np.float32(1.6) + x * np.float32(0.15), 0, 1)[..., np.newaxis]
        canvas.shade(np.maximum(glass, -pillars), self._glass * (np.float32(0.6) + mirror))

    @staticmethod
    def _wheel(canvas: Canvas, x: np.ndarray, y: np.ndarray, axle: float, distance: float) -> None:
        centre = (axle, 0.32)
        canvas.paint(ellipse(x, y, centre, (0.33, 0.33)), bgr(26, 26, 28))
        canvas.paint(ellipse(x, y, centre, (0.19, 0.19)), bgr(150, 150, 152))
        turn = distance / 0.33
        spoke = (axle + 0.1 * math.cos(turn), 0.32 - 0.1 * math.sin(turn))
        canvas.paint(ellipse(x, y, spoke, (0.06, 0.06)), bgr(70, 70, 74))
