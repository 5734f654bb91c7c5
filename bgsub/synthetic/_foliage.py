"""Plants and trees: flat layers in front of the stage that may sway in the wind."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bgsub.synthetic._shapes import Canvas, Mottle, bgr, capsule, ellipse, generator
from bgsub.synthetic._stage import Camera, Light, Vector


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
        shift = np.float32(whole) + self.flutter[0] * np.float32(own[0]) + self.flutter[1] * np.float32(own[1])
        shift *= self.reach * np.float32(sway)
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


def _layer(
    camera: Camera, lights: list[Light], foot: Vector, reach: tuple[float, float], sway: float
) -> tuple[Canvas, tuple[int, int], np.ndarray]:
    """Return a canvas around a plant: x to the right of the foot, y up, both in metres."""
    x, y, z = foot
    scale = camera.focal / z
    u, v = camera.centre[0] + scale * x, camera.centre[1] + scale * y
    pad = math.ceil(3 * sway) + 2
    left, right = math.floor(u - reach[0] * scale) - pad, math.ceil(u + reach[0] * scale) + pad
    top, bottom = math.floor(v - reach[1] * scale) - 2, math.ceil(v) + 2
    left, top = min(max(left, 0), camera.width - 2), min(max(top, 0), camera.height - 2)
    right, bottom = max(min(right, camera.width), left + 2), max(min(bottom, camera.height), top + 2)
    px = ((np.arange(left, right) + 0.5 - u) / scale).astype(np.float32)
    py = ((v - np.arange(top, bottom) - 0.5) / scale).astype(np.float32)
    lit = np.stack([light.colour * np.float32(light.at(x, y - reach[1] / 2, z)) for light in lights])
    return Canvas(px, py, scale), (left, top), lit


def _finish(canvas: Canvas, corner: tuple[int, int], lit: np.ndarray, z: float, rng: np.random.Generator) -> Foliage:
    high = max(float(canvas.y.max()), 1e-3)
    fields = [Mottle(rng, 0.25 * high), Mottle(rng, 0.12 * high)]
    reach = np.clip(canvas.y / np.float32(high), 0, 1)
    flutter = np.stack([field(canvas.x, canvas.y) for field in fields])
    return Foliage(*corner, canvas.colour, canvas.alpha, z, lit, reach, flutter)


def potted_plant(camera: Camera, lights: list[Light], foot: Vector, size: float, *, sway: float, key: int) -> Foliage:
    """Make a plant of arching leaves whose stem leaves the pot at `foot`; `size` is its height in metres."""
    rng = generator(key, 71)
    canvas, corner, lit = _layer(camera, lights, foot, (0.75 * size, 1.05 * size), sway)
    for i in range(34):
        lean = rng.uniform(-1.0, 1.0)
        length = size * rng.uniform(0.55, 1.0) * (1 - 0.25 * abs(lean))
        middle = (0.30 * lean * size, 0.62 * length)
        droop = length * (1.0 - 0.45 * abs(lean))
        tip = (0.62 * lean * size, droop)
        light = 0.55 + 0.45 * i / 33 + rng.uniform(-0.1, 0.1)
        tone = bgr(62 + 22 * rng.random(), 98 + 34 * rng.random(), 46 + 16 * rng.random()) * np.float32(light)
        wide = 0.030 * size + 0.012
        canvas.paint(capsule(canvas.x, canvas.y, (0.0, 0.0), middle, (0.4 * wide, wide)), tone)
        canvas.paint(capsule(canvas.x, canvas.y, middle, tip, (wide, 0.2 * wide)), tone * np.float32(1.15))
    return _finish(canvas, corner, lit, foot[2], rng)


def tree(camera: Camera, lights: list[Light], foot: Vector, size: float, *, sway: float, key: int) -> Foliage:
    """Make a leafy tree of height `size` metres that stands at `foot`."""
    rng = generator(key, 72)
    canvas, corner, lit = _layer(camera, lights, foot, (0.42 * size, 1.05 * size), sway)
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
        tone = bgr(84 + 30 * rng.random(), 122 + 26 * rng.random(), 48) * np.float32(max(light, 0.1))
        wide = size * rng.uniform(0.018, 0.042)
        canvas.paint(ellipse(canvas.x, canvas.y, (x, y), (wide, wide * rng.uniform(0.5, 1.0))), tone)
    return _finish(canvas, corner, lit, foot[2], rng)
