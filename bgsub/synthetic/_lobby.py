"""A lobby: a room with an opening to a corridor, a shelf, a sofa, plants, pictures and lamps that switch."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from bgsub.synthetic._foliage import Foliage, potted_plant
from bgsub.synthetic._movers import Person, Track, Way
from bgsub.synthetic._scene import SceneSettings
from bgsub.synthetic._shapes import Mottle, bgr, generator
from bgsub.synthetic._stage import Box, Camera, Light, Picture, Texture, render

CEILING, FLOOR, BACK = -0.8, 2.2, 9.0
_CYCLE = 240
_PERIOD = 190
_DEPTH = 7.0  # metres from which the side walls are visible in any picture


class Lobby:
    """The `Stage` of the lobby."""

    switches = True

    def __init__(self, settings: SceneSettings) -> None:
        width, height = settings.stage_size
        seed, walkers, sway = settings.seed, settings.walkers, settings.sway
        focal = 0.875 * min(width, 1.25 * height)
        self.camera = Camera(width, height, focal, (0.5 * width, 0.33 * height), FLOOR)
        self._half = self.camera.half_width(_DEPTH)
        lights = _lights(self._half)
        self.picture = _picture(self.camera, seed)
        self.foliage: list[Foliage] = [
            potted_plant(self.camera, lights, foot, tall, sway=sway, key=seed + 10 * i)
            for i, (foot, tall) in enumerate(_pots(self.camera, self._half))
        ]
        self.tracks = [
            Track(Person, self._way, _PERIOD, round(i * _PERIOD / max(walkers, 1)), seed, 31, i) for i in range(walkers)
        ]
        self._switches = _switches(seed)

    def weights(self, index: int) -> tuple[float, ...]:
        """Return the power of each light at a frame: daylight, corridor, three rows of lamps."""
        state = (1.0, 1.0, 1.0)
        for at, then in self._switches:
            if index % _CYCLE >= at:
                state = then
        return (1.0, 1.0, *state)

    def _way(self, rng: np.random.Generator) -> Way:
        """Draw a walk: across the room, or from or to the corridor."""
        z = float(rng.choice([rng.uniform(4.3, 4.9), rng.uniform(6.5, 8.2)]))
        side = 1.0 if rng.random() < 0.5 else -1.0
        edge = self.camera.half_width(z) + 0.7
        if rng.random() < 0.55:
            corners = [(-side * edge, z), (side * edge, z + float(rng.uniform(-0.2, 0.2)))]
        else:
            door = 1.75
            corners = [(door - 0.4, 12.4), (door, 10.2), (door - 0.1, 8.6), (side * edge * 0.25, z), (side * edge, z)]
            if rng.random() < 0.5:
                corners.reverse()
        halt = (float(rng.uniform(2.5, 4.0)), 35.0) if rng.random() < 0.3 else (0.0, 0.0)
        return Way(tuple(corners), float(rng.uniform(0.045, 0.062)), halt)


@lru_cache(maxsize=4)  # takes half a second
def _picture(camera: Camera, seed: int) -> Picture:
    half = camera.half_width(_DEPTH)
    return render(camera, _boxes(half, seed), _lights(half), _no_sky)


def _switches(seed: int) -> list[tuple[int, tuple[float, float, float]]]:
    """Return the frames of a cycle at which lamps switch, and the power of the rows from then on."""
    rng = generator(seed, 41)
    row, other = (int(v) for v in rng.permutation(3)[:2])
    jitter = [int(v) for v in rng.integers(-6, 7, 6)]
    one = tuple(0.0 if i == row else 1.0 for i in range(3))
    two = tuple(1.0 if i == other else 0.0 for i in range(3))
    on, off = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
    states = [off, on, one, on, two, on]
    return [(at + j, (s[0], s[1], s[2])) for at, j, s in zip((60, 92, 128, 160, 190, 218), jitter, states, strict=True)]


def _lights(half: float) -> list[Light]:
    lamps = bgr(255, 252, 240)
    day = Light(bgr(225, 240, 255), ((3.25 if half > 3.6 else 0.8 * half, 0.2, 8.6),), power=0.9, even=0.10)
    corridor = Light(lamps, ((1.8, -0.45, 11.2),), power=2.2, even=0.015)
    rows = [
        Light(lamps, tuple((x, CEILING + 0.03, z) for z in (4.4, 5.0, 7.2, 7.8)), power=5.8, even=0.10)
        for x in (-0.58 * half, 0.0, 0.58 * half)
    ]
    return [day, corridor, *rows]


def _pots(camera: Camera, half: float) -> list[tuple[tuple[float, float, float], float]]:
    """Return the feet of the plants and their heights."""
    near = camera.half_width(4.9)
    return [((-near + 0.55, 1.62, 4.9), 1.15), ((half - 0.42, 1.72, 8.5), 1.05), ((near - 0.2, 1.75, 4.75), 0.9)]


def _boxes(half: float, seed: int) -> list[Box]:
    rng = generator(seed, 51)
    return [*_shell(half, rng), *_wall_things(half, rng), *_furniture(half, rng)]


def _shell(half: float, rng: np.random.Generator) -> list[Box]:
    """Return floor, ceiling, walls, corridor and lamp panels."""
    wall = bgr(*[(206, 200, 188), (212, 206, 184), (196, 202, 204)][rng.integers(3)])
    carpet = bgr(*[(128, 112, 112), (122, 116, 104), (108, 114, 122)][rng.integers(3)])
    tile = bgr(216, 216, 212)
    plaster = _speckled(Mottle(rng, 0.9), 0.03, Mottle(rng, 0.08), 0.02)
    pile = _carpet(Mottle(rng, 0.035), Mottle(rng, 0.5))
    far = half + 3
    solid = [
        Box((-far, FLOOR, -1), (far, 2.4, 14), carpet, pile, casts=False, ground=True),
        Box((-far, -1.0, -1), (far, CEILING, BACK), tile, _ceiling(Mottle(rng, 0.05)), casts=False),
        Box((-half - 0.3, CEILING, 0), (-half, FLOOR, BACK), wall, plaster, casts=False),
        Box((half, CEILING, 0), (half + 0.3, FLOOR, BACK), wall, plaster, casts=False),
        Box((-far, CEILING, BACK), (1.05, FLOOR, 9.2), wall, plaster),
        Box((2.45, CEILING, BACK), (far, FLOOR, 9.2), wall, plaster),
        Box((1.05, CEILING, BACK), (2.45, 0.0, 9.2), wall, plaster),
        Box((0.6, CEILING, 9.2), (0.75, FLOOR, 13), wall, plaster, casts=False),
        Box((2.9, CEILING, 9.2), (3.05, FLOOR, 13), wall, plaster, casts=False),
        Box((0.6, CEILING, 13), (3.05, FLOOR, 13.2), wall * np.float32(0.9), plaster, casts=False),
        Box((0.6, -0.7, 9.2), (3.05, -0.6, 13), tile, casts=False),
    ]
    panels = [
        Box((x - 0.3, CEILING - 0.1, z - 0.55), (x + 0.3, CEILING + 0.02, z + 0.55), bgr(250, 250, 245),
            _panel, glow=1.6, lamp=2 + i, casts=False)
        for i, x in enumerate((-0.58 * half, 0.0, 0.58 * half))
        for z in (4.7, 7.5)
    ]  # fmt: skip
    return solid + panels


def _wall_things(half: float, rng: np.random.Generator) -> list[Box]:
    """Return the things on the back wall: skirting, door, pictures, window, frame of the opening."""
    wood, white = bgr(126, 88, 56), bgr(224, 222, 216)
    left = -half + 0.55
    grain = _speckled(Mottle(rng, 0.05), 0.06, Mottle(rng, 0.4), 0.08)
    things = [
        Box((-half, 2.08, 8.97), (1.05, FLOOR, BACK), wood, casts=False),
        Box((2.45, 2.08, 8.97), (half, FLOOR, BACK), wood, casts=False),
        Box((left - 0.08, 0.02, 8.95), (left + 1.0, FLOOR, BACK), white, casts=False),
        Box((left, 0.1, 8.92), (left + 0.92, FLOOR, BACK), wood, grain, casts=False),
        Box((left + 0.78, 1.12, 8.86), (left + 0.86, 1.18, BACK), bgr(200, 190, 150), casts=False),
        Box((left + 0.28, 0.35, 8.9), (left + 0.64, 0.95, BACK), bgr(96, 120, 132), casts=False),
        Box((0.97, -0.06, 8.94), (1.05, FLOOR, 9.2), white, casts=False),
        Box((2.45, -0.06, 8.94), (2.53, FLOOR, 9.2), white, casts=False),
        Box((0.97, -0.08, 8.94), (2.53, 0.0, 9.2), white, casts=False),
        Box((1.5, 0.6, 12.95), (2.2, 1.4, 13), bgr(70, 96, 120), _art(rng), casts=False),
    ]
    for x, wide, tone in ((-1.75, 0.75, bgr(148, 128, 92)), (-0.55, 1.05, bgr(104, 128, 140))):
        things.append(Box((x, -0.25, 8.95), (x + wide, 0.55, BACK), bgr(52, 42, 36), casts=False))
        canvas = Box((x + 0.07, -0.18, 8.93), (x + wide - 0.07, 0.48, BACK), tone, _art(rng))
        things.append(canvas)
    right = (2.75, min(half - 0.12, 3.9))
    if right[1] - right[0] > 0.5:
        things.append(Box((right[0] - 0.06, -0.36, 8.95), (right[1] + 0.06, 0.96, BACK), white, casts=False))
        view = Box((right[0], -0.3, 8.93), (right[1], 0.9, BACK), bgr(200, 222, 240), _view(*right), glow=1.15)
        things.append(view)
    return things


def _furniture(half: float, rng: np.random.Generator) -> list[Box]:
    """Return shelf, sofa, table and pots."""
    wood, dark = bgr(150, 108, 66), bgr(92, 62, 40)
    leather = bgr(*[(44, 46, 58), (92, 44, 40), (52, 70, 66)][rng.integers(3)])
    grain = _speckled(Mottle(rng, 0.04), 0.10, Mottle(rng, 0.3), 0.08)
    clay = bgr(136, 84, 60)
    near = half * 4.9 / 7.0
    s = half - 0.2
    return [
        Box((-1.95, 1.0, 8.6), (0.75, FLOOR, BACK), wood, _pigeonholes(rng, (-1.95, 1.0))),
        Box((-2.0, 0.95, 8.55), (0.8, 1.0, BACK), dark, grain),
        Box((s - 1.55, 1.78, 5.7), (s - 0.55, FLOOR, 7.5), leather),
        Box((s - 0.8, 1.40, 5.7), (s - 0.45, FLOOR, 7.5), leather * np.float32(1.15)),
        Box((s - 1.55, 1.60, 5.55), (s - 0.45, FLOOR, 5.75), leather * np.float32(0.9)),
        Box((s - 1.55, 1.60, 7.4), (s - 0.45, FLOOR, 7.6), leather * np.float32(0.9)),
        Box((-1.35, 1.72, 5.2), (0.05, 1.78, 6.0), wood, grain),
        Box((-1.30, 1.78, 5.25), (-1.22, FLOOR, 5.33), dark),
        Box((-0.08, 1.78, 5.25), (0.0, FLOOR, 5.33), dark),
        Box((-1.30, 1.78, 5.87), (-1.22, FLOOR, 5.95), dark),
        Box((-0.08, 1.78, 5.87), (0.0, FLOOR, 5.95), dark),
        Box((-0.95, 1.69, 5.45), (-0.6, 1.72, 5.7), bgr(210, 208, 200)),
        Box((-0.45, 1.66, 5.5), (-0.2, 1.72, 5.75), bgr(150, 52, 44)),
        Box((-near + 0.25, 1.62, 4.6), (-near + 0.85, FLOOR, 5.2), wood, grain),
        Box((half - 0.6, 1.72, 8.3), (half - 0.25, FLOOR, 8.65), clay),
        Box((near - 0.5, 1.75, 4.5), (near + 0.1, FLOOR, 5.1), wood, grain),
    ]


def _no_sky(directions: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    return np.zeros_like(colour)


def _speckled(coarse: Mottle, much: float, fine: Mottle, little: float) -> Texture:
    def texture(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        u = np.where(axis == 0, p[:, 2], p[:, 0])
        v = np.where(axis == 1, p[:, 2], p[:, 1])
        light = 1 + np.float32(much) * coarse(u, v) + np.float32(little) * fine(u, v)
        return light[:, np.newaxis] * colour

    return texture


def _carpet(pile: Mottle, worn: Mottle) -> Texture:
    """Return a carpet in squares of one metre with alternating directions."""

    def texture(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        x, z = p[:, 0], p[:, 2]
        odd = (np.floor(x) + np.floor(z)) % 2
        light = 0.97 + np.float32(0.06) * odd + np.float32(0.16) * pile(x, z) + np.float32(0.05) * worn(x, z)
        return light.astype(np.float32)[:, np.newaxis] * colour

    return texture


def _ceiling(grain: Mottle) -> Texture:
    def texture(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        x, z = p[:, 0] / np.float32(0.6), p[:, 2] / np.float32(0.6)
        joint = (np.abs(x - np.round(x)) < 0.03) | (np.abs(z - np.round(z)) < 0.03)
        light = np.where(joint, np.float32(0.72), 1 + np.float32(0.04) * grain(p[:, 0], p[:, 2]))
        return light.astype(np.float32)[:, np.newaxis] * colour

    return texture


def _panel(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Return a lamp cover with two bright tubes behind it."""
    across = np.abs((p[:, 0] / np.float32(0.3)) % 1 - np.float32(0.5))
    return (np.float32(1.1) - np.float32(0.6) * across)[:, np.newaxis] * colour


def _art(rng: np.random.Generator) -> Texture:
    """Return a picture of soft patches of colour."""
    fields = [Mottle(rng, 0.23), Mottle(rng, 0.31), Mottle(rng, 0.17)]

    def texture(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        out = np.stack([field(p[:, 0], p[:, 1]) for field in fields], axis=1)
        out += out[:, [1, 2, 0]]
        return np.clip(np.float32(1.0) + np.float32(0.75) * out, 0.1, 1.8) * colour

    return texture


def _view(left: float, right: float) -> Texture:
    """Return the view of the window: sky over trees, behind bars."""

    def texture(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        x = (p[:, 0] - np.float32(left)) / np.float32(right - left)
        high = np.abs((x * 3) % 2 - 1) * np.float32(0.18) + np.abs((x * 7) % 2 - 1) * np.float32(0.10)
        trees = p[:, 1] > np.float32(0.62) - high
        out = np.where(trees[:, np.newaxis], bgr(96, 124, 78), colour)
        bars = (np.abs((x * 2) - np.round(x * 2)) < 0.035) | (np.abs(p[:, 1] - np.float32(0.3)) < 0.025)
        return np.where(bars[:, np.newaxis], bgr(150, 150, 148), out).astype(np.float32)

    return texture


def _pigeonholes(rng: np.random.Generator, corner: tuple[float, float]) -> Texture:
    """Return the front of a shelf: three rows of dark holes, some with letters, and doors below."""
    fill = rng.random((16, 16), dtype=np.float32)

    def texture(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        u = (p[:, 0] - np.float32(corner[0])) / np.float32(0.225)
        v = (p[:, 1] - np.float32(corner[1])) / np.float32(0.2)
        column, row = np.floor(u).astype(np.int32), np.floor(v).astype(np.int32)
        inside = (u - column > 0.13) & (v - row > 0.15) & (row < 3) & (axis == 2)
        letters = inside & (v - row > 1 - 0.75 * fill[row & 15, column & 15]) & (u - column < 0.85)
        out = np.where(inside[:, np.newaxis], bgr(40, 36, 38), colour)
        out = np.where(letters[:, np.newaxis], bgr(176, 178, 186), out)
        joint = (row >= 3) & (np.abs(u / 3 - np.round(u / 3)) < 0.02)
        return np.where(joint[:, np.newaxis], colour * np.float32(0.5), out).astype(np.float32)

    return texture
