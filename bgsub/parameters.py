"""Every method parameter in one table: default, allowed range, unit, the paper's symbol, help.

The classes, the command line, saved models and the documentation all read this table; values are checked here, once.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

from bgsub.errors import ParameterError


@dataclass(frozen=True)
class Parameter:
    """One parameter: what it is for and which values it takes.

    Attributes
    ----------
    default : int, float, str, bool or None
        Value when nothing is given; None means "derived", as `help` says.
    help : str
        One line for the command line and the documentation.
    kind : type
        int, float, str or bool.
    low, high : float
        Range; the ends belong to it unless `is_open`.
    is_open : bool
        Whether the ends are excluded.
    may_be_infinite : bool
        Whether "inf" is a value.
    choices : tuple of str
        Allowed words.
    symbol : str
        Name in the paper, if it has one.
    live : bool
        Whether it may change while the subtractor runs; see `BackgroundSubtractor.tune`.
    """

    default: Any
    help: str
    kind: type = float
    low: float = -math.inf
    high: float = math.inf
    is_open: bool = False
    may_be_infinite: bool = False
    choices: tuple[str, ...] = ()
    symbol: str = ""
    live: bool = False

    @property
    def allowed(self) -> str:
        """The allowed values in words, for messages and help."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is bool:
            return "true or false"
        noun = "an integer" if self.kind is int else "a number"
        if math.isinf(self.high):
            words = f"{noun} {'>' if self.is_open else '>='} {self.low:g}"
        else:
            left, right = ("(", ")") if self.is_open else ("[", "]")
            words = f"{noun} in {left}{self.low:g}, {self.high:g}{right}"
        return f"{words} or None" if self.default is None else words

    def check(self, name: str, value: Any) -> Any:
        """Return `value` in the parameter's own type, or raise ParameterError with `name`, range and value."""
        if value is None and self.default is None:
            return None
        good = {
            int: isinstance(value, numbers.Integral) and not isinstance(value, bool),
            float: isinstance(value, numbers.Real) and not isinstance(value, bool),
            bool: isinstance(value, bool),
            str: isinstance(value, str),
        }[self.kind]
        if good and self.kind in (int, float):
            inside = self.low < value < self.high if self.is_open else self.low <= value <= self.high
            good = inside and (math.isfinite(value) or (self.may_be_infinite and value > 0))
        elif good and self.choices:
            good = value in self.choices
        if not good:
            raise ParameterError(f"{name} must be {self.allowed}, got {value!r}")
        return self.kind(value)


TRACKER = {
    "rank": Parameter(3, "dimension of the background subspace", int, 1, symbol="k"),
    "surrogate": Parameter("atan", "l0-surrogate cost", str, choices=("lp", "log", "atan"), symbol="h"),
    "mu": Parameter(
        None,
        "smoothing of the cost; by default it flattens at an intensity of 0.06 of full scale",
        float,
        0,
        is_open=True,
        symbol="mu",
    ),
    "p": Parameter(0.5, "exponent of the surrogate lp", float, 0, 1, is_open=True, symbol="p"),
    "forgetting": Parameter(0.05, "weight of the newest frame", float, 0, 1, is_open=True, symbol="w", live=True),
    "metric": Parameter(
        "scaled",
        "step direction: scaled by the coefficients' moment or not",
        str,
        choices=("scaled", "canonical"),
    ),
    "line_search": Parameter(
        "objective",
        "step length on the whole objective or, as algorithm 6 prints it, on the newest sample",
        str,
        choices=("objective", "sample"),
    ),
    "gradient_carry": Parameter(
        "model",
        "carry the gradient to the new point by its second-order model or unchanged",
        str,
        choices=("model", "unchanged"),
    ),
    "subset": Parameter(4000, "pixels used for the coefficients", int, 1),
    "random_state": Parameter(0, "seed of the pixel subset", int, 0),
}

SEGMENTER = {
    "threshold": Parameter(
        0.08, "least residual of a foreground pixel, full scale is 1", float, 0, 2, is_open=True, live=True
    ),
    "noise_factor": Parameter(2.5, "threshold of a pixel in units of its own noise scale", float, 0, 100, live=True),
    "median": Parameter(5, "side of the majority vote in pixels; 1 switches it off", int, 1, 31, live=True),
    "neighbours": Parameter(
        1, "reach in pixels within which a moving background is recognised; 0 switches it off", int, 0, 5, live=True
    ),
    "shadows": Parameter(
        "on",
        "label of cast shadows: 127 (on), that of the background (off) or that of the foreground (merged)",
        str,
        choices=("on", "off", "merged"),
        live=True,
    ),
    "min_area": Parameter(0.0002, "least area of a foreground region as a share of the frame", float, 0, 1, live=True),
}

SUBTRACTOR = {
    **TRACKER,
    **SEGMENTER,
    "start_frames": Parameter(50, "frames of the batch start", int, 1, 1000),
    "fps": Parameter(25.0, "frames per second of the stream, for all that is set in seconds", float, 0, 10000, True),
    "stabilise": Parameter(True, "undo small movements of the camera", bool),
    "light": Parameter(True, "explain sudden changes of the light", bool, live=True),
    "events": Parameter(True, "recognise a covered lens and a cut to another scene", bool, live=True),
    "ghosts": Parameter(True, "release the places that an object has left", bool, live=True),
    "absorb_after": Parameter(
        60.0, "seconds until a standing object is background; inf for never", float, 0, may_be_infinite=True, live=True
    ),
    "scale": Parameter(1.0, "work on a frame reduced by this factor; the mask keeps its full size", float, 0.05, 1),
    "threads": Parameter(None, "threads of the kernels; by default all cores, for large frames", int, 1, 256),
    "max_value": Parameter(
        None,
        "full scale of the frames; by default 255 for uint8, 65535 for uint16, 1 for floating point",
        float,
        0,
        is_open=True,
    ),
}


def check_all(table: dict[str, Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """Return all parameters of `table`, checked; those that `values` lacks at their defaults.

    Raises
    ------
    ParameterError
        For an unknown name or a value outside its range.
    """
    for name in values:
        if name not in table:
            raise ParameterError(f"unknown parameter {name!r}; allowed are {', '.join(table)}")
    return {name: parameter.check(name, values.get(name, parameter.default)) for name, parameter in table.items()}


def check_live(values: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of the subtractor that may change while it runs, checked.

    Raises
    ------
    ParameterError
        For a name that is unknown or belongs to a parameter that is fixed, and for a value outside its range.
    """
    allowed = [name for name, parameter in SUBTRACTOR.items() if parameter.live]
    for name in values:
        if name not in allowed:
            what = f"{name} cannot" if name in SUBTRACTOR else f"an unknown parameter {name!r} cannot"
            raise ParameterError(f"{what} change while the subtractor runs; allowed are {', '.join(allowed)}")
    return {name: SUBTRACTOR[name].check(name, value) for name, value in values.items()}
