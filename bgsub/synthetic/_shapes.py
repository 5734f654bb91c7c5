"""Painted shapes: figures, textures, and plants that sway."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from bgsub.synthetic._stage import Camera, Light, Vector

Point = tuple[float, float]


def generator(*key: int) -> np.random.Generator:
    """Return the random stream that belongs to a key of non-negative integers."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


def capsule(x: np.ndarray, y: np.ndarray, a: Point, b: Point, radii: Point) -> np.ndarray:
    """Return the signed distance to a limb from `a` to `b` with a radius at each, negative inside."""
    ux, uy = b[0] - a[0], b[1] - a[1]
    px: np.ndarray = x - a[0]
    py: np.ndarray = y - a[1]
    scale = 1.0 / max(ux * ux + uy * uy, 1e-9)
    t = px * (ux * scale) + py * (uy * scale)
    np.clip(t, 0.0, 1.0, out=t)
    px = px - t * ux
    py = py - t * uy
    return np.sqrt(px * px + py * py) - (radii[0] + t * (radii[1] - radii[0]))


def ellipse(x: np.ndarray, y: np.ndarray, centre: Point, radii: Point) -> np.ndarray:
    """Return roughly the signed distance to an upright ellipse (exact on its edge and for circles)."""
    px = (x - centre[0]) * (1.0 / radii[0])
    py = (y - centre[1]) * (1.0 / radii[1])
    return (np.sqrt(px * px + py * py) - 1.0) * min(radii)


def convex(x: np.ndarray, y: np.ndarray, corners: Sequence[Point], rounding: float = 0.0) -> np.ndarray:
    """Return the signed distance bound of a convex polygon, its corners in either turning sense."""
    area = sum(p[0] * q[1] - q[0] * p[1] for p, q in zip(corners, [*corners[1:], corners[0]], strict=True))
    sense = 1.0 if area > 0 else -1.0
    sides: list[np.ndarray] = []
    for p, q in zip(corners, [*corners[1:], corners[0]], strict=True):
        ex, ey = q[0] - p[0], q[1] - p[1]
        length = max((ex * ex + ey * ey) ** 0.5, 1e-9)
        nx, ny = sense * ey / length, -sense * ex / length
        sides.append(x * nx + y * ny - (nx * p[0] + ny * p[1]))
    return reduce(partial(_smooth_max, rounding=rounding) if rounding else np.maximum, sides)


def _smooth_max(a: np.ndarray, b: np.ndarray, rounding: float) -> np.ndarray:
    """Round the corner where two half planes meet."""
    gap = np.maximum(rounding - np.abs(a - b), np.float32(0.0))
    return np.maximum(a, b) + gap * gap * (0.25 / rounding)


def coverage(distance: np.ndarray, pixels_per_unit: float) -> np.ndarray:
    """Return the share of each pixel inside a shape, exactly 0 outside and 1 inside."""
    return np.clip(0.5 - distance * pixels_per_unit, 0.0, 1.0)


class Mottle:
    """Value noise: a tile of random numbers, `cell` units apart, interpolated and repeated over the plane."""

    def __init__(self, rng: np.random.Generator, cell: float) -> None:
        self._tile = rng.random((64, 64), dtype=np.float32) * 2 - 1
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
    """A small picture with transparency: `box` (left, top, right, bottom) of the frame, around a foot, in pixels."""

    def __init__(self, box: tuple[int, int, int, int], foot: Point, pixels_per_unit: float) -> None:
        left, top, right, bottom = box
        columns = ((np.arange(left, right) + 0.5 - foot[0]) / pixels_per_unit).astype(np.float32)
        rows = ((foot[1] - np.arange(top, bottom) - 0.5) / pixels_per_unit).astype(np.float32)
        # (h, w), float32: x to the right of the foot and y up, in metres, at every pixel
        self.x, self.y = np.meshgrid(columns, rows)
        self.scale, shape = pixels_per_unit, self.x.shape
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
        cover = coverage(distance, self.scale) * opacity
        self.colour *= (1 - cover)[..., np.newaxis]
        self.colour += (cover * self.alpha)[..., np.newaxis] * colour


def bgr(red: float, green: float, blue: float) -> np.ndarray:
    """Return a colour as seen on a screen, components in [0, 255], as linear reflectance (3,) BGR."""
    return ((np.array([blue, green, red]) / 255.0) ** 2.2).astype(np.float32)


@dataclass(frozen=True)
class Foliage:
    """A plant as a picture with transparency at one depth."""

    left: int  # pixel of the frame under the first pixel of the layer
    top: int
    colour: np.ndarray  # (h, w, 3), float32: reflectance multiplied by `alpha`, BGR
    alpha: np.ndarray  # (h, w), float32: coverage
    depth: float  # distance z in metres
    lit: np.ndarray  # (J, 3), float32: light that reaches it from each of the J lights
    reach: np.ndarray  # (h, w), float32: movement of each pixel in the wind, 0 at the foot
    flutter: np.ndarray  # (2, h, w), float32: smooth fields of the leaves' own movement

    def moved(self, index: int, sway: float) -> tuple[np.ndarray, np.ndarray]:
        """Return colour and alpha at frame `index` in a wind that moves the top by about `sway` pixels."""
        if not sway:
            return self.colour, self.alpha
        whole = 0.8 * math.sin(0.31 * index) + 0.5 * math.sin(0.123 * index + 1.7)
        own = 0.9 * math.sin(0.53 * index), 0.9 * math.cos(0.41 * index)
        shift = whole + self.flutter[0] * own[0] + self.flutter[1] * own[1]
        shift *= self.reach * sway
        height, width = self.alpha.shape
        source = np.arange(width, dtype=np.float32) - shift
        np.clip(source, 0, width - 1.001, out=source)
        first = source.astype(np.intp)
        share = source - first
        rows = np.arange(height)[:, np.newaxis]
        keep = 1 - share
        alpha = self.alpha[rows, first] * keep + self.alpha[rows, first + 1] * share
        colour = self.colour[rows, first] * keep[..., np.newaxis]
        colour += self.colour[rows, first + 1] * share[..., np.newaxis]
        return colour, alpha


def make_foliage(
    camera: Camera, lights: list[Light], kind: str, foot: Vector, size: float, sway: float, key: int
) -> Foliage:
    """Return a "plant" or "tree", `size` metres high, with its foot at `foot`."""
    draw, aside, stream = _KINDS[kind]
    (x, y, z), rng = foot, generator(key, stream)
    scale = camera.focal / z
    u, v = camera.centre[0] + scale * x, camera.centre[1] + scale * y
    wide, high, pad = aside * size * scale, 1.05 * size * scale, math.ceil(3 * sway) + 2
    left, top = min(max(math.floor(u - wide) - pad, 0), camera.width - 2), math.floor(v - high) - 2
    top = min(max(top, 0), camera.height - 2)
    right = max(min(math.ceil(u + wide) + pad, camera.width), left + 2)
    bottom = max(min(math.ceil(v) + 2, camera.height), top + 2)
    canvas = Canvas((left, top, right, bottom), (u, v), scale)
    draw(canvas, size, rng)
    lit = np.stack([light.colour * light.at(x, y - 1.05 * size / 2, z) for light in lights])
    high = max(float(canvas.y.max()), 1e-3)
    flutter = np.stack([field(canvas.x, canvas.y) for field in (Mottle(rng, 0.25 * high), Mottle(rng, 0.12 * high))])
    reach = np.clip(canvas.y / high, 0, 1)
    return Foliage(left, top, canvas.colour, canvas.alpha, z, lit, reach, flutter)


def _draw_plant(canvas: Canvas, size: float, rng: np.random.Generator) -> None:
    for i in range(34):
        lean = rng.uniform(-1.0, 1.0)
        length = size * rng.uniform(0.55, 1.0) * (1 - 0.25 * abs(lean))
        middle = (0.30 * lean * size, 0.62 * length)
        tip = (0.62 * lean * size, length * (1.0 - 0.45 * abs(lean)))
        light = 0.55 + 0.45 * i / 33 + rng.uniform(-0.1, 0.1)
        tone = bgr(62 + 22 * rng.random(), 98 + 34 * rng.random(), 46 + 16 * rng.random()) * light
        wide = 0.030 * size + 0.012
        canvas.paint(capsule(canvas.x, canvas.y, (0.0, 0.0), middle, (0.4 * wide, wide)), tone)
        canvas.paint(capsule(canvas.x, canvas.y, middle, tip, (wide, 0.2 * wide)), tone * 1.15)


def _draw_tree(canvas: Canvas, size: float, rng: np.random.Generator) -> None:
    bark = bgr(92, 76, 60)
    for bough in ((-0.16, 0.72), (0.18, 0.70), (0.02, 0.85)):
        end = (bough[0] * size, bough[1] * size)
        canvas.paint(capsule(canvas.x, canvas.y, (0.0, 0.34 * size), end, (0.022 * size, 0.008 * size)), bark)
    canvas.paint(capsule(canvas.x, canvas.y, (0.0, 0.0), (0.0, 0.4 * size), (0.032 * size, 0.022 * size)), bark)
    for i in range(260):
        radius, turn = math.sqrt(rng.random()), rng.uniform(0, 2 * math.pi)
        x, y = 0.33 * size * radius * math.cos(turn), size * (0.68 + 0.28 * radius * math.sin(turn))
        # sun from the upper left, shade below
        lit_part = 0.5 + 0.5 * (0.6 * math.sin(turn) - 0.5 * math.cos(turn)) * radius
        light = 0.35 + 0.75 * lit_part * (0.5 + 0.5 * i / 259) + rng.uniform(-0.12, 0.12)
        tone = bgr(84 + 30 * rng.random(), 122 + 26 * rng.random(), 48) * max(light, 0.1)
        wide = size * rng.uniform(0.018, 0.042)
        canvas.paint(ellipse(canvas.x, canvas.y, (x, y), (wide, wide * rng.uniform(0.5, 1.0))), tone)


_KINDS = {"plant": (_draw_plant, 0.75, 71), "tree": (_draw_tree, 0.42, 72)}  # half width per height; random stream
