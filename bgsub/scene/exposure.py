"""Exposure of a scene: the contrast that the thresholds follow, a veil over it, its colours, noise of the sensor."""

import math

import numpy as np

from bgsub._opencv import cv2
from bgsub.scene.segmentation import SceneLook

_USUAL_CONTRAST = 0.75  # range of the brightness of a scene for which the threshold is as given (exposure 1)
_CURVE = 0.75  # the threshold follows this power of the range: noise falls less than the light
_LEAST_EXPOSURE = 0.25  # smallest factor of the threshold
_VEILED = (0.15, 0.25), (0.15, 0.02)  # darkest brightness of a scene, and the part of it that is no veil: interpolated
_THICKEST = 4.0, 1.5  # most veil, relative to the range of the brightness above it, and to that range if it is clipped
_CLIPPED = 0.98  # brightness from which the range is clipped: the true one is larger
_SPREAD = 0.03  # largest difference of the channels of a grey site, after video coding
_STRAY = 0.004  # largest share of coloured sites in a grey picture
_DARK, _BRIGHT = 0.001, 0.95  # quantiles of the brightness
_LAPLACIAN = np.outer([1, -2, 1], [1, -2, 1]).astype(np.float32)
_QUARTILES = 6 * math.sqrt(2) * np.array([0.3186, 1.1503])  # of `sensor_noise`, for normal noise of unit variance
_ALIKE = 1.5  # largest ratio of its two estimates


def look_of(
    shown: np.ndarray, newest: np.ndarray, scale: float, darkest: float, rate: float
) -> tuple[SceneLook, float]:
    """Return exposure, black level and colours of a scene, and its `darkest` brightness, given the one before.

    `shown`, `newest` (c, n): pixels of the background and the newest frame, times `scale` in [0, 1]; `rate`: followed
    share of a rise of the darkest brightness.
    """
    # haze or stray light (a veil) raises all that is black; few scenes show nothing dark for long
    dark, bright = (scale * level for level in dark_and_bright(shown))
    dark = max(min(dark, scale * dark_and_bright(newest)[0]), 0.0)
    darkest = min(dark, darkest + rate * (dark - darkest))
    thickest = _THICKEST[bright > _CLIPPED] * max(bright - darkest, 0.0)
    black = max(min(darkest - float(np.interp(darkest, *_VEILED)), thickest), 0.0)
    exposure = exposure_of(bright - black)
    is_coloured = all(has_colour(some, exposure / scale) for some in (shown, newest))  # not if a camera turns grey
    return SceneLook(exposure, is_coloured, black), darkest


def exposure_of(contrast: float) -> float:
    """Return the factor of the threshold, given the range of the brightness of a scene (1 is full scale)."""
    return max((max(contrast, 0.0) / _USUAL_CONTRAST) ** _CURVE, _LEAST_EXPOSURE)


def dark_and_bright(sites: np.ndarray) -> tuple[float, float]:
    """Return a low and a high quantile of the brightness of some pixels, (c, n) float32, in their unit."""
    values = sites.mean(axis=0)
    ranks = [round(share * (values.size - 1)) for share in (_DARK, _BRIGHT)]
    ordered = np.partition(values, [2 * ranks[0], *ranks])
    return float(ordered[: 2 * ranks[0] + 1].mean()), float(ordered[ranks[1]])


def has_colour(sites: np.ndarray, full: float) -> bool:
    """Return whether more than `_STRAY` of some pixels, (c, n), are not grey; `full` is full scale."""
    colours = sites[:3]
    means = colours.mean(axis=1, keepdims=True)  # a tint of the whole picture is no colour
    balanced = colours * (means.mean() / np.maximum(means, _SPREAD * full))
    return float(np.mean(np.ptp(balanced, axis=0) > _SPREAD * full)) > _STRAY


def sensor_noise(one: np.ndarray, other: np.ndarray) -> float:
    """Return the standard deviation of the noise of two successive pictures, (h, w, c), in their unit; 0 if unsure."""
    # from quartiles of the Laplacian of their difference (J. Immerkaer, Fast noise variance estimation, Computer Vision
    # and Image Understanding 64(2), 1996), which must agree: noise is everywhere alike, leaves are not
    rough = np.abs(cv2.filter2D(one.astype(np.float32) - other.astype(np.float32), -1, _LAPLACIAN)).reshape(-1)
    ranks = rough.size // 4, 3 * rough.size // 4
    low, high = (np.partition(rough, ranks)[[*ranks]] / _QUARTILES).tolist()  # faster than `np.quantile`
    return low if high < _ALIKE * low else 0.0
