"""Scenes by name."""

from __future__ import annotations

from collections.abc import Callable

from bgsub.errors import ParameterError
from bgsub.synthetic._lobby import Lobby
from bgsub.synthetic._scene import Scene, SceneSettings, Stage
from bgsub.synthetic._street import Street

_STAGES: dict[str, Callable[[SceneSettings], Stage]] = {"lobby": Lobby, "street": Street}
SCENES = tuple(_STAGES)
"""Names for `scene`."""


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
    if name not in SCENES:
        raise ParameterError(f"scene must be one of {', '.join(SCENES)}, got {name!r}")
    settings = SceneSettings(
        name, size, length, seed, noise, channels, shake, sway, lamps, walkers, shadows, empty_start
    )
    return Scene(settings, _STAGES[name](settings))
