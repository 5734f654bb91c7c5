"""The parameters of the method: type, default, allowed range, unit, the paper's symbol, help.

The constructors, the command line, saved models and the documentation read these classes. The values are checked in
the constructor and frozen.
"""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cache
from inspect import Signature, signature
from types import NoneType, UnionType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from bgsub.errors import ParameterError, did_you_mean

SurrogateName = Literal["lp", "log", "atan"]
Metric = Literal["scaled", "canonical"]
LineSearch = Literal["objective", "sample"]
GradientCarry = Literal["model", "unchanged"]
Auto = Literal["auto"]

P = ParamSpec("P")
T = TypeVar("T", bound="_Parameters")
_LONGEST_START, _LEAST_START = 20.0, 20  # seconds of the batch start at most, but at least so many frames
_SMOOTHINGS = 1e-12, 1e12  # range of mu: its square, and those of vectors divided by it, fit into float32
SPELLINGS = {"neighbors": "neighbours", "stabilize": "stabilise"}  # American spellings of parameters
EXPONENTS = 0.001, 0.999  # range of p; the cost of lp is divided by it


@dataclass(frozen=True)
class Parameter:
    """One parameter and its allowed values."""

    default: Any  # None: derived from other values, see `help`
    help: str  # one line for the command line and the documentation
    kind: type = float  # int, float, str or bool
    low: float = -math.inf  # range of a number ...
    high: float = math.inf
    is_open: bool = False  # ... without its ends
    may_be_infinite: bool = False
    choices: tuple[str, ...] = ()  # allowed words; of a number, besides its range
    symbol: str = ""  # name in the paper
    live: bool = False  # whether `BackgroundSubtractor.tune` may change it
    of_bool: tuple[str, ...] = ()  # the two choices that False and True stand for

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        if self.choices and self.kind is str:
            return f"one of {', '.join(self.choices)}{', or true or false' if self.of_bool else ''}"
        if self.kind is bool:
            return "true or false"
        noun = "an integer" if self.kind is int else "a number"
        if math.isinf(self.high):
            words = f"{noun} {'>' if self.is_open else '>='} {self.low:g}"
        else:
            left, right = ("(", ")") if self.is_open else ("[", "]")
            words = f"{noun} in {left}{self.low:g}, {self.high:g}{right}"
        return " or ".join([words, *self.choices, *(["None"] if self.default is None else [])])

    def check(self, name: str, value: Any) -> Any:
        """Return `value` in the type of the parameter, or raise ParameterError."""
        if self.of_bool and isinstance(value, bool):
            return self.of_bool[value]
        if (value is None and self.default is None) or (isinstance(value, str) and value in self.choices):
            return value
        good = {
            int: isinstance(value, numbers.Integral) and not isinstance(value, bool),
            float: isinstance(value, numbers.Real) and not isinstance(value, bool),
            bool: isinstance(value, bool),
            str: isinstance(value, str),
        }[self.kind]
        if good and self.kind in (int, float):
            inside = self.low < value < self.high if self.is_open else self.low <= value <= self.high
            is_finite = self.kind is int or math.isfinite(value)
            good = inside and (is_finite or (self.may_be_infinite and value > 0))
        if not good or (self.choices and self.kind is str):
            raise ParameterError(f"{name} must be {self.allowed}, got {value!r}")
        return self.kind(value)


@dataclass(frozen=True, kw_only=True)
class _Parameters:
    """Frozen values that are checked in the constructor."""

    def __post_init__(self) -> None:
        for name, parameter in table_of(type(self)).items():
            object.__setattr__(self, name, parameter.check(name, getattr(self, name)))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return parameters with some values; ParameterError for an unknown name or a value out of range."""
        check_names(values, table_of(cls))
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """Return the values by name."""
        return {name: getattr(self, name) for name in table_of(type(self))}


def _parameter(default: Any, text: str, *bounds: float, symbol: str = "", **more: Any) -> Any:
    """Return a dataclass field whose metadata are the attributes of its `Parameter`; `bounds`: low, high."""
    limits = dict(zip(("low", "high"), bounds, strict=False))
    return field(default=default, metadata={"help": text, "symbol": symbol, **limits, **more})


def table_of(cls: Any) -> dict[str, Parameter]:
    """Return the parameters of a class by name."""
    return _table_of(cls)  # not cached itself: mypy rejects a dataclass as an argument of a cached function


@cache
def _table_of(cls: Any) -> dict[str, Parameter]:
    hints, table = get_type_hints(cls), {}
    for entry in fields(cls):
        hint = hints[entry.name]
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        kinds = [part for part in parts if isinstance(part, type) and part is not NoneType]
        words = tuple(word for part in parts for word in get_args(part))
        kind = str if "of_bool" in entry.metadata else (*kinds, str)[0]
        table[entry.name] = Parameter(entry.default, kind=kind, choices=words, **entry.metadata)
    return table


@dataclass(frozen=True, kw_only=True)
class SubspaceParameters(_Parameters):
    """The parameters of trackers of vectors and of videos."""

    rank: int | Auto = _parameter(3, "dimension of the background subspace", 1, symbol="k")
    surrogate: SurrogateName = _parameter("atan", "l0-surrogate cost", symbol="h")
    mu: float | None = _parameter(
        None, "smoothing of the cost; by default it flattens at 0.03 of full scale", *_SMOOTHINGS, symbol="mu"
    )
    p: float = _parameter(0.5, "exponent of the surrogate lp", *EXPONENTS, symbol="p")
    forgetting: float | Auto = _parameter(0.05, "weight of the newest frame", 0, 1, is_open=True, symbol="w")
    metric: Metric = _parameter("scaled", "step direction: scaled by the moment of the coefficients or not")
    line_search: LineSearch = _parameter(
        "objective", "step length on the whole objective or, as algorithm 6 prints it, on the newest sample"
    )
    gradient_carry: GradientCarry = _parameter(
        "model", "carry the gradient to the new point by its second-order model or unchanged"
    )
    subset: int = _parameter(1000, "entries used for the coefficients", 1)
    random_state: int = _parameter(0, "seed of the pixel subset", 0)


@dataclass(frozen=True, kw_only=True)
class TrackerParameters(SubspaceParameters):
    """Parameters of `SubspaceTracker`."""

    mu: float | None = _parameter(
        None,
        "smoothing of the cost; by default in proportion to a separate scale of each entry",
        *_SMOOTHINGS,
        symbol="mu",
    )
    forgetting: float | Auto = _parameter("auto", "weight of the newest vector", 0, 1, is_open=True, symbol="w")
    subset: int = _parameter(4000, "entries used for the coefficients", 1)
    max_rank: int = _parameter(10, "the largest rank that rank='auto' may find", 1)


@dataclass(frozen=True, kw_only=True)
class SegmenterParameters(_Parameters):
    """Parameters of the segmentation."""

    threshold: float = _parameter(
        0.08,
        "minimum colour difference of a foreground pixel (1 is full scale). It is multiplied by 0.8 in coloured scenes "
        "and by 0.58 for grey frames (to half a level of 255); it is higher in bright, lower in dark and pale scenes",
        1e-6,
        2,
        live=True,
    )
    noise_factor: float = _parameter(
        2.0, "further threshold of a pixel, in units of its learned noise", 0, 100, live=True
    )
    median: int = _parameter(5, "side of the majority filter in pixels; 1 disables it", 1, 31, live=True)
    neighbours: int = _parameter(
        1, "radius in pixels in which a moving background is recognised; 0 disables it and its memory", 0, 5, live=True
    )
    shadows: Literal["on", "off", "merged"] | bool = _parameter(
        "on",
        "label of cast shadows: 127 (on or true), that of the background (off) or the foreground (merged or false)",
        live=True,
        of_bool=("merged", "on"),
    )
    min_area: float = _parameter(0.0002, "minimum area of a foreground region as a share of the frame", 0, 1, live=True)


@dataclass(frozen=True, kw_only=True)
class SubtractorParameters(SegmenterParameters, SubspaceParameters):
    """Parameters of `BackgroundSubtractor`."""

    rank: int = _parameter(3, "dimension of the background subspace", 1, symbol="k")
    forgetting: float = _parameter(0.03, "weight of the newest frame", 0, 1, is_open=True, symbol="w", live=True)
    start_frames: int = _parameter(50, "frames of the first fit; fewer if they last longer than 20 s", 1, 1000)
    fps: float = _parameter(25.0, "frames per second of the stream, for parameters in seconds", 0, 10000, is_open=True)
    stabilise: bool = _parameter(True, "compensate small movements of the camera")
    light: bool = _parameter(True, "compensate changes of the light", live=True)
    scene_changes: bool = _parameter(True, "detect a covered lens and a cut to another scene", live=True)
    ghosts: bool = _parameter(True, "remove false foreground where an object has left", live=True)
    absorb_after: float = _parameter(
        60.0, "seconds until a standing object becomes background; inf for never", 0, may_be_infinite=True, live=True
    )
    scale: float | Literal["auto", "fast"] = _parameter(
        "auto",
        "reduce frames by this factor for processing; masks keep full size. auto is .5 at 320x240, .25 at 1920x1080; "
        "fast is three quarters of auto",
        0.05,
        1,
    )
    threads: int | None = _parameter(None, "number of threads; by default all cores, for large frames", 1, 256)
    device: Literal["cpu", "cuda"] = _parameter(
        "cpu", "processor for the pass over the model; cuda pays off only at scale 1"
    )
    max_value: float | None = _parameter(
        None,
        "full scale of the frames; by default 255 for uint8, 65535 for uint16, 1 for floating point",
        1e-300,
        1e300,
    )
    on_change: Literal["error", "restart"] = _parameter(
        "error", "response to a frame of another size or type: an error or a new model"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.device != "cpu" and self.surrogate != "atan":
            raise ParameterError(f"device {self.device!r} needs the surrogate 'atan', got {self.surrogate!r}")
        if self.rank > self.start_frames:
            raise ParameterError(f"rank must be at most start_frames, here {self.start_frames}, got {self.rank}")

    @property
    def start_length(self) -> int:
        """Frames of the batch start: `start_frames`, or fewer if they last longer than 20 s, but at least 20."""
        # a longer start would learn people who stand still as background
        return min(self.start_frames, max(round(_LONGEST_START * self.fps), _LEAST_START, self.rank))

    def part(self, cls: type[T]) -> T:
        """Return those of these parameters that `cls` has, such as `SegmenterParameters`."""
        return cls(**{name: getattr(self, name) for name in table_of(cls)})

    def tracker(self, size: int) -> TrackerParameters:
        """Return the parameters of the tracker for frames of `size` entries; the rank is at most that."""
        return TrackerParameters(**{**self.part(SubspaceParameters).as_dict(), "rank": min(self.rank, size)})


@dataclass(frozen=True)
class SubtractorArguments(SubtractorParameters):
    """Parameters of the constructor of `BackgroundSubtractor`, OpenCV's names included."""

    history: int | None = _parameter(None, "OpenCV's for absorb_after", 1, 10**9)
    varThreshold: float | None = _parameter(None, "OpenCV's for noise_factor", 1e-6, 25600)
    detectShadows: bool | None = _parameter(None, "OpenCV's for shadows")
    _: KW_ONLY
    dist2Threshold: float | None = _parameter(None, "OpenCV's for threshold", 1e-6, 250000)
    neighbors: int | None = _parameter(None, "American spelling of neighbours", 0, 5)
    stabilize: bool | None = _parameter(None, "American spelling of stabilise")


SUBTRACTOR = table_of(SubtractorParameters)
#: Arguments of OpenCV's subtractors, each with a setter.
OPENCV = table_of(SubtractorArguments).keys() - SUBTRACTOR.keys() - SPELLINGS.keys()


def in_british(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with American spellings replaced by ours; ParameterError if one has both spellings."""
    american = {name: value for name, value in values.items() if name in SPELLINGS and value is not None}
    for name in american:
        if SPELLINGS[name] in values:
            raise ParameterError(f"{name} and {SPELLINGS[name]} are the same parameter; use one of them")
    others = {name: value for name, value in values.items() if name not in SPELLINGS}
    return {**others, **{SPELLINGS[name]: value for name, value in american.items()}}


def check_names(names: Iterable[str], table: Mapping[str, Parameter], also: Iterable[str] = ()) -> None:
    """Raise ParameterError for a name that is not in `table`, with the most similar name in it or `also`."""
    for name in names:
        if name not in table:
            near = did_you_mean(name, (*table, *also))
            raise ParameterError(f"unknown parameter {name!r}; allowed are {', '.join(table)}{near}")


def check_live(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked parameters for `BackgroundSubtractor.tune`; ParameterError for fixed, unknown or bad ones."""
    values = in_british(values)
    allowed = [name for name, parameter in SUBTRACTOR.items() if parameter.live]
    for name in values:
        if name in OPENCV:
            setter = f"set{name[:1].upper()}{name[1:]}"
            raise ParameterError(f"{name} is OpenCV's name: {setter}() changes it while the subtractor runs")
        if name not in allowed:
            what = f"{name} cannot" if name in SUBTRACTOR else f"an unknown parameter {name!r} cannot"
            near = "" if name in SUBTRACTOR else did_you_mean(name, allowed)
            raise ParameterError(f"{what} change while the subtractor runs; allowed are {', '.join(allowed)}{near}")
    return {name: SUBTRACTOR[name].check(name, value) for name, value in values.items()}


def takes(source: Callable[P, object]) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Return a decorator: `source`, a class of parameters, is the signature of a constructor with ``**parameters``."""

    def decorate(constructor: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        own = next(iter(signature(constructor).parameters.values()))
        constructor.__signature__ = Signature([own, *signature(source).parameters.values()])  # type: ignore[attr-defined]
        return constructor

    return decorate
