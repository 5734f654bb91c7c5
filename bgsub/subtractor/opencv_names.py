"""OpenCV's parameter names, so that scripts only change their constructor.

`OPENCV_NAMES` is the single table of conversions, which the documentation includes. Values are converted such that
OpenCV's default is the default here; names without an equivalent raise an error that names the nearest parameter.
"""

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from bgsub.errors import ParameterError
from bgsub.parameters import SUBTRACTOR, SubtractorArguments, check_names, in_british, table_of

_POSITIONAL = ("history", "varThreshold", "detectShadows")  # in MOG2's order
_OF_KNN = 200  # second positional arguments from here on are meant for KNN (default 400), not MOG2 (16)
_SHADOW_VALUES = {127: "on", 0: "off"}


class NoEquivalentError(ParameterError, AttributeError):
    """A name of OpenCV without an equivalent; `hasattr` is false, and the message names the nearest parameter."""


@dataclass(frozen=True)
class OpenCVName:
    """One parameter of OpenCV's subtractors and its meaning here."""

    name: str  # the constructor's argument; capitalised after ``set`` and ``get``
    of: tuple[str, ...]  # the subtractors that have it, such as "MOG2"
    ours: tuple[str, ...]  # the parameters of `BackgroundSubtractor` that it sets, or the nearest ones
    text: str  # the conversion, or the reason why there is none
    default: int | float | bool | None = None  # OpenCV's default, which maps to ours; None without an equivalent
    power: float = 1.0  # our value is our default times ``(value / default) ** power``

    def to_ours(self, value: Any) -> dict[str, Any]:
        """Return our parameters for a checked value of OpenCV's."""
        if isinstance(value, bool) or self.default is None:
            return dict.fromkeys(self.ours, value)
        factor = (value / self.default) ** self.power
        return {name: SUBTRACTOR[name].default * factor for name in self.ours}

    def from_ours(self, parameters: Mapping[str, Any]) -> float:
        """Return OpenCV's value for our parameters, by the first one that it sets."""
        assert self.default is not None
        ratio = parameters[self.ours[0]] / SUBTRACTOR[self.ours[0]].default
        return float(f"{self.default * ratio ** (1 / self.power):.12g}")  # rounds to what was set

    def refuse(self, called: str) -> NoReturn:
        """Raise the error of a name without an equivalent."""
        nearest = f"; the nearest is BackgroundSubtractor({', '.join(f'{name}=...' for name in self.ours)})"
        raise NoEquivalentError(f"{called} has no equivalent here: {self.text}{nearest if self.ours else ''}")


_MOG2, _KNN, _BOTH = ("MOG2",), ("KNN",), ("MOG2", "KNN")
_MOG, _GMG, _CNT, _GSOC = ("MOG",), ("GMG",), ("CNT",), ("GSOC",)
_LEARNED = "the noise of each pixel is learned, without limits"
_SAMPLES = "the background is a subspace, not samples"
_SHADED = "how dark shadows may be is learned, down to a tenth of the light"

#: The parameters of OpenCV's subtractors: first the converted ones, then those without an equivalent.
OPENCV_NAMES = (
    OpenCVName("history", _BOTH, ("absorb_after",), "time until a standing object becomes background", 500),
    OpenCVName("varThreshold", _MOG2, ("noise_factor",), "its square root counts in standard deviations", 16.0, 0.5),
    OpenCVName("dist2Threshold", _KNN, ("threshold",), "its square root is a distance of colours", 400.0, 0.5),
    OpenCVName("detectShadows", _BOTH, ("shadows",), "true labels shadows 127, false makes them foreground", True),
    OpenCVName("shadowValue", _BOTH, ("shadows",), "127 is 'on', 0 is 'off'; shadows have no other label", 127),
    OpenCVName("shadowThreshold", _BOTH, ("shadows",), _SHADED),
    OpenCVName("nMixtures", _MOG2, ("rank",), "the background is a subspace, not a mixture"),
    OpenCVName("backgroundRatio", (*_MOG2, *_MOG), ("absorb_after",), "the limit for standing objects is in seconds"),
    OpenCVName("complexityReductionThreshold", _MOG2, ("rank",), "there are no components to drop"),
    OpenCVName("varInit", _MOG2, ("threshold",), _LEARNED),
    OpenCVName("varMin", _MOG2, ("threshold",), _LEARNED),
    OpenCVName("varMax", _MOG2, ("noise_factor",), _LEARNED),
    OpenCVName("varThresholdGen", _MOG2, ("rank",), "there are no components"),
    OpenCVName("nSamples", (*_KNN, *_GSOC), ("rank",), _SAMPLES),
    OpenCVName("kNNSamples", _KNN, ("threshold",), _SAMPLES),
    OpenCVName("nmixtures", _MOG, ("rank",), "the background is a subspace, not a mixture"),
    OpenCVName("noiseSigma", _MOG, ("noise_factor",), "the noise of each pixel is learned"),
    OpenCVName("initializationFrames", _GMG, ("start_frames",), "the first frames have masks, too"),
    OpenCVName("decisionThreshold", _GMG, ("threshold",), "no probability decides; see process(frame).probability"),
    OpenCVName("minPixelStability", _CNT, ("absorb_after",), "the limit for standing objects is in seconds"),
    OpenCVName("maxPixelStability", _CNT, ("absorb_after",), "the limit for standing objects is in seconds"),
    OpenCVName("useHistory", _CNT, (), "the subspace keeps the long-term background anyway"),
    OpenCVName("isParallel", _CNT, ("threads",), "use the number of threads"),
    OpenCVName("mc", _GSOC, ("stabilise",), "small camera movements are compensated"),
    OpenCVName("replaceRate", _GSOC, ("forgetting",), _SAMPLES),
    OpenCVName("propagationRate", _GSOC, ("ghosts",), _SAMPLES),
    OpenCVName("hitsThreshold", _GSOC, ("absorb_after",), _SAMPLES),
    OpenCVName("alpha", _GSOC, ("noise_factor",), "the noise of each pixel is learned"),
    OpenCVName("beta", _GSOC, ("threshold",), "the noise of each pixel is learned"),
    OpenCVName("blinkingSupressionDecay", _GSOC, ("neighbours",), "a moving background is learned"),
    OpenCVName("blinkingSupressionMultiplier", _GSOC, ("neighbours",), "a moving background is learned"),
    OpenCVName("noiseRemovalThresholdFacBG", _GSOC, ("min_area",), "one minimum area serves regions and holes"),
    OpenCVName("noiseRemovalThresholdFacFG", _GSOC, ("min_area",), "one minimum area serves regions and holes"),
)

_BY_NAME = {row.name: row for row in OPENCV_NAMES}
_ARGUMENTS = {
    name: replace(parameter, default=_BY_NAME[name].default)
    for name, parameter in table_of(SubtractorArguments).items()
    if name in _BY_NAME
}


def in_our_words(positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor's arguments with those of OpenCV converted to ours; ParameterError for wrong ones."""
    named = in_british(named)
    if len(positional) > len(_POSITIONAL):
        raise ParameterError(f"only {', '.join(_POSITIONAL)} can be positional, got {len(positional)} values")
    theirs = dict(zip(_POSITIONAL, positional, strict=False))
    if isinstance(second := theirs.get("varThreshold"), (int, float)) and second >= _OF_KNN:
        raise ParameterError(
            f"the second argument is MOG2's varThreshold (16 there), got {second!r}; "
            f"write dist2Threshold={second!r} for KNN's, or varThreshold={second!r}"
        )
    ours = {name: value for name, value in named.items() if name not in _BY_NAME}
    check_names(ours, SUBTRACTOR, also=_BY_NAME)
    for name, value in [*theirs.items(), *((name, named[name]) for name in named if name in _BY_NAME)]:
        if value is None:
            continue
        for parameter, converted in _converted(name, value).items():
            if parameter in ours:
                raise ParameterError(f"{name} sets {parameter}, which is given as well; use one of them")
            ours[parameter] = converted
    return ours


def _converted(name: str, value: Any) -> dict[str, Any]:
    row = _BY_NAME[name]
    if name not in _ARGUMENTS:
        row.refuse(name)
    if _ARGUMENTS[name].kind is bool and isinstance(value, (numbers.Integral, np.bool_)):
        value = bool(value)  # OpenCV accepts 0 and 1
    return row.to_ours(_ARGUMENTS[name].check(name, value))


def checked_rate(learningRate: float) -> float:
    """Return the learning rate of a frame; ParameterError if it is invalid."""
    rate = learningRate
    is_number = type(rate) is float or type(rate) is int or isinstance(rate, numbers.Real)  # the last one is slow
    if not is_number or math.isnan(rate) or rate > 1:
        came = f"an array of shape {rate.shape}" if isinstance(rate, np.ndarray) else repr(rate)
        raise ParameterError(f"learningRate must be a number in [0, 1] or negative for the default, got {came}")
    return float(rate)


class OpenCVNames:
    """The setters and getters of MOG2 and KNN, in terms of our parameters; `BackgroundSubtractor` has the methods."""

    get_params: Callable[[], dict[str, Any]]
    tune: Callable[..., None]

    def setHistory(self, history: int) -> None:
        """Set `absorb_after` as the constructor argument `history` does."""
        self.tune(**_converted("history", history))

    def getHistory(self) -> int:
        """Return the `history` that corresponds to `absorb_after`, 500 at the default."""
        return round(min(_BY_NAME["history"].from_ours(self.get_params()), _ARGUMENTS["history"].high))

    def setVarThreshold(self, varThreshold: float) -> None:
        """Set `noise_factor` as the constructor argument `varThreshold` does."""
        self.tune(**_converted("varThreshold", varThreshold))

    def getVarThreshold(self) -> float:
        """Return the `varThreshold` that corresponds to `noise_factor`, 16 at the default."""
        return _BY_NAME["varThreshold"].from_ours(self.get_params())

    def setDist2Threshold(self, dist2Threshold: float) -> None:
        """Set `threshold` as the constructor argument `dist2Threshold` does."""
        self.tune(**_converted("dist2Threshold", dist2Threshold))

    def getDist2Threshold(self) -> float:
        """Return the `dist2Threshold` that corresponds to `threshold`, 400 at the default."""
        return _BY_NAME["dist2Threshold"].from_ours(self.get_params())

    def setDetectShadows(self, detectShadows: bool) -> None:
        """Set `shadows` to "merged" for False; for True to "on", unless it is "off"."""
        changed = _converted("detectShadows", detectShadows)
        if changed["shadows"] != self.getDetectShadows():
            self.tune(**changed)

    def getDetectShadows(self) -> bool:
        """Return whether shadows are detected."""
        return bool(self.get_params()["shadows"] != "merged")

    def setShadowValue(self, value: int) -> None:
        """Set `shadows` to "on" for 127 and "off" for 0; no change if shadows are not detected, as in OpenCV."""
        if not isinstance(value, numbers.Integral) or value not in _SHADOW_VALUES:
            raise ParameterError(f"shadowValue must be 127 or 0 (the label of the background), got {value!r}")
        if self.getDetectShadows():
            self.tune(shadows=_SHADOW_VALUES[value])

    def getShadowValue(self) -> int:
        """Return the label of detected shadows: 127, or 0 for that of the background."""
        return 0 if self.get_params()["shadows"] == "off" else 127

    def getDefaultName(self) -> str:
        """Return the name of the method."""
        return "BackgroundSubtractor_bgsub"

    if not TYPE_CHECKING:  # else type checkers would accept any name

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AttributeError; for a name of OpenCV, the message says what is nearest here."""
            end = name[3:] if name[:3] in ("set", "get") else ""
            row = _BY_NAME.get(end) or _BY_NAME.get(end[:1].lower() + end[1:])
            if row is not None:
                row.refuse(name)
            if name in ("read", "write"):
                raise NoEquivalentError(
                    f"{name} has no equivalent here: save(path) and BackgroundSubtractor.load(path)"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
