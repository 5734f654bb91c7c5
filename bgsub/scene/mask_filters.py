"""Filters of masks: the majority in a square, and the removal of small regions and holes."""

from __future__ import annotations

import numpy as np

from bgsub._opencv import cv2
from bgsub.separation import BACKGROUND, FOREGROUND

_FITS = 15  # largest side of a square whose pixels fit into a byte


def majority_filter(candidates: np.ndarray, side: int, out: np.ndarray) -> np.ndarray:
    """Write 255 into `out` where most of the square around a pixel are candidates, else 0; (h, w) uint8.  O(h w)."""
    window, limit = (side, side), side * side // 2
    if side <= _FITS:
        cv2.boxFilter(candidates, -1, window, dst=out, normalize=False, borderType=cv2.BORDER_REPLICATE)
        return cv2.threshold(out, limit, 255, cv2.THRESH_BINARY, dst=out)[1]
    counts = cv2.boxFilter(candidates, cv2.CV_16U, window, normalize=False, borderType=cv2.BORDER_REPLICATE)
    return np.multiply(counts > limit, np.uint8(255), out=out)


def remove_small_regions(mask: np.ndarray, area: float) -> None:
    """Erase regions, 8-connected and with their holes, and fill holes smaller than `area` pixels, in place."""
    # without it F falls from .768 to .765 on average over 16 labelled sequences, and by up to .021 on one of them
    if area <= 1:
        return
    outlines, tree = cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    if not outlines:
        return
    holes, small = [], []
    for outline, parent in zip(outlines, tree[0, :, 3].tolist(), strict=True):
        if parent < 0:  # the outline of a region; that of a hole lies on the region around it
            if len(outline) < 2 * area and _pixels_inside(outline) < area:
                small.append(outline)
        elif _pixels_inside(outline) - len(outline) < area:
            holes.append(outline)
    if holes:
        cv2.drawContours(mask, holes, -1, FOREGROUND, cv2.FILLED)
    if small:
        cv2.drawContours(mask, small, -1, BACKGROUND, cv2.FILLED)


def _pixels_inside(outline: np.ndarray) -> float:
    """Return the number of pixels in and on an outline of neighbouring pixels, by Pick's theorem."""
    return float(cv2.contourArea(outline)) + len(outline) / 2 + 1
