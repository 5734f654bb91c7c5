"""The empty stage: boxes under lamps, seen through a pinhole.

The stage is ray cast once per light. In linear light the picture is their weighted sum, so that lamps and clouds change
only the weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

Texture = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
Vector = tuple[float, float, float]

_ROWS_PER_BLOCK = 16


@dataclass(frozen=True)
class Camera:
    """A pinhole at the origin: x to the right, y down, z into the picture, in metres."""

    width: int  # size of the picture in pixels
    height: int
    focal: float  # focal length in pixels
    centre: tuple[float, float]  # where the optical axis meets the picture, in pixels
    floor: float  # height of the camera over the floor in metres

    def half_width(self, z: float) -> float:
        """Return half the width of the picture at depth `z`, in metres."""
        return z * self.width / (2 * self.focal)

    def foot(self, x: float, z: float) -> tuple[float, float]:
        """Return the pixel coordinates of a point of the floor."""
        return self.centre[0] + self.focal * x / z, self.centre[1] + self.focal * self.floor / z

    def rays(self, top: int, bottom: int, per_pixel: int = 1) -> np.ndarray:
        """Return directions (rows, columns, 3) with z = 1 through the sub-pixels of some rows."""
        u = (np.arange(self.width * per_pixel) + 0.5) / per_pixel - self.centre[0]
        v = (np.arange(top * per_pixel, bottom * per_pixel) + 0.5) / per_pixel - self.centre[1]
        out = np.ones((v.size, u.size, 3), np.float32)
        out[..., 0] = _no_zero(u / self.focal)
        out[..., 1] = _no_zero(v / self.focal)[:, np.newaxis]
        return out


@dataclass(frozen=True)
class Box:
    """An upright block with sides along the axes."""

    low: Vector  # opposite corners in metres
    high: Vector
    colour: np.ndarray  # (3,), float32: linear reflectance, BGR
    # ``texture(points, axis, colour)``, points (n, 3) and axis (n,) of the face that was hit, returns the reflectance
    texture: Texture | None = None
    glow: float = 0.0  # light emitted by the box; 0 for none
    lamp: int = 0  # index of the light that feeds `glow`
    casts: bool = True  # whether it casts shadows
    ground: bool = False  # whether movers cast shadows on it


@dataclass(frozen=True)
class Light:
    """A lamp, the sun or even light."""

    colour: np.ndarray  # (3,), float32: colour of the light, BGR
    points: tuple[Vector, ...] = ()  # places of lamps; empty for others
    towards: Vector | None = None  # unit vector towards the sun
    power: float = 0.0  # irradiance at one metre (lamps) or anywhere (sun)
    even: float = 0.0  # irradiance of every surface

    def at(self, x: float, y: float, z: float) -> float:
        """Return the irradiance of a small ball at an unshaded point."""
        if self.towards is not None:
            return self.even + 0.6 * self.power
        total = self.even
        for p in self.points:
            square = (p[0] - x) ** 2 + (p[1] - y) ** 2 + (p[2] - z) ** 2
            total += 0.5 * self.power / len(self.points) / max(square, 0.5)
        return total


@dataclass
class Picture:
    """The empty stage as the camera sees it, one layer per light."""

    lights: list[Light]  # the J lights
    layers: np.ndarray  # (J, h, w, 3), float32: radiance under each light alone at full power
    irradiance: np.ndarray  # (J, h, w), float32: light that arrives at each pixel's surface
    depth: np.ndarray  # (h, w), float32: depth z of the surface at each pixel centre, in metres
    ground: np.ndarray  # (h, w), bool: where the surface is ground


def mix(layers: np.ndarray, weights: tuple[float, ...]) -> np.ndarray:
    """Return the weighted sum over the first axis, added in a fixed order."""
    total = np.zeros(layers.shape[1:], np.float32)
    for layer, weight in zip(layers, weights, strict=True):
        if weight:
            total += layer * weight
    return total


def render(camera: Camera, boxes: list[Box], lights: list[Light], sky: Texture) -> Picture:
    """Ray cast the stage, with shadows, at several rays per pixel: O(h w boxes lights) work, once."""
    # light 0 also feeds the sky; ``sky(directions, axis, colour)`` returns the radiance (n, 3) of rays that hit nothing
    h, w = camera.height, camera.width
    per_pixel = 3 if h * w <= 40_000 else 2 if h * w <= 160_000 else 1
    layers = np.empty((len(lights), h, w, 3), np.float32)
    irradiance = np.empty((len(lights), h, w), np.float32)
    for top in range(0, h, _ROWS_PER_BLOCK):
        rows = slice(top, min(top + _ROWS_PER_BLOCK, h))
        rays = camera.rays(rows.start, rows.stop, per_pixel)
        radiance, arriving = _shade(rays, boxes, lights, sky)
        layers[:, rows] = _average(radiance, per_pixel)
        irradiance[:, rows] = _average(arriving, per_pixel)
    rays = camera.rays(0, h)
    depth, hit, _ = _cast(rays.reshape(-1, 3), boxes)
    is_ground = np.array([box.ground for box in boxes] + [False])
    return Picture(lights, layers, irradiance, depth.reshape(h, w), is_ground[hit].reshape(h, w))


def _shade(rays: np.ndarray, boxes: list[Box], lights: list[Light], sky: Texture) -> tuple[np.ndarray, np.ndarray]:
    """Return the radiance (J, rows, columns, 3) and irradiance (J, rows, columns) of a block of rays."""
    shape = rays.shape[:2]
    rays = rays.reshape(-1, 3)
    depth, hit, axis = _cast(rays, boxes)
    points = rays * np.minimum(depth, 1e3)[:, np.newaxis]
    colour = np.zeros_like(points)  # of the sky, which is filled in below
    for index, box in enumerate(boxes):
        here = hit == index
        if here.any():
            texture = box.texture
            colour[here] = box.colour if texture is None else texture(points[here], axis[here], box.colour)
    arriving = np.stack([_irradiance(points, rays, axis, light, boxes) for light in lights])
    radiance = np.empty((len(lights), *points.shape), np.float32)
    for j, light in enumerate(lights):
        radiance[j] = colour * light.colour * arriving[j][:, np.newaxis]
    for index, box in enumerate(boxes):
        here = hit == index
        if box.glow and here.any():
            radiance[box.lamp, here] += colour[here] * box.glow
    beyond = hit == len(boxes)
    if beyond.any():
        radiance[:, beyond] = 0
        radiance[0, beyond] = sky(rays[beyond], axis[beyond], colour[beyond])
    return radiance.reshape(-1, *shape, 3), arriving.reshape(-1, *shape)


def _cast(rays: np.ndarray, boxes: list[Box]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return depth (n,), index of the box (n,; their number for none) and axis of its face (n,)."""
    depth = np.full(len(rays), np.inf, np.float32)
    hit = np.full(len(rays), len(boxes), np.intp)
    axis = np.zeros(len(rays), np.intp)
    inverse = 1 / np.ascontiguousarray(rays.T)
    for index, box in enumerate(boxes):
        entries, near, far = _slabs(np.zeros(3, np.float32), inverse, box)
        closer = (near <= far) & (near > 1e-3) & (near < depth)
        depth[closer], hit[closer], axis[closer] = near[closer], index, entries[:, closer].argmax(axis=0)
    return depth, hit, axis


def _slabs(start: np.ndarray, inverse: np.ndarray, box: Box) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return at which distances rays enter the slab of each axis, (3, n), and enter and leave the box, (n,)."""
    # `start`, (3, n) or (3,), and `inverse`, (3, n), of the direction: one contiguous row per axis is five times faster
    low, high = np.asarray(box.low, np.float32), np.asarray(box.high, np.float32)
    pairs = [((low[a] - start[a]) * inverse[a], (high[a] - start[a]) * inverse[a]) for a in range(3)]
    entries = np.stack([np.minimum(*pair) for pair in pairs])
    return entries, reduce(np.maximum, entries), reduce(np.minimum, [np.maximum(*pair) for pair in pairs])


def _irradiance(points: np.ndarray, rays: np.ndarray, axis: np.ndarray, light: Light, boxes: list[Box]) -> np.ndarray:
    """Return the irradiance of surface points (n, 3) by one light, shadows included."""
    rows = np.arange(len(points))
    outward = -np.sign(rays[rows, axis])
    total = np.full(len(points), light.even, np.float32)
    lifted = points.copy()
    lifted[rows, axis] += outward * 0.01
    if light.towards is not None:
        way = np.broadcast_to(np.asarray(light.towards, np.float32), points.shape)
        cosine = way[rows, axis] * outward
        return total + np.where(cosine > 0, cosine * light.power, 0) * _clear(lifted, way, boxes, 99)
    for point in light.points:
        way = np.asarray(point, np.float32) - lifted
        square = way[:, 0] * way[:, 0] + way[:, 1] * way[:, 1] + way[:, 2] * way[:, 2]
        # a ceiling panel: both cosines over the squared distance
        cosine = np.maximum(way[rows, axis] * outward, 0) * np.maximum(-way[:, 1], 0) / square
        part = cosine / np.maximum(square, np.float32(0.2)) * (light.power / len(light.points))
        total += part * _clear(lifted, way, boxes, 0.98)
    return total


def _clear(start: np.ndarray, way: np.ndarray, boxes: list[Box], reach: float) -> np.ndarray:
    """Return whether no box is between `start` and ``start + reach * way``."""
    free = np.ones(len(start), bool)
    start, inverse = np.ascontiguousarray(start.T), 1 / np.ascontiguousarray(_no_zero(way).T)
    for box in boxes:
        if box.casts:
            _, near, far = _slabs(start, inverse, box)
            free &= ~((near < far) & (far > 1e-3) & (near < reach))
    return free


def _average(values: np.ndarray, per_pixel: int) -> np.ndarray:
    """Average the sub-pixels of (J, rows, columns, ...), added in a fixed order."""
    parts = [values[:, i::per_pixel, j::per_pixel] for i in range(per_pixel) for j in range(per_pixel)]
    return reduce(np.add, parts) * (1.0 / per_pixel**2)


def _no_zero(values: np.ndarray) -> np.ndarray:
    """Replace zeros by small numbers, so that the rays can be inverted."""
    return np.where(np.abs(values) < 1e-6, 1e-6, values).astype(np.float32)
