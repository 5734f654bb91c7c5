"""The table of conditions."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.evaluation.conditions import _camera, _light, _objects, _sensor
from bgsub.evaluation.conditions._derived import Derived
from bgsub.evaluation.conditions._moment import Transform
from bgsub.evaluation.sequences import Labelled, SceneSequence
from bgsub.synthetic.scenes import scene


@dataclass(frozen=True)
class Condition:
    """One way to change a labelled sequence."""

    description: str  # one line for the help
    transform: Transform  # what is done to the stream of moments
    every: int = 1  # keep every so manieth frame only


CONDITIONS = {
    "unchanged": Condition("as it is", iter),
    "gain": Condition("gain x1.3 and back", _light.gain_step(1.3)),
    "dim": Condition("gain x0.6 and back", _light.gain_step(0.6)),
    "offset": Condition("40 grey levels up and back", _light.offset_step(40)),
    "gamma": Condition("gamma 0.7 and back", _light.gamma_step(0.7)),
    "ramp": Condition("gain follows a sine of 10 s, x0.75 to x1.25", _light.ramp(0.25)),
    "lamp": Condition("a warm lamp over the left half on and off", _light.lamp((1.1, 1.3, 1.5))),
    "shake1": Condition("camera shake of 1 pixel rms", _camera.shake(1)),
    "shake2": Condition("camera shake of 2 pixels rms", _camera.shake(2)),
    "shake4": Condition("camera shake of 4 pixels rms", _camera.shake(4)),
    "rotation": Condition("camera shake of 2 pixels and 0.3 degrees rms", _camera.shake(2, 0.3)),
    "noise": Condition("sensor noise of 10 grey levels", _sensor.noise(10)),
    "lowlight": Condition("darkened x0.3, noise of 5 grey levels", _sensor.noise(5, 0.3)),
    "jpeg": Condition("JPEG of quality 20", _sensor.jpeg(20)),
    "frozen": Condition("an object stops for 200 frames, then is gone", _objects.frozen(200)),
    "half": Condition("half the resolution", _sensor.half_size()),
    "grey": Condition("without colour", _sensor.grey()),
    "grey16": Condition("without colour, 16 bits", _sensor.grey(is_deep=True)),
    "15fps": Condition("every second frame only", iter, every=2),
    "3fps": Condition("every 10th frame only", iter, every=10),
    "1fps": Condition("every 25th frame only", iter, every=25),
    "black": Condition("one black frame in 100, not scored", _camera.black_frames()),
    "covered": Condition("lens covered for 1 s in 12, not scored", _camera.covered()),
}
"""Conditions by name: what `derive` makes of any labelled sequence."""

SCENES: dict[str, tuple[str, dict[str, Any]]] = {
    "lobby": ("lobby", {"lamps": False, "shadows": False}),
    "lobby lamps": ("lobby", {"lamps": True, "shadows": False}),
    "lobby shadows": ("lobby", {"lamps": False, "shadows": True}),
    "lobby crowd": ("lobby", {"lamps": False, "walkers": 8, "empty_start": 0}),
    "lobby empty": ("lobby", {"lamps": False, "walkers": 0}),
    "lobby empty lamps": ("lobby", {"lamps": True, "walkers": 0}),
    "street sway2": ("street", {"lamps": False, "sway": 2.0}),
    "street clouds": ("street", {"lamps": True}),
    "street shake1": ("street", {"lamps": False, "shake": 1.0}),
    "street shake3": ("street", {"lamps": False, "shake": 3.0}),
    "street empty": ("street", {"lamps": True, "walkers": 0, "sway": 2.0}),
}
"""Synthetic scenes by name: the scene of `bgsub.synthetic` and its options."""


def derive(sequence: Labelled, name: str, seed: int = 0) -> Derived:
    """Derive a labelled sequence under a condition, with exact masks.

    Parameters
    ----------
    sequence : Labelled
        The original.
    name : str
        A name of `CONDITIONS`.
    seed : int, default 0
        Seed of everything random; the same seed gives the same frames.

    Returns
    -------
    Derived
        The derived sequence; its frames are made while they are read.

    Raises
    ------
    ParameterError
        If there is no such condition or the seed is negative.

    Examples
    --------
    >>> from bgsub.evaluation import Sequence, evaluate
    >>> from bgsub.evaluation.conditions import derive
    >>> evaluate(derive(Sequence("sequence"), "shake2"), "mog2").sequence
    'sequence shake2'
    """
    if name not in CONDITIONS:
        raise ParameterError(f"condition must be one of {', '.join(CONDITIONS)}, got {name!r}")
    condition = CONDITIONS[name]
    return Derived(sequence, f"{sequence.name} {name}", condition.transform, seed=seed, every=condition.every)


def transplant(sequence: Labelled, background: Ordered[np.ndarray], name: str = "transplant") -> Derived:
    """Put the moving objects of a labelled sequence in front of frames of a place where nobody is.

    Parameters
    ----------
    sequence : Labelled
        Where the objects come from.
    background : sequence of ndarray, (h, w, 3) BGR or (h, w), uint8 or uint16
        Frames without objects, run forwards and backwards as long as needed.
    name : str
        What follows the name of the sequence in the name of the result.

    Returns
    -------
    Derived
        The derived sequence; its frames are made while they are read.

    Raises
    ------
    ParameterError
        If there is no frame.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub.evaluation import Sequence
    >>> from bgsub.evaluation.conditions import transplant
    >>> moved = transplant(Sequence("sequence"), [np.zeros((96, 128, 3), np.uint8)])
    >>> next(iter(moved.frames()))[1].shape
    (96, 128, 3)
    """
    return Derived(sequence, f"{sequence.name} {name}", _objects.transplant(background))


def synthetic(name: str, length: int = 500, seed: int = 0) -> SceneSequence:
    """Return a synthetic scene of 160x128 as a labelled sequence.

    Parameters
    ----------
    name : str
        A name of `SCENES`.
    length : int, default 500
        Number of frames.
    seed : int, default 0
        Another seed, another scene.

    Returns
    -------
    SceneSequence
        Every frame is scored.

    Raises
    ------
    ParameterError
        If `name` is no name of `SCENES`.

    Examples
    --------
    >>> from bgsub.evaluation import evaluate
    >>> from bgsub.evaluation.conditions import synthetic
    >>> evaluate(synthetic("street clouds", length=10), "mog2").frames
    10
    """
    if name not in SCENES:
        raise ParameterError(f"scene must be one of {', '.join(SCENES)}, got {name!r}")
    place, options = SCENES[name]
    sequence = SceneSequence(scene(place, length=length, seed=seed, **options))
    sequence.name = name
    return sequence
