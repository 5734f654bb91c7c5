"""Scenes by name."""

from __future__ import annotations

import math

from bgsub.errors import ParameterError
from bgsub.synthetic._scene import Scene, Stage

SCENES = ("lobby", "street")


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

    The mask codes are those of changedetection.net: 0 background, 50 shadow, 170 the antialiased edge of
    an object (not scored), 255 moving. A shadow that takes less than 5 % of the light counts as background,
    and so does a swaying plant.

    Parameters
    ----------
    name : {"lobby", "street"}
        A room whose lamps switch, or a road under passing clouds.
    size : (int, int)
        Width and height in pixels, at least 16.
    length : int
        Number of frames; the first frames are the same for every length.
    seed : int
        Seed of colours, people, lamps, wind and noise.
    noise : float
        Standard deviation of the sensor noise in grey levels, at middle grey.
    channels : {1, 3}
        Grey or BGR.
    shake : float
        Translation of the camera in pixels, root mean square of each direction.
    sway : float
        How far plants and trees move in the wind, in pixels.
    lamps : bool
        Whether the light changes: lamps switch within one frame (lobby), clouds pass slowly (street).
    walkers : int
        Number of movers' timetables; on the street every other mover is a car.
    shadows : bool
        Whether movers cast shadows on the ground.
    empty_start : int
        Number of frames before anybody may enter.

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
    >>> lobby = scene("lobby", length=50)
    >>> frame, mask = lobby[30]
    >>> frame.shape, mask.shape
    ((128, 160, 3), (128, 160))
    """
    if name not in SCENES:
        raise ParameterError(f"scene must be one of {', '.join(SCENES)}, got {name!r}")
    if len(size) != 2 or min(size) < 16:
        raise ParameterError(f"size must be (width, height), each at least 16, got {size!r}")
    if channels not in (1, 3):
        raise ParameterError(f"channels must be 1 or 3, got {channels!r}")
    for what, number in (("seed", seed), ("walkers", walkers), ("empty_start", empty_start)):
        if number < 0:
            raise ParameterError(f"{what} must be 0 or more, got {number!r}")
    for what, amount in (("noise", noise), ("shake", shake), ("sway", sway)):
        if not 0 <= amount < math.inf:
            raise ParameterError(f"{what} must be a finite number, 0 or more, got {amount!r}")
    if length < 1:
        raise ParameterError(f"length must be at least 1, got {length!r}")
    margin = math.ceil(2.5 * shake) + 1 if shake else 0
    stage = _stage(name, (size[0] + 2 * margin, size[1] + 2 * margin), seed, walkers, sway)
    return Scene(
        name, stage, size=(size[0], size[1]), length=length, seed=seed, noise=noise, channels=channels,
        shake=shake, sway=sway, lamps=lamps, shadows=shadows, empty_start=empty_start,
    )  # fmt: skip


def _stage(name: str, size: tuple[int, int], seed: int, walkers: int, sway: float) -> Stage:
    """Build the place of a scene on a picture that leaves room for the shaking camera."""
    if name == "lobby":
        from bgsub.synthetic._lobby import Lobby  # noqa: PLC0415 - build what is asked for

        return Lobby(size, seed, walkers, sway)
    from bgsub.synthetic._street import Street  # noqa: PLC0415

    return Street(size, seed, walkers, sway)
