"""Shadows that movers cast on the ground, one per light, each taking away that light's part only."""

from __future__ import annotations

import math

import numpy as np

from bgsub.synthetic._cars import Car
from bgsub.synthetic._shapes import capsule, convex
from bgsub.synthetic._stage import Camera, Light, Picture, mix
from bgsub.synthetic._tracks import Presence

_LONGEST = 2.6


def shadows(shade: np.ndarray, camera: Camera, picture: Picture, weights: tuple[float, ...], one: Presence) -> None:
    """Add what a mover takes of the light on the ground to `shade`, (h, w), in place.

    `shade` holds the share of the light that is missing: a pixel darkens by the common factor ``1 - shade``.
    """
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
    # Close to the feet the even light is blocked as well.
    heel, toe = (one.x - 0.18, one.z), (one.x + 0.18, one.z)
    contact = np.clip(np.float32(1) - capsule(gx, gz, heel, toe, (0, 0)) / np.float32(0.32), 0, 1)
    total = np.maximum(mix(arriving, weights), np.float32(1e-6))
    lost = np.minimum(missing / total + np.float32(0.35) * contact, np.float32(0.9)) * ground
    shade[box] += lost * (1 - shade[box])


def _tip(light: Light, one: Presence, floor: float) -> tuple[float, float]:
    """Return where on the ground the shadow of the top of the mover falls."""
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
    """Return the share of one light that is blocked at points of the ground."""
    if isinstance(one.mover, Car):
        return _block(gx, gz, one, tip)
    foot = (one.x, one.z)
    radius = one.mover.shadow_radius
    if light.towards is not None:
        distance = capsule(gx, gz, foot, tip, (0.8 * radius, 0.9 * radius))
        return np.clip(np.float32(0.5) - distance * np.float32(1 / 0.08), 0, 1) * np.float32(0.95)
    # Long lamps: the edge is the softer the farther from the feet.
    distance = capsule(gx, gz, foot, tip, (radius, 1.5 * radius))
    length = max(math.dist(foot, tip), 1e-3)
    away = np.minimum(capsule(gx, gz, foot, foot, (0, 0)) / np.float32(length), 1)
    blocked = np.clip(np.float32(0.5) - distance / (np.float32(0.12) + np.float32(0.45) * away), 0, 1)
    return blocked * (np.float32(0.9) - np.float32(0.5) * away)


def _block(gx: np.ndarray, gz: np.ndarray, one: Presence, tip: tuple[float, float]) -> np.ndarray:
    """Return the hard shadow of a car: its footprint, moved along the sun, and all between."""
    sx, sz = tip[0] - one.x, tip[1] - one.z
    w, d = Car.half_length, Car.half_width
    low, high = one.z - d * 0.2, one.z + d * 1.6
    right = [(one.x - w, low), (one.x + w, low), (one.x + w + sx, low + sz)]
    corners = [*right, (one.x + w + sx, high + sz), (one.x - w + sx, high + sz), (one.x - w, high)]
    distance = convex(gx, gz, corners)
    return np.clip(np.float32(0.5) - distance * np.float32(1 / 0.08), 0, 1) * np.float32(0.95)
