"""A camera that shakes, goes black or is covered."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bgsub._opencv import cv2
from bgsub.evaluation.conditions._moment import Moment, per_frame
from bgsub.evaluation.metrics import OUTSIDE, UNKNOWN

_FARTHEST = 2.5


@per_frame
def shake(moment: Moment, rms: float, degrees: float = 0.0) -> Moment:
    """Move and turn the camera at random in every frame; frame and mask move together.

    Each direction has a root mean square of `rms` pixels, the angle one of `degrees`; both are cut at 2.5
    times that, and the margin which may lose sight of the picture is cropped, so that every pixel is real.
    """
    height, width = moment.frame.shape[:2]
    dx, dy, turn = np.clip(moment.rng.standard_normal(3), -_FARTHEST, _FARTHEST) * (rms, rms, degrees)
    move = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), turn, 1.0)
    move[:, 2] += dx, dy
    lever = math.sin(math.radians(_FARTHEST * degrees)) * max(height, width) / 2
    margin = math.ceil(_FARTHEST * rms + lever) + 1

    def moved(image: np.ndarray, **how: int) -> np.ndarray:
        whole = cv2.warpAffine(image, move, (width, height), **how)
        return np.ascontiguousarray(whole[margin : height - margin, margin : width - margin])

    truth = moment.truth
    if truth is not None:
        truth = moved(truth, flags=cv2.INTER_NEAREST, borderMode=cv2.BORDER_CONSTANT, borderValue=OUTSIDE)
    # Linear interpolation would blur by an amount that changes from frame to frame.
    frame = moved(moment.frame, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return replace(moment, frame=frame, truth=truth)


@per_frame
def black_frames(moment: Moment) -> Moment:
    """Lose one frame to black at tick 50 and every 100 frames after; it is not scored."""
    return _blind(moment, np.zeros_like(moment.levels)) if moment.tick % 100 == 50 else moment


@per_frame
def covered(moment: Moment) -> Moment:
    """Cover the lens for 25 frames (1 s at 25 frames per second) at tick 100 and every 300 after; not scored."""
    if not 100 <= moment.tick % 300 < 125:
        return moment
    return _blind(moment, 12 + 2 * moment.rng.standard_normal(moment.frame.shape, dtype=np.float32))


def _blind(moment: Moment, levels: np.ndarray) -> Moment:
    truth = None if moment.truth is None else np.full_like(moment.truth, UNKNOWN)
    return replace(moment.seen(levels), truth=truth)
