"""Scenes by name: a place, plants, movers and shadows as a camera sees them."""

import math
from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from bgsub.errors import ParameterError, check_choice
from bgsub.synthetic._movers import Presence
from bgsub.synthetic._places import PLACES
from bgsub.synthetic._shapes import generator
from bgsub.synthetic._sheet import Sheet

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
        m, (width, height) = self._margin, settings.size
        self._place = PLACES[settings.name](
            (width + 2 * m, height + 2 * m), settings.seed, settings.walkers, settings.sway
        )

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
        place = radiance * np.float32((_STEPS - 1) / _BRIGHTEST)
        np.clip(place, 0, _STEPS - 1, out=place)
        place = place.astype(np.uint16)
        grey = _RESPONSE[place]
        scatter = _SCATTER[place] if noise else None
        if self._settings.channels == 1:
            grey = _luma(grey)
            scatter = None if scatter is None else _luma(scatter)
        if scatter is not None:
            rng = generator(self._settings.seed, 81, index)
            grey += scatter * np.float32(noise) * rng.standard_normal(grey.shape, dtype=np.float32)
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
    return bgr[..., 0] * np.float32(0.114) + bgr[..., 1] * np.float32(0.587) + bgr[..., 2] * np.float32(0.299)


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
