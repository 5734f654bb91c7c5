"""The metrics of changedetection.net, counted in pixels."""

import math
from dataclasses import astuple, dataclass
from operator import add

import numpy as np

from bgsub.errors import ParameterError

STATIC, SHADOW, OUTSIDE, UNKNOWN, MOVING = 0, 50, 85, 170, 255

CODES = (STATIC, SHADOW, OUTSIDE, UNKNOWN, MOVING)


@dataclass(frozen=True)
class Confusion:
    """Numbers of true and false positives and negatives; ``+`` adds those of several frames.

    A ratio with denominator 0 is nan: the recall without moving pixels, the precision without detections, the
    F-measure without both. The F-measure is 0 where pixels move and none is detected.

    Attributes
    ----------
    tp, fp, fn, tn : int
        True positives, false positives, false negatives, true negatives; positive is moving.
    shadow : int
        Scored pixels in hard shadow, which are part of `fp` and `tn`.
    shadow_fp : int
        Shadow pixels detected as moving.

    Notes
    -----
    The seven metrics are those of changedetection.net: N. Goyette, P.-M. Jodoin, F. Porikli, J. Konrad and P. Ishwar,
    *Changedetection.net: a new change detection benchmark dataset*, CVPR Workshops 2012.

    Examples
    --------
    >>> from bgsub.evaluation import Confusion
    >>> both = Confusion(tp=6, fp=2, fn=1, tn=91) + Confusion(tp=2, fn=1, tn=97)
    >>> both.recall, both.precision, round(both.f_measure, 3)
    (0.8, 0.8, 0.8)
    """

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0
    shadow: int = 0
    shadow_fp: int = 0

    def __add__(self, other: "Confusion") -> "Confusion":
        if not isinstance(other, Confusion):
            return NotImplemented
        return Confusion(*map(add, astuple(self), astuple(other)))

    @property
    def scored(self) -> int:
        """Number of scored pixels."""
        return self.tp + self.fp + self.fn + self.tn

    @property
    def recall(self) -> float:
        """TP / (TP + FN), the detected share of the moving pixels."""
        return _ratio(self.tp, self.tp + self.fn)

    @property
    def specificity(self) -> float:
        """TN / (TN + FP), the undetected share of the background."""
        return _ratio(self.tn, self.tn + self.fp)

    @property
    def fpr(self) -> float:
        """FP / (FP + TN), the false positive rate."""
        return _ratio(self.fp, self.fp + self.tn)

    @property
    def fnr(self) -> float:
        """FN / (TP + FN), the false negative rate."""
        return _ratio(self.fn, self.tp + self.fn)

    @property
    def pwc(self) -> float:
        """100 (FN + FP) / (TP + FN + FP + TN), the percentage of wrong classifications."""
        return 100 * _ratio(self.fn + self.fp, self.scored)

    @property
    def precision(self) -> float:
        """TP / (TP + FP), the moving share of the detected pixels."""
        return _ratio(self.tp, self.tp + self.fp)

    @property
    def f_measure(self) -> float:
        """2 TP / (2 TP + FP + FN), the harmonic mean of recall and precision."""
        return _ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def confusion(mask: np.ndarray, truth: np.ndarray, roi: np.ndarray | None = None) -> Confusion:
    """Count the pixels of one frame, in O(h w).

    Parameters
    ----------
    mask : ndarray, (h, w), uint8 or bool
        The result; positive above 127 as on changedetection.net, so the shadow label 127 is background.
    truth : ndarray, (h, w), uint8
        0 static, 50 hard shadow (both negative), 85 outside the region of interest, 170 unknown (neither
        is scored), 255 moving.
    roi : ndarray, (h, w), optional
        Pixels that are zero are not scored.

    Raises
    ------
    ParameterError
        If shapes differ, a type is wrong or `truth` has other values.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub.evaluation import confusion
    >>> truth = np.array([[0, 50, 170, 255]], np.uint8)  # static, shadow, unknown, moving
    >>> confusion(np.array([[0, 255, 255, 255]], np.uint8), truth)
    Confusion(tp=1, fp=1, fn=0, tn=1, shadow=1, shadow_fp=1)
    """
    if mask.dtype not in (np.uint8, np.bool_) or mask.ndim != 2:
        raise ParameterError(f"mask must be (h, w) of uint8 or bool, got {mask.shape} of {mask.dtype}")
    if truth.dtype != np.uint8 or truth.shape != mask.shape:
        raise ParameterError(
            f"truth must be uint8 of the shape of the mask {mask.shape}, got {truth.shape} of {truth.dtype}"
        )
    if roi is not None and roi.shape != mask.shape:
        raise ParameterError(f"roi must have the shape of the mask {mask.shape}, got {roi.shape}")
    counts = np.bincount(truth.ravel(), minlength=256)
    unknown = [int(v) for v in np.flatnonzero(counts) if v not in CODES]
    if unknown:
        raise ParameterError(f"truth must have only the values {CODES}, got {unknown[0]}")
    found = mask if mask.dtype == np.bool_ else mask > 127
    moving, shadow = truth == MOVING, truth == SHADOW
    negative = shadow | (truth == STATIC)
    if roi is not None:
        inside = roi != 0
        moving, shadow, negative = moving & inside, shadow & inside, negative & inside
    parts = (found & moving, found & negative, moving, negative, shadow, found & shadow)
    tp, fp, positives, negatives, shadows, shadow_fp = (int(np.count_nonzero(part)) for part in parts)
    return Confusion(tp, fp, positives - tp, negatives - fp, shadows, shadow_fp)
