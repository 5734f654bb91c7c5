"""One picture in the making: the empty stage, shadows, plants and movers laid over each other."""

from __future__ import annotations

import math

import numpy as np

from bgsub.synthetic._foliage import Foliage
from bgsub.synthetic._shadows import shadows
from bgsub.synthetic._shapes import Canvas
from bgsub.synthetic._stage import Camera, Picture, mix
from bgsub.synthetic._tracks import Presence


class Sheet:
    """A picture to be filled in this order: `cast`, `lay` each plant, `enter` each mover, the farthest first."""

    def __init__(self, camera: Camera, picture: Picture, weights: tuple[float, ...]) -> None:
        self._camera, self._picture, self._weights = camera, picture, weights
        self._depth = picture.depth.copy()
        self.radiance = picture.under(weights).copy()  # (h, w, 3), float32: linear light, BGR
        self.shade = np.zeros(self._depth.shape, np.float32)  # share of the light that movers take away
        self.cover = np.zeros(self._depth.shape, np.float32)  # share that movers cover, exactly 0 where they do not
        self.owner = np.zeros(self._depth.shape, np.float32)  # which mover is seen, in the order they entered from 1
        self._entered = 0

    def cast(self, present: list[Presence]) -> None:
        """Darken the ground by the shadows of all who are present."""
        for one in present:
            shadows(self.shade, self._camera, self._picture, self._weights, one)
        self.radiance *= (1 - self.shade)[..., np.newaxis]

    def lay(self, plant: Foliage, colour: np.ndarray, alpha: np.ndarray) -> None:
        """Lay a plant over what is farther away; `colour` and `alpha` are its picture at this frame."""
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
        """Put a mover into the picture, hidden by what stands nearer."""
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
