"""The places of the scenes: what lobby.toml and street.toml describe, and what depends on the seed or the frame."""

import math
import re
import tomllib
from collections.abc import Callable
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.synthetic._movers import Car, Person, Track, Way
from bgsub.synthetic._shapes import Mottle, bgr, generator, make_foliage
from bgsub.synthetic._stage import Box, Camera, Light, Picture, Texture, Vector, render

_CYCLE = 240  # frames of the lobby's lamps
_SWITCHES = (60, 92, 128, 160, 190, 218)  # frames of a cycle at which they switch, give or take six
_WALKS, _PEOPLE, _CARS = 190, 260, 130  # frames between two trips of a track: in the lobby, on the street
_FAR_KERB, _FRONTS = 11.6, 14.0

Names = dict[str, float]


class Place:
    """A place in a picture of some size: camera, empty picture, plants, and the tracks of its movers."""

    name: str
    switches: bool  # whether the light changes within one frame
    names: Callable[[Camera], Names]  # returns the places that depend on the width of the picture, in metres
    weights: Callable[[int], tuple[float, ...]]  # returns the power of each light at a frame
    _track: Callable[[int, int, int], Track]  # takes its number, the number of tracks, and the seed

    def __init__(self, size: tuple[int, int], seed: int, walkers: int, sway: float) -> None:
        given, (width, height) = _description(self.name), size
        view = given["camera"]
        focal, centre = view["focal"] * min(width, 1.25 * height), (0.5 * width, view["height"] * height)
        self.camera = Camera(width, height, focal, centre, view["floor"])
        self.picture = _picture(self.name, self.camera, seed)
        names, lights = self.names(self.camera), self.picture.lights
        feet = [_point(plant["foot"], names) for plant in given["plants"]]
        self.foliage = [
            make_foliage(self.camera, lights, plant["kind"], foot, plant["size"], sway, seed + 10 * i)
            for i, (plant, foot) in enumerate(zip(given["plants"], feet, strict=True))
        ]
        self.tracks = [self._track(i, walkers, seed) for i in range(walkers)]

    @staticmethod
    def rest(camera: Camera, seed: int, rng: np.random.Generator) -> tuple[list[Box], Texture]:
        """Return the boxes that the description does not contain, and the sky."""
        return [], lambda directions, axis, colour: np.zeros_like(colour)


class Lobby(Place):
    """A room with an opening to a corridor; its lamps switch."""

    name, switches = "lobby", True

    def __init__(self, size: tuple[int, int], seed: int, walkers: int, sway: float) -> None:
        super().__init__(size, seed, walkers, sway)
        rng = generator(seed, 41)
        row, other = rng.permutation(3)[:2]
        on, one, two = np.ones(3), np.ones(3), np.zeros(3)
        one[row], two[other] = 0, 1
        states = [tuple(state.tolist()) for state in (0 * on, on, one, on, two, on)]
        self._states = [*zip(_SWITCHES + rng.integers(-6, 7, 6), states, strict=True)]

    @staticmethod
    def names(camera: Camera) -> Names:
        half = camera.half_width(7.0)  # from which depth the side walls are visible in any picture
        window, day = min(half - 0.12, 3.9), 3.25 if half > 3.6 else 0.8 * half
        near, row = camera.half_width(4.9), 0.58 * half
        return {"half": half, "far": half + 3, "near": near, "row": row, "window": window, "day": day}

    def weights(self, index: int) -> tuple[float, ...]:
        rows = [state for at, state in self._states if index % _CYCLE >= at] or [(1.0, 1.0, 1.0)]
        return (1.0, 1.0, *rows[-1])  # daylight, corridor, three rows of lamps

    def _track(self, index: int, walkers: int, seed: int) -> Track:
        return Track(Person, self._way, _WALKS, round(index * _WALKS / max(walkers, 1)), seed, 31, index)

    def _way(self, rng: np.random.Generator) -> Way:
        """Draw a walk: across the room, or from or to the corridor."""
        z = float(rng.choice([rng.uniform(4.3, 4.9), rng.uniform(6.5, 8.2)]))
        side = 1.0 if rng.random() < 0.5 else -1.0
        edge = self.camera.half_width(z) + 0.7
        if rng.random() < 0.55:
            corners = [(-side * edge, z), (side * edge, z + float(rng.uniform(-0.2, 0.2)))]
        else:
            corners = [(1.35, 12.4), (1.75, 10.2), (1.65, 8.6), (side * edge * 0.25, z), (side * edge, z)]
            if rng.random() < 0.5:
                corners.reverse()
        halt = (float(rng.uniform(2.5, 4.0)), 35.0) if rng.random() < 0.3 else (0.0, 0.0)
        return Way(tuple(corners), float(rng.uniform(0.045, 0.062)), halt)


class Street(Place):
    """Houses, two lanes with cars and two pavements with people, under passing clouds."""

    name, switches = "street", False

    def __init__(self, size: tuple[int, int], seed: int, walkers: int, sway: float) -> None:
        super().__init__(size, seed, walkers, sway)
        self._phases = generator(seed, 42).uniform(0, 2 * math.pi, 2)

    @staticmethod
    def names(camera: Camera) -> Names:
        kerb, fronts = camera.half_width(_FAR_KERB), camera.half_width(_FRONTS)
        return {"far": fronts + 6, "near": camera.half_width(4.4), "side": 0.42 * kerb, "lantern": 0.72 * kerb}

    @staticmethod
    def rest(camera: Camera, seed: int, rng: np.random.Generator) -> tuple[list[Box], Texture]:
        clouds = generator(seed, 53)
        return _houses(camera, rng), partial(_sky, (Mottle(clouds, 0.22), Mottle(clouds, 0.09)))

    def weights(self, index: int) -> tuple[float, ...]:
        # clouds remove up to two thirds of the sun
        slow = math.sin(2 * math.pi * index / 520 + self._phases[0])
        slower = math.sin(2 * math.pi * index / 1370 + self._phases[1])
        cloud = min(max(0.5 + 0.45 * slow + 0.35 * slower, 0.0), 1.0)
        sun = round(4096 * (1 - 0.66 * cloud)) / 4096
        return 1.0 + 0.15 * (1 - sun), sun

    def _track(self, index: int, walkers: int, seed: int) -> Track:
        if index % 2:
            return Track(Person, self._walk, _PEOPLE, round((index - 1) * 60 / max(walkers, 1)), seed, 33, index)
        drive = partial(self._drive, (index // 2) % 2)
        return Track(Car, drive, _CARS, round(index * _CARS / max(walkers, 1)), seed, 32, index)

    def _drive(self, lane: int, rng: np.random.Generator) -> Way:
        z = (9.9, 7.0)[lane] + float(rng.uniform(-0.2, 0.2))
        edge = (self.camera.half_width(z) + 2.6) * (1, -1)[lane]
        return Way(((edge, z), (-edge, z)), float(rng.uniform(0.16, 0.30)))

    def _walk(self, rng: np.random.Generator) -> Way:
        near = rng.random() < 0.6
        z = float(rng.uniform(4.0, 4.9) if near else rng.uniform(12.0, 13.3))
        edge = (self.camera.half_width(z) + 0.8) * (1 if rng.random() < 0.5 else -1)
        return Way(((edge, z), (-edge, z)), float(rng.uniform(0.048, 0.066)))


PLACES: dict[str, type[Place]] = {"lobby": Lobby, "street": Street}


@cache
def _description(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=4)  # takes half a second
def _picture(name: str, camera: Camera, seed: int) -> Picture:
    given, place = _description(name), PLACES[name]
    names = place.names(camera)
    rng = generator(seed, given["stream"])
    drawn: dict[str, Any] = {}
    for item in given["drawn"]:
        if "of" in item:
            drawn[item["name"]] = item["of"][rng.integers(len(item["of"]))]
        else:
            drawn[item["name"]] = partial(_TEXTURES[item["kind"]], Material(item, names, rng))
    boxes = [_box(box, drawn, names) for box in given["boxes"]]
    lights = [_light(light, names) for light in given["lights"]]
    more, sky = place.rest(camera, seed, rng)
    return render(camera, boxes + more, lights, sky)


def _coordinate(value: float | str, names: Names) -> float:
    """Return a number, or the value of a name with a sign and an offset, such as ``-half + 0.55``."""
    if not isinstance(value, str):
        return value
    sign, name, offset = re.fullmatch(r"(-?)(\w+)(.*)", value).groups()  # type: ignore[union-attr]
    return (-names[name] if sign else names[name]) + float(offset.replace(" ", "") or 0)


def _point(values: list[float | str], names: Names) -> Vector:
    x, y, z = (_coordinate(value, names) for value in values)
    return x, y, z


def _light(given: dict[str, Any], names: Names) -> Light:
    points = tuple(_point(point, names) for point in given.get("points", ()))
    towards = tuple(a / math.hypot(*given["towards"]) for a in given["towards"]) if "towards" in given else None
    return Light(**{**given, "colour": bgr(*given["colour"]), "points": points, "towards": towards})


def _box(given: dict[str, Any], drawn: dict[str, Any], names: Names) -> Box:
    low, high = _point(given["low"], names), _point(given["high"], names)
    colour = bgr(*(drawn[given["colour"]] if isinstance(given["colour"], str) else given["colour"]))
    options = {key: given[key] for key in ("glow", "lamp", "casts", "ground") if key in given}
    return Box(low, high, colour * given.get("shade", 1), drawn.get(given.get("texture", "")), **options)


class Material:
    """Random fields of a texture: value noise, and a table of random numbers."""

    def __init__(self, given: dict[str, Any], names: Names, rng: np.random.Generator) -> None:
        self.fields = [Mottle(rng, cell) for cell in given.get("cells", ())]
        self.shares = [np.float32(share) for share in given.get("shares", ())]
        self.table = rng.random(given.get("table", (0, 0)), dtype=np.float32)
        self.names = names

    def light(self, p: np.ndarray, axis: np.ndarray, start: Any = 1) -> np.ndarray:
        """Return `start` plus the noise along the face that was hit, (n, 1), float32."""
        u = np.where(axis == 0, p[:, 2], p[:, 0])
        v = np.where(axis == 1, p[:, 2], p[:, 1])
        for share, field in zip(self.shares, self.fields, strict=True):
            start = start + share * field(u, v)
        return start


def _speckled(material: Material, p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    return material.light(p, axis)[:, np.newaxis] * colour


def _carpet(material: Material, p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Squares of one metre with alternating directions."""
    odd = (np.floor(p[:, 0]) + np.floor(p[:, 2])) % 2
    return material.light(p, axis, 0.97 + 0.06 * odd)[:, np.newaxis] * colour


def _ceiling(material: Material, p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    light = np.where(_joints(p / 0.6), np.float32(0.72), material.light(p, axis))
    return light[:, np.newaxis] * colour


def _slabs(material: Material, p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Paving slabs of 60 by 60 cm."""
    return (material.light(p, axis) - 0.22 * _joints(p / 0.6))[:, np.newaxis] * colour


def _joints(p: np.ndarray) -> np.ndarray:
    """Return where points, in units of square tiles on the ground, are at the edge of one."""
    return (np.abs(p[:, [0, 2]] - np.round(p[:, [0, 2]])) < 0.03).any(axis=1)


def _road(material: Material, p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Asphalt with darker wheel tracks, a broken line between the lanes and lines along the kerbs."""
    x, z = p[:, 0], p[:, 2]
    light = material.light(p, axis) - 0.05 * ((np.abs(z - 7.0) < 0.9) | (np.abs(z - 9.9) < 0.9))
    middle = (np.abs(z - 8.45) < 0.08) & ((x / 3) % 1 < 0.5)
    edge = (np.abs(z - 5.7) < 0.06) | (np.abs(z - 11.2) < 0.06)
    return light[:, np.newaxis] * np.where((middle | edge)[:, np.newaxis], bgr(206, 206, 200), colour)


def _tubes(material: Material, p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Two bright tubes behind a lamp cover."""
    across = np.abs((p[:, 0] / 0.3) % 1 - 0.5)
    return (1.1 - 0.6 * across)[:, np.newaxis] * colour


def _art(material: Material, p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Soft patches of colour."""
    out = np.stack([field(p[:, 0], p[:, 1]) for field in material.fields], axis=1)
    out += out[:, [1, 2, 0]]
    return np.clip(1.0 + 0.75 * out, 0.1, 1.8) * colour


def _view(material: Material, p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """The view of a window: sky over trees, behind bars."""
    x = (p[:, 0] - 2.75) / (material.names["window"] - 2.75)
    high = np.abs((x * 3) % 2 - 1) * 0.18 + np.abs((x * 7) % 2 - 1) * 0.10
    out = np.where((p[:, 1] > 0.62 - high)[:, np.newaxis], bgr(96, 124, 78), colour)
    bars = (np.abs((x * 2) - np.round(x * 2)) < 0.035) | (np.abs(p[:, 1] - 0.3) < 0.025)
    return np.where(bars[:, np.newaxis], bgr(150, 150, 148), out)


def _pigeonholes(material: Material, p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Three rows of dark holes, some with letters, and doors below."""
    u, v = (p[:, 0] + 1.95) / 0.225, (p[:, 1] - 1.0) / 0.2
    column, row = np.floor(u).astype(np.int32), np.floor(v).astype(np.int32)
    inside = (u - column > 0.13) & (v - row > 0.15) & (row < 3) & (axis == 2)
    letters = inside & (v - row > 1 - 0.75 * material.table[row & 15, column & 15]) & (u - column < 0.85)
    out = np.where(inside[:, np.newaxis], bgr(40, 36, 38), colour)
    out = np.where(letters[:, np.newaxis], bgr(176, 178, 186), out)
    joint = (row >= 3) & (np.abs(u / 3 - np.round(u / 3)) < 0.02)
    return np.where(joint[:, np.newaxis], colour * 0.5, out)


_TEXTURES = {
    "speckled": _speckled, "carpet": _carpet, "ceiling": _ceiling, "slabs": _slabs, "road": _road, "tubes": _tubes,
    "art": _art, "view": _view, "pigeonholes": _pigeonholes,
}  # fmt: skip


def _houses(camera: Camera, rng: np.random.Generator) -> list[Box]:
    """Return a row of house fronts with a gap, and houses farther back in the gap."""
    ground, far = camera.floor, camera.half_width(_FRONTS) + 6
    tones = [bgr(176, 128, 100), bgr(206, 192, 160), bgr(158, 96, 78), bgr(188, 190, 186), bgr(198, 170, 120)]
    order = rng.permutation(len(tones))
    boxes = [Box((-far, -1.0, 22), (far, ground, 24), bgr(150, 140, 134), _front(rng, -far, 0.7, ground))]
    x, place = -far, 0
    while x < far:
        wide, high = float(rng.uniform(4.2, 6.2)), float(rng.uniform(5.2, 8.5))
        tone, top = tones[order[place % len(tones)]], ground - high
        boxes.append(Box((x, top, _FRONTS), (x + wide, ground, 18), tone, _front(rng, x, wide, ground)))
        boxes.append(Box((x - 0.1, top - 0.2, 13.85), (x + wide + 0.1, top, 18), tone * 0.6))
        place += 1
        x += wide + (2.2 if place == 2 else 0.0)
    return boxes


def _front(rng: np.random.Generator, left: float, wide: float, ground: float) -> Texture:
    """Return a house front: windows in rows with frames, a door, courses of brick."""
    grain, stain = Mottle(rng, 0.09), Mottle(rng, 1.1)
    glass = rng.random((8, 32), dtype=np.float32)
    count = max(round(wide / 1.45), 1)
    step = wide / count if wide > 2 else 1.5
    door = int(rng.integers(count))

    def texture(p: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
        u = (p[:, 0] - left) / step
        v = (ground - p[:, 1]) / 2.35
        column, floor = np.floor(u).astype(np.int32), np.floor(v).astype(np.int32)
        fu, fv, front = np.abs(u - column - 0.5), v - floor, axis == 2
        entrance = front & (floor == 0) & (column == door)
        hole = front & ~entrance & (fu < 0.31) & (fv > 0.34) & (fv < 0.88)
        pane = hole & (fu < 0.26) & (fv > 0.38) & (fv < 0.84) & (fu > 0.025)
        light = 1 + 0.07 * grain(p[:, 0], p[:, 1] * 2) + 0.07 * stain(p[:, 0], p[:, 1])
        out = np.where(hole[:, np.newaxis], bgr(206, 204, 198), light[:, np.newaxis] * colour)
        dark = (0.5 + glass[floor & 7, column & 31] + 0.8 * (fv - 0.4))[:, np.newaxis]
        out = np.where(pane[:, np.newaxis], dark * bgr(72, 86, 98), out)
        return np.where((entrance & (fu < 0.30) & (fv < 0.88))[:, np.newaxis], bgr(72, 62, 54), out)

    return texture


def _sky(clouds: tuple[Mottle, Mottle], d: np.ndarray, axis: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Return a bright sky with soft clouds."""
    cloud = np.clip(0.4 + clouds[0](d[:, 0], 2 * d[:, 1]) + 0.5 * clouds[1](d[:, 0], 2 * d[:, 1]), 0, 1)
    high = np.clip(-d[:, 1] * 2, 0, 1)[:, np.newaxis]
    blue = bgr(176, 206, 238) * (1 - high) + bgr(120, 168, 224) * high
    return blue * (1 - cloud[:, np.newaxis]) + bgr(244, 246, 248) * cloud[:, np.newaxis]
