"""OpenCV's names for what is set here, so that its scripts change their constructor only.

`OPENCV_NAMES` is the one table, which the documentation shows: what has other units there is converted, and OpenCV's
default is the default here; what means nothing here is refused in one line that names what is nearest.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from bgsub.errors import ParameterError
from bgsub.parameters import SUBTRACTOR, SubtractorArguments, check_names, table_of

_WITHOUT_NAME = ("history", "varThreshold", "detectShadows")  # in MOG2's order
_OF_KNN = 200  # as large is the second argument of KNN, whose default is 400
_SHADOW_VALUES = {127: "on", 0: "off"}


class NoEquivalentError(ParameterError, AttributeError):
    """A name of OpenCV's that means nothing here, so that `hasattr` is false; the message says what is nearest."""


@dataclass(frozen=True)
class OpenCVName:
    """One parameter of OpenCV's subtractors, and what it is here.

    Attributes
    ----------
    name : str
        As the constructor has it; with a capital after ``set`` and ``get``.
    of : tuple of str
        The subtractors that have it, such as "MOG2".
    ours : tuple of str
        The parameters of `BackgroundSubtractor` that it sets, or that are nearest.
    text : str
        The conversion, or why there is none.
    default : int, float, bool or None
        OpenCV's, and of ours the default; None for what has no equivalent.
    power : float
        Each of ours is its default times ``(value / default) ** power``; a bool is taken as it is.
    """

    name: str
    of: tuple[str, ...]
    ours: tuple[str, ...]
    text: str
    default: int | float | bool | None = None
    power: float = 1.0

    def to_ours(self, value: Any) -> dict[str, Any]:
        """Return our parameters for a checked value of OpenCV's."""
        if isinstance(value, bool) or self.default is None:
            return dict.fromkeys(self.ours, value)
        factor = (value / self.default) ** self.power
        return {name: SUBTRACTOR[name].default * factor for name in self.ours}

    def from_ours(self, parameters: Mapping[str, Any]) -> float:
        """Return OpenCV's value for our parameters, by the first of those that it sets."""
        assert self.default is not None
        ratio = parameters[self.ours[0]] / SUBTRACTOR[self.ours[0]].default
        return float(f"{self.default * ratio ** (1 / self.power):.12g}")  # what was set comes back unrounded

    def refuse(self, called: str) -> NoReturn:
        """Raise the error of a name without equivalent."""
        nearest = f"; the nearest is BackgroundSubtractor({', '.join(f'{name}=...' for name in self.ours)})"
        raise NoEquivalentError(f"{called} has no equivalent here: {self.text}{nearest if self.ours else ''}")


_MOG2, _KNN, _BOTH = ("MOG2",), ("KNN",), ("MOG2", "KNN")
_MOG, _GMG, _CNT, _GSOC = ("MOG",), ("GMG",), ("CNT",), ("GSOC",)
_LEARNED = "the noise of each pixel is learned, without limits"
_SAMPLES = "the background is a subspace, not samples"

OPENCV_NAMES = (
    OpenCVName("history", _BOTH, ("absorb_after",), "how long until what stands is background", 500),
    OpenCVName("varThreshold", _MOG2, ("noise_factor",), "its square root counts in standard deviations", 16.0, 0.5),
    OpenCVName("dist2Threshold", _KNN, ("threshold",), "its square root is a distance of colours", 400.0, 0.5),
    OpenCVName("detectShadows", _BOTH, ("shadows",), "true labels shadows 127, false makes them foreground", True),
    OpenCVName("shadowValue", _BOTH, ("shadows",), "127 is 'on', 0 is 'off'; shadows have no other label", 127),
    OpenCVName(
        "shadowThreshold",
        _BOTH,
        ("shadows",),
        "shadows keep at least 0.35 of the light, or lie where objects are never lit",
    ),
    OpenCVName("nMixtures", _MOG2, ("rank",), "the background is a subspace, not a mixture"),
    OpenCVName("backgroundRatio", (*_MOG2, *_MOG), ("absorb_after",), "there are seconds for what stands"),
    OpenCVName("complexityReductionThreshold", _MOG2, ("rank",), "there are no components to be dropped"),
    OpenCVName("varInit", _MOG2, ("threshold",), _LEARNED),
    OpenCVName("varMin", _MOG2, ("threshold",), _LEARNED),
    OpenCVName("varMax", _MOG2, ("noise_factor",), _LEARNED),
    OpenCVName("varThresholdGen", _MOG2, ("rank",), "no components are made"),
    OpenCVName("nSamples", (*_KNN, *_GSOC), ("rank",), _SAMPLES),
    OpenCVName("kNNSamples", _KNN, ("threshold",), _SAMPLES),
    OpenCVName("nmixtures", _MOG, ("rank",), "the background is a subspace, not a mixture"),
    OpenCVName("noiseSigma", _MOG, ("noise_factor",), "the noise of each pixel is learned"),
    OpenCVName("initializationFrames", _GMG, ("start_frames",), "masks are good from the first frame on"),
    OpenCVName("decisionThreshold", _GMG, ("threshold",), "no probability decides; process(frame).probability is one"),
    OpenCVName("minPixelStability", _CNT, ("absorb_after",), "there are seconds for what stands"),
    OpenCVName("maxPixelStability", _CNT, ("absorb_after",), "there are seconds for what stands"),
    OpenCVName("useHistory", _CNT, (), "what was background for long is known by the subspace anyway"),
    OpenCVName("isParallel", _CNT, ("threads",), "there is a number of threads"),
    OpenCVName("mc", _GSOC, ("stabilise",), "small movements of the camera are undone anyway"),
    OpenCVName("replaceRate", _GSOC, ("forgetting",), _SAMPLES),
    OpenCVName("propagationRate", _GSOC, ("ghosts",), _SAMPLES),
    OpenCVName("hitsThreshold", _GSOC, ("absorb_after",), _SAMPLES),
    OpenCVName("alpha", _GSOC, ("noise_factor",), "the noise of each pixel is learned"),
    OpenCVName("beta", _GSOC, ("threshold",), "the noise of each pixel is learned"),
    OpenCVName("blinkingSupressionDecay", _GSOC, ("neighbours",), "a moving background is learned"),
    OpenCVName("blinkingSupressionMultiplier", _GSOC, ("neighbours",), "a moving background is learned"),
    OpenCVName("noiseRemovalThresholdFacBG", _GSOC, ("min_area",), "one least area serves regions and holes"),
    OpenCVName("noiseRemovalThresholdFacFG", _GSOC, ("min_area",), "one least area serves regions and holes"),
)
"""What OpenCV's subtractors can be told, by their names there: first what is converted, then what has no equivalent."""

_BY_NAME = {row.name: row for row in OPENCV_NAMES}
_ARGUMENTS = {  # where None is no value
    name: replace(parameter, default=_BY_NAME[name].default)
    for name, parameter in table_of(SubtractorArguments).items()
    if name in _BY_NAME
}


def in_our_words(without_name: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor's arguments, those of OpenCV's converted to ours.

    Raises
    ------
    ParameterError
        For a bad value, for what has no equivalent, and for what is given twice.
    """
    if len(without_name) > len(_WITHOUT_NAME):
        raise ParameterError(
            f"at most {', '.join(_WITHOUT_NAME)} come without their names, got {len(without_name)} values"
        )
    theirs = dict(zip(_WITHOUT_NAME, without_name, strict=False))
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
                raise ParameterError(f"{name} sets {parameter}, which is given already; leave one of them out")
            ours[parameter] = converted
    return ours


def _converted(name: str, value: Any) -> dict[str, Any]:
    row = _BY_NAME[name]
    if name not in _ARGUMENTS:
        row.refuse(name)
    if _ARGUMENTS[name].kind is bool and isinstance(value, (numbers.Integral, np.bool_)):
        value = bool(value)  # as OpenCV takes it, and scripts write it: 0 and 1
    return row.to_ours(_ARGUMENTS[name].check(name, value))


def checked_rate(learningRate: float) -> float:
    """Return the rate of one frame; ParameterError if it is none."""
    rate = learningRate
    if not isinstance(rate, numbers.Real) or math.isnan(rate) or rate > 1:
        came = f"an array of shape {rate.shape}" if isinstance(rate, np.ndarray) else repr(rate)
        raise ParameterError(f"learningRate must be a number in [0, 1] or negative for the default, got {came}")
    return float(rate)


class OpenCVNames(ABC):
    """The setters and getters of OpenCV's MOG2 and KNN, by our parameters."""

    @abstractmethod
    def get_params(self) -> dict[str, Any]:
        """Return the parameters by name."""

    @abstractmethod
    def tune(self, **parameters: Any) -> None:
        """Change parameters between two frames."""

    def setHistory(self, history: int) -> None:
        """Set `absorb_after` as the constructor's `history` does."""
        self.tune(**_converted("history", history))

    def getHistory(self) -> int:
        """Return the `history` that `absorb_after` amounts to, 500 where that is the default."""
        return round(min(_BY_NAME["history"].from_ours(self.get_params()), _ARGUMENTS["history"].high))

    def setVarThreshold(self, varThreshold: float) -> None:
        """Set `noise_factor` as the constructor's `varThreshold` does."""
        self.tune(**_converted("varThreshold", varThreshold))

    def getVarThreshold(self) -> float:
        """Return the `varThreshold` that `noise_factor` amounts to, 16 where that is the default."""
        return _BY_NAME["varThreshold"].from_ours(self.get_params())

    def setDist2Threshold(self, dist2Threshold: float) -> None:
        """Set `threshold` as the constructor's `dist2Threshold` does."""
        self.tune(**_converted("dist2Threshold", dist2Threshold))

    def getDist2Threshold(self) -> float:
        """Return the `dist2Threshold` that `threshold` amounts to, 400 where that is the default."""
        return _BY_NAME["dist2Threshold"].from_ours(self.get_params())

    def setDetectShadows(self, detectShadows: bool) -> None:
        """Make `shadows` "merged" for False; for True "on", or "off" where it is that already."""
        changed = _converted("detectShadows", detectShadows)
        if changed["shadows"] != self.getDetectShadows():
            self.tune(**changed)

    def getDetectShadows(self) -> bool:
        """Return whether shadows are told from objects."""
        return bool(self.get_params()["shadows"] != "merged")

    def setShadowValue(self, value: int) -> None:
        """Make `shadows` "on" for 127 and "off" for 0; as with OpenCV's, no change where they are not detected."""
        if not isinstance(value, numbers.Integral) or value not in _SHADOW_VALUES:
            raise ParameterError(f"shadowValue must be 127 or 0 (the label of the background), got {value!r}")
        if self.getDetectShadows():
            self.tune(shadows=_SHADOW_VALUES[value])

    def getShadowValue(self) -> int:
        """Return the label of shadows, where they are told from objects: 127, or 0 for that of the background."""
        return 0 if self.get_params()["shadows"] == "off" else 127

    def getDefaultName(self) -> str:
        """Return the name of the method."""
        return "BackgroundSubtractor_bgsub"

    if not TYPE_CHECKING:  # for a type checker any name would be right then

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse names that are not there, those of OpenCV's with what is nearest."""
            end = name[3:] if name[:3] in ("set", "get") else ""
            row = _BY_NAME.get(end) or _BY_NAME.get(end[:1].lower() + end[1:])
            if row is not None:
                row.refuse(name)
            if name in ("read", "write"):
                raise NoEquivalentError(
                    f"{name} has no equivalent here: save(path) and BackgroundSubtractor.load(path)"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
