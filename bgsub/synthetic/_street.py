"""A street: houses, a tree, two lanes with cars and two pavements with people, under passing clouds."""

from __future__ import annotations

import math

import numpy as np

from bgsub.synthetic._foliage import Foliage, tree
from bgsub.synthetic._movers import Car, Person, Track, Way
from bgsub.synthetic._scene import SceneSettings
from bgsub.synthetic._shapes import Mottle, bgr, generator
from bgsub.synthetic._stage import Box, Camera, Light, Picture, Texture, render

GROUND = 2.6
_SUN = (-0.48, -0.78, -0.40)
_PEOPLE, _CARS = 260, 130
_KERB, _FAR_KERB, _FRONTS = 5.3, 11.6, 14.0


class Street:
    """The `Stage` of the street."""

    switches = False

    def __init__(self, settings: SceneSettings) -> None:
        width, height = settings.stage_size
        seed, walkers, sway = settings.seed, settings.walkers, settings.sway
        focal = 0.62 * min(width, 1.25 * height)
        self.camera = Camera(width, height, focal, (0.5 * width, 0.36 * height), GROUND)
        lights = [
            Light(bgr(214, 230, 255), even=0.30),
            Light(bgr(255, 246, 226), towards=_unit(_SUN), power=0.95, even=0.06),
        ]
        self.picture: Picture = render(self.camera, _boxes(self.camera, seed), lights, _sky(seed))
        side = self.camera.half_width(_FAR_KERB)
        near = self.camera.half_width(4.4)
        self.foliage: list[Foliage] = [
            tree(self.camera, lights, (0.42 * side, GROUND - 0.12, _FAR_KERB + 0.7), 4.6, sway=sway, key=seed),
            tree(self.camera, lights, (-near + 0.25, GROUND - 0.12, 4.2), 4.4, sway=sway, key=seed + 10),
        ]
        self.tracks = [self._track(i, walkers, seed) for i in range(walkers)]
        self._phases = generator(seed, 42).uniform(0, 2 * math.pi, 2)

    def weights(self, index: int) -> tuple[float, ...]:
        """Return the power of sky and sun at a frame; clouds remove up to two thirds of the sun."""
        slow = math.sin(2 * math.pi * index / 520 + self._phases[0])
        slower = math.sin(2 * math.pi * index / 1370 + self._phases[1])
        cloud = min(max(0.5 + 0.45 * slow + 0.35 * slower, 0.0), 1.0)
        sun = round(4096 * (1 - 0.66 * cloud)) / 4096
        return 1.0 + 0.15 * (1 - sun), sun

    def _track(self, index: int, walkers: int, seed: int) -> Track:
        if index % 2 == 0:
            lane = (index // 2) % 2
            start = round(index * _CARS / max(walkers, 1))
            return Track(Car, lambda rng: self._drive(rng, lane), _CARS, start, seed, 32, index)
        return Track(Person, self._walk, _PEOPLE, round((index - 1) * 60 / max(walkers, 1)), seed, 33, index)

    def _drive(self, rng: np.random.Generator, lane: int) -> Way:
        z = (9.9, 7.0)[lane] + float(rng.uniform(-0.2, 0.2))
        edge = (self.camera.half_width(z) + 2.6) * (1, -1)[lane]
        return Way(((edge, z), (-edge, z)), float(rng.uniform(0.16, 0.30)))

    def _walk(self, rng: np.random.Generator) -> Way:
        near = rng.random() < 0.6
        z = float(rng.uniform(4.0, 4.9) if near else rng.uniform(12.0, 13.3))
        edge = (self.camera.half_width(z) + 0.8) * (1 if rng.random() < 0.5 else -1)
        return Way(((edge, z), (-edge, z)), float(rng.uniform(0.048, 0.066)))


def _unit(way: tuple[float, float, float]) -> tuple[float, float, float]:
    length = math.sqrt(sum(a * a for a in way))
    return way[0] / length, way[1] / length, way[2] / length


def _boxes(camera: Camera, seed: int) -> list[Box]:
    """Return road, pavements, houses and street furniture."""
    rng = generator(seed, 52)
    far = camera.half_width(_FRONTS) + 6
    slabs = _slabs(Mottle(rng, 0.06), Mottle(rng, 0.9))
    road = _road(Mottle(rng, 0.05), Mottle(rng, 1.3))
    pavement, kerb = bgr(150, 146, 138), bgr(168, 166, 160)
    up = GROUND - 0.12
    boxes = [
        Box((-far, GROUND, 0), (far, GROUND + 1, 40), bgr(104, 104, 106), road, casts=False, ground=True),
        Box((-far, up, 0), (far, GROUND + 1, _KERB - 0.15), pavement, slabs, casts=False, ground=True),
        Box((-far, up, _KERB - 0.15), (far, GROUND + 1, _KERB), kerb, casts=False, ground=True),
        Box((-far, up, _FAR_KERB), (far, GROUND + 1, _FAR_KERB + 0.15), kerb, casts=False, ground=True),
        Box((-far, up, _FAR_KERB + 0.15), (far, GROUND + 1, 40), pavement, slabs, casts=False, ground=True),
    ]
    boxes += _houses(camera, rng, far)
    post = bgr(58, 64, 66)
    lantern = 0.72 * camera.half_width(_FAR_KERB)
    boxes += [
        Box((-lantern - 0.05, -1.6, 11.95), (-lantern + 0.05, up, 12.05), post),
        Box((-lantern - 0.05, -1.7, 11.2), (-lantern + 0.05, -1.6, 12.05), post),
        Box((0.3, up - 0.95, 12.9), (0.8, up, 13.3), bgr(44, 74, 60)),
        Box((-2.9, up - 0.45, 13.1), (-1.3, up - 0.38, 13.5), bgr(120, 86, 54)),
        Box((-2.8, up - 0.38, 13.2), (-2.65, up, 13.4), post),
        Box((-1.55, up - 0.38, 13.2), (-1.4, up, 13.4), post),
    ]
    return boxes


def _houses(camera: Camera, rng: np.random.Generator, far: float) -> list[Box]:
    """Return a row of house fronts with a gap, and houses farther back in the gap."""
    tones = [bgr(176, 128, 100), bgr(206, 192, 160), bgr(158, 96, 78), bgr(188, 190, 186), bgr(198, 170, 120)]
    order = rng.permutation(len(tones))
    boxes = [Box((-far, -1.0, 22), (far, GROUND, 24), bgr(150, 140, 134), _front(rng, -far, 0.7))]
    x, place = -far, 0
    while x < far:
        wide = float(rng.uniform(4.2, 6.2))
        high = float(rng.uniform(5.2, 8.5))
        tone = tones[order[place % len(tones)]]
        texture = _front(rng, x, wide)
        boxes.append(Box((x, GROUND - high, _FRONTS), (x + wide, GROUND, 18), tone, texture))
        boxes.append(
            Box((x - 0.1, GROUND - high - 0.2, 13.85), (x + wide + 0.1, GROUND - high, 18), tone * np.float32(0.6))
        )
        place += 1
        x += wide + (2.2 if place == 2 else 0.0)
    return boxes


def _sky(seed: int) -> Texture:
    """Return a bright sky with soft clouds."""
    rng = generator(seed, 53)
    fields = Mottle(rng, 0.22), Mottle(rng, 0.09)

    def texture(d: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        cloud = np.clip(0.4 + fields[0](d[:, 0], 2 * d[:, 1]) + 0.5 * fields[1](d[:, 0], 2 * d[:, 1]), 0, 1)
        high = np.clip(-d[:, 1] * 2, 0, 1)[:, np.newaxis]
        blue = bgr(176, 206, 238) * (1 - high) + bgr(120, 168, 224) * high
        white = cloud.astype(np.float32)[:, np.newaxis]
        return (blue * (1 - white) + bgr(244, 246, 248) * white).astype(np.float32)

    return texture


def _road(grain: Mottle, worn: Mottle) -> Texture:
    """Return asphalt with a broken line between the lanes and lines along the kerbs."""

    def texture(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        x, z = p[:, 0], p[:, 2]
        light = 1 + np.float32(0.14) * grain(x, z) + np.float32(0.09) * worn(x, z)
        # darker wheel tracks
        light -= np.float32(0.05) * ((np.abs(z - 7.0) < 0.9) | (np.abs(z - 9.9) < 0.9))
        middle = (np.abs(z - 8.45) < 0.08) & ((x / 3) % 1 < 0.5)
        edge = (np.abs(z - (_KERB + 0.4)) < 0.06) | (np.abs(z - (_FAR_KERB - 0.4)) < 0.06)
        out = np.where((middle | edge)[:, np.newaxis], bgr(206, 206, 200), colour)
        return (light[:, np.newaxis] * out).astype(np.float32)

    return texture


def _slabs(grain: Mottle, worn: Mottle) -> Texture:
    """Return paving slabs of 60 by 60 cm."""

    def texture(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        x, z = p[:, 0], p[:, 2]
        joint = (np.abs(x / 0.6 - np.round(x / 0.6)) < 0.03) | (np.abs(z / 0.6 - np.round(z / 0.6)) < 0.03)
        light = 1 + np.float32(0.08) * grain(x, z) + np.float32(0.06) * worn(x, z) - np.float32(0.22) * joint
        return light.astype(np.float32)[:, np.newaxis] * colour

    return texture


def _front(rng: np.random.Generator, left: float, wide: float) -> Texture:
    """Return a house front: windows in rows with frames, a door, courses of brick."""
    grain, stain = Mottle(rng, 0.09), Mottle(rng, 1.1)
    glass = rng.random((8, 32), dtype=np.float32)
    count = max(round(wide / 1.45), 1)
    step = wide / count if wide > 2 else 1.5
    door = int(rng.integers(count))

    def texture(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        u = (p[:, 0] - np.float32(left)) / np.float32(step)
        v = (np.float32(GROUND) - p[:, 1]) / np.float32(2.35)
        column, floor = np.floor(u).astype(np.int32), np.floor(v).astype(np.int32)
        fu, fv = u - column - np.float32(0.5), v - floor
        front = axis == 2
        is_door = front & (floor == 0) & (column == door) & (np.abs(fu) < 0.30) & (fv < 0.88)
        hole = front & ~((floor == 0) & (column == door)) & (np.abs(fu) < 0.31) & (fv > 0.34) & (fv < 0.88)
        pane = hole & (np.abs(fu) < 0.26) & (fv > 0.38) & (fv < 0.84) & (np.abs(fu) > 0.025)
        light = 1 + np.float32(0.07) * grain(p[:, 0], p[:, 1] * 2) + np.float32(0.07) * stain(p[:, 0], p[:, 1])
        out = light[:, np.newaxis] * colour
        out = np.where(hole[:, np.newaxis], bgr(206, 204, 198), out)
        dark = (0.5 + glass[floor & 7, column & 31] + 0.8 * (fv - 0.4))[:, np.newaxis]
        out = np.where(pane[:, np.newaxis], dark * bgr(72, 86, 98), out)
        out = np.where(is_door[:, np.newaxis], bgr(72, 62, 54), out)
        return out.astype(np.float32)

    return texture
