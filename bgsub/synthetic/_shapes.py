"""Antialiased shapes from signed distances, and value noise.

All pixel arithmetic is float32 addition, multiplication, division and square root, which IEEE 754 rounds uniquely:
shapes are the same bit for bit on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np

Point = tuple[float, float]


def generator(*key: int) -> np.random.Generator:
    """Return the random stream that belongs to a key of non-negative integers."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


def capsule(x: np.ndarray, y: np.ndarray, a: Point, b: Point, radii: Point) -> np.ndarray:
    """Return the signed distance to a limb from `a` to `b` with a radius at each, negative inside."""
    ux, uy = b[0] - a[0], b[1] - a[1]
    px: np.ndarray = x - np.float32(a[0])
    py: np.ndarray = y - np.float32(a[1])
    scale = 1.0 / max(ux * ux + uy * uy, 1e-9)
    t = px * np.float32(ux * scale) + py * np.float32(uy * scale)
    np.clip(t, 0.0, 1.0, out=t)
    px = px - t * np.float32(ux)
    py = py - t * np.float32(uy)
    return np.sqrt(px * px + py * py) - (np.float32(radii[0]) + t * np.float32(radii[1] - radii[0]))


def ellipse(x: np.ndarray, y: np.ndarray, centre: Point, radii: Point) -> np.ndarray:
    """Return roughly the signed distance to an upright ellipse (exact on its edge and for circles)."""
    px = (x - np.float32(centre[0])) * np.float32(1.0 / radii[0])
    py = (y - np.float32(centre[1])) * np.float32(1.0 / radii[1])
    return (np.sqrt(px * px + py * py) - np.float32(1.0)) * np.float32(min(radii))


def convex(x: np.ndarray, y: np.ndarray, corners: Sequence[Point], rounding: float = 0.0) -> np.ndarray:
    """Return the signed distance bound of a convex polygon, its corners in either turning sense."""
    area = sum(p[0] * q[1] - q[0] * p[1] for p, q in zip(corners, [*corners[1:], corners[0]], strict=True))
    sense = 1.0 if area > 0 else -1.0
    sides: list[np.ndarray] = []
    for p, q in zip(corners, [*corners[1:], corners[0]], strict=True):
        ex, ey = q[0] - p[0], q[1] - p[1]
        length = max((ex * ex + ey * ey) ** 0.5, 1e-9)
        nx, ny = sense * ey / length, -sense * ex / length
        sides.append(x * np.float32(nx) + y * np.float32(ny) - np.float32(nx * p[0] + ny * p[1]))
    return reduce(partial(_smooth_max, rounding=rounding) if rounding else np.maximum, sides)


def _smooth_max(a: np.ndarray, b: np.ndarray, rounding: float) -> np.ndarray:
    """Round the corner where two half planes meet."""
    gap = np.maximum(np.float32(rounding) - np.abs(a - b), np.float32(0.0))
    return np.maximum(a, b) + gap * gap * np.float32(0.25 / rounding)


def coverage(distance: np.ndarray, pixels_per_unit: float) -> np.ndarray:
    """Return the share of each pixel inside a shape, exactly 0 outside and 1 inside."""
    return np.clip(np.float32(0.5) - distance * np.float32(pixels_per_unit), 0.0, 1.0)


class Mottle:
    """Value noise: a tile of random numbers, `cell` units apart, interpolated and repeated over the plane."""

    def __init__(self, rng: np.random.Generator, cell: float) -> None:
        self._tile = rng.random((64, 64), dtype=np.float32) * np.float32(2) - np.float32(1)
        self._per_unit = np.float32(1.0 / cell)

    def __call__(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the noise in [-1, 1] at the points (u, v)."""
        u, v = u * self._per_unit, v * self._per_unit
        iu, iv = np.floor(u), np.floor(v)
        fu, fv = u - iu, v - iv
        iu, iv = iu.astype(np.int32), iv.astype(np.int32)
        at = self._tile
        top = at[iv & 63, iu & 63] * (1 - fu) + at[iv & 63, (iu + 1) & 63] * fu
        low = at[(iv + 1) & 63, iu & 63] * (1 - fu) + at[(iv + 1) & 63, (iu + 1) & 63] * fu
        return top * (1 - fv) + low * fv


class Canvas:
    """A small picture with transparency; pixel centres at `columns` (w,) and `rows` (h,), float32, in metres."""

    def __init__(self, columns: np.ndarray, rows: np.ndarray, pixels_per_unit: float) -> None:
        shape = rows.size, columns.size
        # (h, w), float32: the coordinates at every pixel
        self.x: np.ndarray = np.tile(columns, (shape[0], 1))
        self.y: np.ndarray = np.repeat(rows[:, np.newaxis], shape[1], axis=1)
        self.scale = pixels_per_unit
        self.colour = np.zeros((*shape, 3), np.float32)  # reflectance multiplied by `alpha`, BGR
        self.alpha = np.zeros(shape, np.float32)  # coverage in [0, 1]

    def paint(self, distance: np.ndarray, colour: np.ndarray) -> None:
        """Paint a shape of one colour (3,) or of a picture (h, w, 3)."""
        cover = coverage(distance, self.scale)
        keep = 1 - cover
        self.alpha *= keep
        self.alpha += cover
        self.colour *= keep[..., np.newaxis]
        self.colour += cover[..., np.newaxis] * colour

    def shade(self, distance: np.ndarray, colour: np.ndarray, opacity: float = 1.0) -> None:
        """Paint a shape inside the outline only: windows, pockets, hair."""
        cover = coverage(distance, self.scale) * np.float32(opacity)
        self.colour *= (1 - cover)[..., np.newaxis]
        self.colour += (cover * self.alpha)[..., np.newaxis] * colour


def bgr(red: float, green: float, blue: float) -> np.ndarray:
    """Return a colour as seen on a screen, components in [0, 255], as linear reflectance (3,) BGR."""
    return ((np.array([blue, green, red]) / 255.0) ** 2.2).astype(np.float32)
