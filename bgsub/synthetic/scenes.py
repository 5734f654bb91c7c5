"""Scenes by name: a place, plants, movers and shadows as a camera sees them."""

import math
from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from bgsub.errors import ParameterError, check_choice
from bgsub.synthetic._movers import Car, Presence
from bgsub.synthetic._places import PLACES
from bgsub.synthetic._shapes import Canvas, Foliage, Point, capsule, convex, coverage, generator
from bgsub.synthetic._stage import Camera, Light, Picture, mix

#: Code of a moving pixel in a mask, as on changedetection.net; 0 is the background.
MOVING = 255
#: Code of a partly covered pixel at the edge of an object, which is not scored.
UNKNOWN = 170
#: Code of a pixel in a moving shadow.
SHADOW = 50

#: Names for `scene`.
SCENES = tuple(PLACES)

_STEPS = 4096
_BRIGHTEST = 2.0
_SHAKE_STEPS = 16
_SHADE_SEEN = 0.05
_LONGEST = 2.6  # metres, of a shadow under lamps


class Sheet:
    """A picture; call `cast`, then `lay` for each plant, then `enter` for each mover, the farthest first."""

    def __init__(self, camera: Camera, picture: Picture, weights: tuple[float, ...]) -> None:
        self._camera, self._picture, self._weights = camera, picture, weights
        self._depth = picture.depth.copy()
        self.radiance = mix(picture.layers, weights)  # (h, w, 3), float32: linear light, BGR
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
        nearer = self._depth[box] > plant.depth
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
        canvas = Canvas((left, top, right, bottom), (u, v), scale)
        one.mover.draw(canvas, one.distance, one.swing, one.dx)
        lit = np.zeros(3, np.float32)
        for light, weight in zip(self._picture.lights, self._weights, strict=True):
            lit += light.colour * (weight * light.at(one.x, camera.floor - 0.6 * up, one.z))
        box = (slice(top, bottom), slice(left, right))
        seen = self._depth[box] > one.z
        alpha = canvas.alpha * seen
        falling = 0.86 + (0.2 / up) * canvas.y
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
            missing += arriving[j] * weights[j] * _umbra(gx, gz, picture.lights[j], one, tip)
        heel, toe = (one.x - 0.18, one.z), (one.x + 0.18, one.z)  # the feet also block the even light
        contact = np.clip(1 - capsule(gx, gz, heel, toe, (0, 0)) / 0.32, 0, 1)
        total = np.maximum(mix(arriving, weights), np.float32(1e-6))
        lost = np.minimum(missing / total + 0.35 * contact, np.float32(0.9)) * ground
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
        return coverage(convex(gx, gz, _hull(one, tip)), 1 / 0.08) * 0.95
    foot = (one.x, one.z)
    radius = one.mover.shadow_radius
    if light.towards is not None:
        return coverage(capsule(gx, gz, foot, tip, (0.8 * radius, 0.9 * radius)), 1 / 0.08) * 0.95
    distance = capsule(gx, gz, foot, tip, (radius, 1.5 * radius))  # long lamps: the edge softens away from the feet
    length = max(math.dist(foot, tip), 1e-3)
    away = np.minimum(capsule(gx, gz, foot, foot, (0, 0)) / length, 1)
    blocked = np.clip(0.5 - distance / (0.12 + 0.45 * away), 0, 1)
    return blocked * (0.9 - 0.5 * away)


def _hull(one: Presence, tip: tuple[float, float]) -> list[Point]:
    """Return the hard shadow of a car: the hull of its footprint and of the footprint moved along the sun."""
    sx, sz = tip[0] - one.x, tip[1] - one.z
    w, d = Car.half_length, Car.half_width
    low, high = one.z - d * 0.2, one.z + d * 1.6
    right = [(one.x - w, low), (one.x + w, low), (one.x + w + sx, low + sz)]
    return [*right, (one.x + w + sx, high + sz), (one.x - w + sx, high + sz), (one.x - w, high)]


class Scene:
    """A picture sequence with exact masks, computed on access; see `scene`.

    Iterating gives ``(frame, mask)`` in order, indexing the same pair at random.

    Parameters
    ----------
    settings
        Internal; use `scene`.

    Attributes
    ----------
    name : str
        Name of the scene.
    size : (int, int)
        Width and height in pixels.
    fps : Fraction
        Frames per second.

    Examples
    --------
    >>> from bgsub.synthetic import scene
    >>> street = scene("street", size=(64, 48), length=10)
    >>> len(street), street.frames().shape, street.masks().shape
    (10, (10, 48, 64, 3), (10, 48, 64))
    """

    fps = Fraction(25)

    def __init__(self, settings: SimpleNamespace) -> None:
        self.name, self.size, self._settings = settings.name, settings.size, settings
        # pixels that a shaking camera needs
        self._margin = math.ceil(2.5 * settings.shake) + 1 if settings.shake else 0
        size = settings.size[0] + 2 * self._margin, settings.size[1] + 2 * self._margin
        self._place = PLACES[settings.name](size, settings.seed, settings.walkers, settings.sway)

    def __len__(self) -> int:
        return self._settings.length

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return frame and mask at `index`; negative counts from the end."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"frame {index} of a scene of {len(self)} frames")
        index %= len(self)
        radiance, mask = self._compose(index, self._present(index))
        return self._sense(radiance, self._settings.noise, index), mask

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return (self[i] for i in range(len(self)))

    def frames(self) -> np.ndarray:
        """Return all frames: (n, h, w, 3), or (n, h, w) with one channel, uint8."""
        return np.stack([frame for frame, _ in self])

    def masks(self) -> np.ndarray:
        """Return all masks: (n, h, w), uint8."""
        return np.stack([self._compose(i, self._present(i))[1] for i in range(len(self))])

    def movers(self, index: int) -> dict[tuple[int, ...], np.ndarray]:
        """Return the visible pixels, (h, w) bool, of each mover at a frame, by a key that stays the same."""
        present = self._present(index)
        dx, dy = self.offset(index)
        owner = self._view(self._sheet(index, present).owner, (round(dx), round(dy)))
        return {one.key: owner == number for number, one in enumerate(present, 1) if (owner == number).any()}

    def background(self, index: int) -> np.ndarray:
        """Return the frame at `index` without movers, their shadows and noise."""
        return self._sense(self._compose(index, [])[0], 0.0, index)

    def offset(self, index: int) -> tuple[float, float]:
        """Return the movement of the picture by the shaking camera, (dx, dy) in pixels."""
        if not self._settings.shake:
            return 0.0, 0.0
        phases = generator(self._settings.seed, 61).uniform(0, 2 * math.pi, 6)
        turns = (0.91, 0.47, 0.263, 0.83, 0.53, 0.291)
        size = self._settings.shake * math.sqrt(2 / 3)
        waves = [size * math.sin(turn * index + p) for turn, p in zip(turns, phases, strict=True)]
        dx, dy = (round(_SHAKE_STEPS * sum(part)) / _SHAKE_STEPS for part in (waves[:3], waves[3:]))
        return dx, dy

    @property
    def lamp_frames(self) -> tuple[int, ...]:
        """Frames whose lamps differ from those of the frame before."""
        if not self._settings.lamps or not self._place.switches:
            return ()
        weights = [self._place.weights(i) for i in range(len(self))]
        return tuple(i for i in range(1, len(self)) if weights[i] != weights[i - 1])

    def _present(self, index: int) -> list[Presence]:
        """Return the movers in the scene, the farthest first."""
        if index < self._settings.empty_start:
            return []
        found = [track.at(index - self._settings.empty_start) for track in self._place.tracks]
        return sorted((p for p in found if p is not None), key=lambda p: -p.z)

    def _sheet(self, index: int, present: list[Presence]) -> Sheet:
        """Return the complete stage, before the camera moves."""
        place = self._place
        sheet = Sheet(place.camera, place.picture, place.weights(index if self._settings.lamps else 0))
        if self._settings.shadows:
            sheet.cast(present)
        for plant in place.foliage:
            sheet.lay(plant, *plant.moved(index, self._settings.sway))
        for one in present:
            sheet.enter(one)
        return sheet

    def _compose(self, index: int, present: list[Presence]) -> tuple[np.ndarray, np.ndarray]:
        """Return the radiance (h, w, 3), float32, and the mask (h, w), uint8."""
        sheet = self._sheet(index, present)
        offset = self.offset(index)
        cover, shade = self._view(sheet.cover, offset), self._view(sheet.shade, offset)
        mask = np.zeros(cover.shape, np.uint8)
        mask[shade > _SHADE_SEEN] = SHADOW
        mask[cover > 0] = UNKNOWN
        mask[cover >= 0.95] = MOVING
        return self._view(sheet.radiance, offset), mask

    def _view(self, layer: np.ndarray, offset: tuple[float, float]) -> np.ndarray:
        """Cut out the camera's view, moved by a fraction of a pixel."""
        m, (w, h) = self._margin, self.size
        if not m:
            return layer
        x, y = m - offset[0], m - offset[1]
        ix, iy = math.floor(x), math.floor(y)
        fx, fy = np.float32(x - ix), np.float32(y - iy)
        part = layer[iy : iy + h + 1, ix : ix + w + 1]
        part = part[:, :-1] * (1 - fx) + part[:, 1:] * fx
        return part[:-1] * (1 - fy) + part[1:] * fy

    def _sense(self, radiance: np.ndarray, noise: float, index: int) -> np.ndarray:
        """Return the sensor's 8-bit picture of the radiance: shot and read noise, gamma, rounding."""
        place = radiance * ((_STEPS - 1) / _BRIGHTEST)
        np.clip(place, 0, _STEPS - 1, out=place)
        place = place.astype(np.uint16)
        grey = _RESPONSE[place]
        scatter = _SCATTER[place] if noise else None
        if self._settings.channels == 1:
            grey = _luma(grey)
            scatter = None if scatter is None else _luma(scatter)
        if scatter is not None:
            rng = generator(self._settings.seed, 81, index)
            grey += scatter * noise * rng.standard_normal(grey.shape, dtype=np.float32)
        return np.clip(np.rint(grey), 0, 255).astype(np.uint8)


def scene(
    name: str,
    *,
    size: tuple[int, int] = (160, 128),
    length: int = 300,
    seed: int = 0,
    noise: float = 1.5,
    channels: int = 3,
    shake: float = 0.0,
    sway: float = 0.0,
    lamps: bool = True,
    walkers: int = 3,
    shadows: bool = True,
    empty_start: int = 20,
) -> Scene:
    """Make a picture sequence with exact masks.

    The mask codes are those of changedetection.net: 0 background, 50 shadow, 170 the antialiased edge of an object
    (not scored), 255 moving. Swaying plants, and shadows that remove less than 5 % of the light, are background.

    Parameters
    ----------
    name : {"lobby", "street"}
        A room with switching lamps, or a road under passing clouds.
    size : (int, int)
        Width and height in pixels, at least 16.
    length : int
        Number of frames; it does not change the frames.
    seed : int
        Seed of colours, people, lamps, wind and noise.
    noise : float
        Standard deviation of the sensor noise in grey levels, at middle grey.
    channels : {1, 3}
        Grey or BGR.
    shake : float
        Translation of the camera in pixels, root mean square of each direction.
    sway : float
        Movement of plants and trees in the wind, in pixels.
    lamps : bool
        Whether the light changes: lamps switch within one frame (lobby), clouds pass slowly (street).
    walkers : int
        Number of sequences of movers; on the street every other one is of cars.
    shadows : bool
        Whether movers cast shadows on the ground.
    empty_start : int
        Number of frames without movers at the start.

    Returns
    -------
    Scene
        Iterable and indexable pairs ``(frame, mask)``: (h, w, 3) or (h, w), uint8, and (h, w), uint8.

    Raises
    ------
    ParameterError
        If a parameter is outside its range.

    Examples
    --------
    >>> from bgsub.synthetic import scene
    >>> lobby = scene("lobby", length=50)
    >>> frame, mask = lobby[30]
    >>> frame.shape, mask.shape
    ((128, 160, 3), (128, 160))
    """
    settings = SimpleNamespace(**{**locals(), "size": tuple(size)})
    check_choice("scene", name, SCENES)
    if len(size) != 2 or min(size) < 16:
        raise ParameterError(f"size must be (width, height), each at least 16, got {size!r}")
    if channels not in (1, 3):
        raise ParameterError(f"channels must be 1 or 3, got {channels!r}")
    for label, count in (("seed", seed), ("walkers", walkers), ("empty_start", empty_start)):
        if count < 0:
            raise ParameterError(f"{label} must be 0 or more, got {count!r}")
    for label, amount in (("noise", noise), ("shake", shake), ("sway", sway)):
        if not 0 <= amount < math.inf:
            raise ParameterError(f"{label} must be a finite number, 0 or more, got {amount!r}")
    if length < 1:
        raise ParameterError(f"length must be at least 1, got {length!r}")
    return Scene(settings)


def _luma(bgr: np.ndarray) -> np.ndarray:
    """Return the grey value (h, w) of a colour picture."""
    return bgr[..., 0] * 0.114 + bgr[..., 1] * 0.587 + bgr[..., 2] * 0.299


def _response() -> tuple[np.ndarray, np.ndarray]:
    """Return grey level (a power law with a shoulder) and relative noise (1 at middle grey) per step of radiance."""
    v = (np.arange(_STEPS) + 0.5) * (_BRIGHTEST / _STEPS)
    knee = 0.6
    soft = np.where(v < knee, v, knee + (1 - knee) * (1 - 1 / (1 + (v - knee) / (1 - knee))))
    grey = 255 * soft ** (1 / 2.2)
    scatter = np.gradient(grey, v) * np.sqrt(0.002 + 0.03 * v)
    scatter /= scatter[np.searchsorted(grey, 118)]
    return grey.astype(np.float32), np.minimum(scatter, 1.6).astype(np.float32)


_RESPONSE, _SCATTER = _response()
