"""Where things move."""

from __future__ import annotations

from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.events._pack import pack, unpack
from bgsub.separation import FOREGROUND, Separation
from bgsub.video.views import to_bgr8
from bgsub.video.web_page import shrunk

LONGEST = 480
"""Most pixels of the longer side."""

COLOURS = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[np.newaxis], cv2.COLORMAP_INFERNO)[0]
"""Perceptually uniform, from the least to the largest share: (256, 3) uint8, blue first."""

_LAID_OVER = 0.8  # of the colour where the share is not small


class HeatMap:
    """Adds up how often each pixel is foreground.

    Larger frames are reduced to 480 pixels on the longer side; each pixel that is left takes 8 bytes, 1 MB at 16:9,
    whatever the length of the run. Frames in which something befell the whole frame do not count.
    """

    def __init__(self) -> None:
        self._sum: np.ndarray | None = None  # 255 for each frame in which all of a pixel was foreground: exact
        self._frames = 0

    def add(self, separation: Separation) -> None:
        """Take one frame."""
        if separation.event is not None:
            return
        foreground = shrunk(cv2.compare(separation.mask, FOREGROUND, cv2.CMP_EQ), LONGEST)
        if self._sum is None:
            self._sum = np.zeros(foreground.shape)
        cv2.accumulate(foreground, self._sum)
        self._frames += 1

    def share(self) -> np.ndarray | None:
        """Return the share of the frames in which each pixel was foreground, (h, w) float64; None without a frame."""
        return None if self._sum is None else self._sum / (255 * self._frames)

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, as types that JSON knows."""
        return {"frames": self._frames, "sum": None if self._sum is None else pack(self._sum)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        self._frames, self._sum = state["frames"], None if state["sum"] is None else unpack(state["sum"])


def drawn(share: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Return a heat map over the picture of a background.

    Parameters
    ----------
    share : ndarray, (h, w), floating
        As of `HeatMap.share`. The place of a share among `COLOURS` is the root of it over the largest one, so that
        what is seldom shows beside what is frequent.
    background : ndarray, (h, w) or (h, w, 3), uint8

    Returns
    -------
    ndarray, (h, w, 3), uint8
        Blue first.
    """
    level = np.sqrt(share / (share.max() or 1))
    colours = COLOURS[np.rint(255 * level).astype(np.uint8)]
    grey = cv2.cvtColor(cv2.cvtColor(to_bgr8(background), cv2.COLOR_BGR2GRAY), cv2.COLOR_GRAY2BGR)
    weight = np.minimum(6 * level, 1)[..., np.newaxis] * _LAID_OVER
    return np.rint(weight * colours + (1 - weight) * grey).astype(np.uint8)
