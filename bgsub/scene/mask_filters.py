"""The vote over the square around every pixel, by sums over windows."""

from __future__ import annotations

import numpy as np

from bgsub._opencv import cv2

_FITS = 15  # side of a square whose pixels a byte can count


def majority_filter(candidates: np.ndarray, side: int, out: np.ndarray) -> np.ndarray:
    """Return `out`, 255 where most of the square around a pixel are candidates and 0 elsewhere.

    Parameters
    ----------
    candidates : ndarray, (h, w), uint8
        0 or 1; continued over the border by the pixels on it.
    side : int
        Side of the square, odd.
    out : ndarray, (h, w), uint8, output
        O(h w).
    """
    window, limit = (side, side), side * side // 2
    if side <= _FITS:
        cv2.boxFilter(candidates, -1, window, dst=out, normalize=False, borderType=cv2.BORDER_REPLICATE)
        return cv2.threshold(out, limit, 255, cv2.THRESH_BINARY, dst=out)[1]
    counts = cv2.boxFilter(candidates, cv2.CV_16U, window, normalize=False, borderType=cv2.BORDER_REPLICATE)
    return np.multiply(counts > limit, np.uint8(255), out=out)
