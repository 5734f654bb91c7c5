"""Other cameras: noise, compression, size, grey and depth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bgsub._opencv import cv2
from bgsub.evaluation.conditions._moment import Moment, per_frame
from bgsub.evaluation.metrics import MOVING, UNKNOWN


@per_frame
def noise(moment: Moment, sigma: float, gain: float = 1.0) -> Moment:
    """Darken by `gain`, then add Gaussian noise of `sigma` grey levels to every pixel and channel."""
    scatter = moment.rng.standard_normal(moment.frame.shape, dtype=np.float32)
    return moment.seen(moment.levels * np.float32(gain) + np.float32(sigma) * scatter)


@per_frame
def jpeg(moment: Moment, quality: int) -> Moment:
    """Compress to JPEG of 8 bits and back."""
    _, data = cv2.imencode(".jpg", np.rint(moment.levels).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, quality])
    decoded = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    assert decoded is not None
    return replace(moment, frame=decoded)


@per_frame
def half_size(moment: Moment) -> Moment:
    """Average 2x2 pixels; a block that moves in part only is unknown. An odd last row or column is cut off."""
    height, width = (side // 2 for side in moment.frame.shape[:2])
    frame = moment.frame[: 2 * height, : 2 * width]
    truth = moment.truth
    if truth is not None:
        four = np.stack([truth[i : 2 * height : 2, j : 2 * width : 2] for i in (0, 1) for j in (0, 1)])
        moving = (four == MOVING).sum(axis=0)
        truth = np.where((moving > 0) & (moving < 4), UNKNOWN, four[0]).astype(np.uint8)
    return replace(moment, frame=cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA), truth=truth)


@per_frame
def grey(moment: Moment, is_deep: bool = False) -> Moment:
    """Drop the colour; with `is_deep` widen 8 bits to 16."""
    frame = moment.frame
    if frame.ndim == 3:
        frame = cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
    if is_deep and frame.dtype == np.uint8:
        frame = frame.astype(np.uint16) * np.uint16(257)
    return replace(moment, frame=frame)
