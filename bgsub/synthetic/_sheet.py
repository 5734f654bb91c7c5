"""Composition of one picture: the empty stage, shadows, plants and movers."""

import math

import numpy as np

from bgsub.synthetic._movers import Car, Presence
from bgsub.synthetic._shapes import Canvas, Foliage, Point, capsule, convex, coverage
from bgsub.synthetic._stage import Camera, Light, Picture, mix

_LONGEST = 2.6  # metres, of a shadow under lamps


class Sheet:
    """A picture; call `cast`, then `lay` for each plant, then `enter` for each mover, the farthest first."""

    def __init__(self, camera: Camera, picture: Picture, weights: tuple[float, ...]) -> None:
        self._camera, self._picture, self._weights = camera, picture, weights
        self._depth = picture.depth.copy()
        self.radiance = picture.under(weights).copy()  # (h, w, 3), float32: linear light, BGR
        self.shade = np.zeros(self._depth.shape, np.float32)  # share of the light that shadows remove
        self.cover = np.zeros(self._depth.shape, np.float32)  # share that movers cover, exactly 0 elsewhere
        self.owner = np.zeros(self._depth.shape, np.float32)  # number of the visible mover, in order of entry from 1
        self._entered = 0

    def cast(self, present: list[Presence]) -> None:
        """Darken the ground by the shadows of all movers."""
        for one in present:
            self._cast(one)
        self.radiance *= (1 - self.shade)[..., np.newaxis]

    def lay(self, plant: Foliage, colour: np.ndarray, alpha: np.ndarray) -> None:
        """Draw a plant, with its colour and alpha at this frame, over everything farther away."""
        rows = slice(plant.top, plant.top + alpha.shape[0])
        box = (rows, slice(plant.left, plant.left + alpha.shape[1]))
        lit = mix(plant.lit, self._weights)
        nearer = self._depth[box] > np.float32(plant.depth)
        seen = alpha * nearer
        self.radiance[box] *= (1 - seen)[..., np.newaxis]
        self.radiance[box] += colour * nearer[..., np.newaxis] * lit
        self.shade[box] *= 1 - seen
        self._depth[box] = np.where(seen > 0.5, np.float32(plant.depth), self._depth[box])

    def enter(self, one: Presence) -> None:
        """Draw a mover, hidden by everything nearer."""
        self._entered += 1
        camera = self._camera
        u, v = camera.foot(one.x, one.z)
        scale = camera.focal / one.z
        aside, up = one.mover.reach
        left, right = max(math.floor(u - aside * scale), 0), min(math.ceil(u + aside * scale), camera.width)
        top, bottom = max(math.floor(v - up * scale), 0), min(math.ceil(v + 0.1 * scale), camera.height)
        if left >= right or top >= bottom:
            return
        columns = ((np.arange(left, right) + 0.5 - u) / scale).astype(np.float32)
        rows = ((v - np.arange(top, bottom) - 0.5) / scale).astype(np.float32)
        canvas = Canvas(columns, rows, scale)
        one.mover.draw(canvas, one.distance, one.swing, one.dx)
        lit = np.zeros(3, np.float32)
        for light, weight in zip(self._picture.lights, self._weights, strict=True):
            lit += light.colour * np.float32(weight * light.at(one.x, camera.floor - 0.6 * up, one.z))
        box = (slice(top, bottom), slice(left, right))
        seen = self._depth[box] > np.float32(one.z)
        alpha = canvas.alpha * seen
        falling = np.float32(0.86) + np.float32(0.2 / up) * canvas.y
        self.radiance[box] *= (1 - alpha)[..., np.newaxis]
        self.radiance[box] += canvas.colour * (seen * falling)[..., np.newaxis] * lit
        self.cover[box] += alpha * (1 - self.cover[box])
        self.owner[box][alpha > 0.5] = self._entered

    def _cast(self, one: Presence) -> None:
        """Add a mover's shadow, one per light, to the missing share of the light on the ground."""
        camera, picture, weights = self._camera, self._picture, self._weights
        lit = [j for j, w in enumerate(weights) if w and (picture.lights[j].points or picture.lights[j].towards)]
        tips = {j: _tip(picture.lights[j], one, camera.floor) for j in lit}
        reach = 0.5 + (Car.half_length if isinstance(one.mover, Car) else 0.4)
        xs = [one.x, *(tip[0] for tip in tips.values())]
        zs = [one.z, *(tip[1] for tip in tips.values())]
        near, far = max(min(zs) - reach, 0.5), max(zs) + reach
        corners = [camera.foot(x, z) for x in (min(xs) - reach, max(xs) + reach) for z in (near, far)]
        left, right = max(math.floor(min(c[0] for c in corners)), 0), math.ceil(max(c[0] for c in corners))
        top, bottom = max(math.floor(min(c[1] for c in corners)), 0), math.ceil(max(c[1] for c in corners))
        box = (slice(top, min(bottom, camera.height)), slice(left, min(right, camera.width)))
        ground = picture.ground[box]
        if not ground.any():
            return
        rows, columns = np.arange(*box[0].indices(camera.height)), np.arange(*box[1].indices(camera.width))
        z = (camera.focal * camera.floor / np.maximum(rows + 0.5 - camera.centre[1], 1e-3)).astype(np.float32)
        gz = np.broadcast_to(z[:, np.newaxis], ground.shape)
        gx = ((columns + 0.5 - camera.centre[0]) / camera.focal).astype(np.float32) * gz
        arriving = picture.irradiance[(slice(None), *box)]
        missing = np.zeros(ground.shape, np.float32)
        for j, tip in tips.items():
            missing += arriving[j] * np.float32(weights[j]) * _umbra(gx, gz, picture.lights[j], one, tip)
        # the feet also block the even light
        heel, toe = (one.x - 0.18, one.z), (one.x + 0.18, one.z)
        contact = np.clip(np.float32(1) - capsule(gx, gz, heel, toe, (0, 0)) / np.float32(0.32), 0, 1)
        total = np.maximum(mix(arriving, weights), np.float32(1e-6))
        lost = np.minimum(missing / total + np.float32(0.35) * contact, np.float32(0.9)) * ground
        self.shade[box] += lost * (1 - self.shade[box])


def _tip(light: Light, one: Presence, floor: float) -> tuple[float, float]:
    """Return the place on the ground of the shadow of the mover's top."""
    tall = one.mover.height
    if light.towards is not None:
        x, y, z = light.towards
        return one.x + tall * x / y, one.z + tall * z / y
    count = len(light.points)
    lx, ly, lz = (sum(p[a] for p in light.points) / count for a in range(3))
    stretch = tall / max(floor - ly - tall, 0.3)
    dx, dz = (one.x - lx) * stretch, (one.z - lz) * stretch
    limit = min(1.0, _LONGEST / max(math.hypot(dx, dz), 1e-6))
    return one.x + dx * limit, one.z + dz * limit


def _umbra(gx: np.ndarray, gz: np.ndarray, light: Light, one: Presence, tip: tuple[float, float]) -> np.ndarray:
    """Return the share of one light that the mover blocks at points of the ground."""
    if isinstance(one.mover, Car):
        return coverage(convex(gx, gz, _hull(one, tip)), 1 / 0.08) * np.float32(0.95)
    foot = (one.x, one.z)
    radius = one.mover.shadow_radius
    if light.towards is not None:
        return coverage(capsule(gx, gz, foot, tip, (0.8 * radius, 0.9 * radius)), 1 / 0.08) * np.float32(0.95)
    # long lamps: the edge softens away from the feet
    distance = capsule(gx, gz, foot, tip, (radius, 1.5 * radius))
    length = max(math.dist(foot, tip), 1e-3)
    away = np.minimum(capsule(gx, gz, foot, foot, (0, 0)) / np.float32(length), 1)
    blocked = np.clip(np.float32(0.5) - distance / (np.float32(0.12) + np.float32(0.45) * away), 0, 1)
    return blocked * (np.float32(0.9) - np.float32(0.5) * away)


def _hull(one: Presence, tip: tuple[float, float]) -> list[Point]:
    """Return the hard shadow of a car: the hull of its footprint and of the footprint moved along the sun."""
    sx, sz = tip[0] - one.x, tip[1] - one.z
    w, d = Car.half_length, Car.half_width
    low, high = one.z - d * 0.2, one.z + d * 1.6
    right = [(one.x - w, low), (one.x + w, low), (one.x + w + sx, low + sz)]
    return [*right, (one.x + w + sx, high + sz), (one.x - w + sx, high + sz), (one.x - w, high)]
