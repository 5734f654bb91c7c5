"""What stands still in the foreground: light left over, stopped objects, ghosts of objects that went away."""

from __future__ import annotations

import math

import numpy as np

from bgsub import _object_kernels
from bgsub._opencv import cv2
from bgsub.separation import FOREGROUND

_SAME = 0.06  # joint distance up to which a pixel shows the same colour
_SETTLING = 1.0  # seconds after a change of light in which new foreground that stands still is light
_LEFT_OVER = 0.12  # seconds it must stand still for that
_HELD = 0.5  # seconds after which a standing pixel no longer is learned, until it is absorbed
_GHOST_AGE = 0.5  # seconds
_INTERVAL = 0.2  # seconds between two looks
_OLD_SHARE = 0.6  # of a region that must have stood still


class StandingObjects:
    """Decide which foreground pixels belong to the background after all.

    Parameters
    ----------
    shape : tuple of int
        (h, w, c) of the frames.
    fps : float
        Frames per second.
    absorb_after : float
        Seconds after which a standing object is background; may be infinite.
    ghosts : bool
        Whether ghosts are released.
    """

    def __init__(self, shape: tuple[int, int, int], fps: float, absorb_after: float, ghosts: bool) -> None:
        h, w, channels = shape
        self._shape = shape
        self._fps, self._ghosts = fps, ghosts
        self._absorb = math.inf if math.isinf(absorb_after) else max(absorb_after * fps, 1)
        self.age = np.zeros((h, w), np.int32)
        self.anchor = np.zeros((h * w, channels), np.float32)
        self._hasty: np.ndarray | None = None
        self._settling = 0
        self._frame = 0

    def light_changed(self, before: np.ndarray, after: np.ndarray) -> None:
        """Expect that what a change of light leaves behind stands still: foreground of `after` away from `before`.

        Both are masks, (h, w) uint8; pixels count until they turn background once.
        """
        reach = 2 * max(2, round(0.03 * min(self._shape[:2]))) + 1
        near = cv2.dilate(before, np.ones((reach, reach), np.uint8))
        self._hasty = (near != FOREGROUND) & (after == FOREGROUND)
        self.age[self._hasty] = 0
        self._settling = max(round(_SETTLING * self._fps), 2)

    def held(self) -> np.ndarray | None:
        """Return where objects stand, (h, w) bool, which the background must not learn; None when nowhere."""
        standing: np.ndarray = self.age >= max(round(_HELD * self._fps), 2)
        return standing if standing.any() else None

    def released(self, x: np.ndarray, low_rank: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
        """Return which pixels become background now, (h, w) bool, or None.

        Parameters
        ----------
        x, low_rank : ndarray, (m,), float32
            Frame and background.
        mask : ndarray, (h, w), uint8
            Foreground where it is 255.
        """
        _object_kernels.grow_old(
            x.reshape(self.anchor.shape), mask.reshape(-1), np.float32(_SAME), self.anchor, self.age.reshape(-1)
        )
        self._frame += 1
        self._settling = max(self._settling - 1, 0)
        chosen = np.zeros(mask.shape, bool)
        if self._hasty is not None:
            self._hasty &= mask == FOREGROUND
            chosen |= self._hasty & (self.age >= max(round(_LEFT_OVER * self._fps), 2))
            if self._settling == 0:
                self._hasty = None
        if self._frame % max(round(_INTERVAL * self._fps), 1) == 0:
            chosen |= self.age >= self._absorb
            if self._ghosts:
                self._add_ghosts(x, low_rank, mask, chosen)
        return chosen if chosen.any() else None

    def _add_ghosts(self, x: np.ndarray, low_rank: np.ndarray, mask: np.ndarray, chosen: np.ndarray) -> None:
        """Choose the standing regions whose outline is an edge of the background, not of the frame."""
        old = (self.age >= max(round(_GHOST_AGE * self._fps), 2)).view(np.uint8)
        if not old.any():
            return
        foreground = (mask == FOREGROUND).view(np.uint8)
        outlines, _ = cv2.findContours(foreground, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        for outline in outlines:
            left, top, width, height = cv2.boundingRect(outline)
            box = np.s_[max(top - 3, 0) : top + height + 3, max(left - 3, 0) : left + width + 3]
            region = np.zeros(mask[box].shape, np.uint8)
            cv2.drawContours(region, [outline], -1, 1, cv2.FILLED, offset=(-box[1].start, -box[0].start))
            region &= foreground[box]
            inside = region != 0
            if np.count_nonzero(old[box][inside]) < _OLD_SHARE * np.count_nonzero(inside):
                continue
            if edge_along(x.reshape(self._shape)[box], region) < edge_along(low_rank.reshape(self._shape)[box], region):
                chosen[box] |= inside


def edge_along(image: np.ndarray, region: np.ndarray) -> float:
    """Return the mean step of an image, (h, w, c), across the outline of a region, (h, w) of 0 and 1.

    Means over the ring inside the outline and the one outside it are compared locally.
    """
    ring = np.ones((3, 3), np.uint8)
    outer = cv2.dilate(region, ring, iterations=2) - cv2.dilate(region, ring)
    inner = region - cv2.erode(region, ring)
    weights = [part.astype(np.float32) for part in (inner, outer)]
    counts = [cv2.boxFilter(part, -1, (7, 7), normalize=False) for part in weights]
    where = (inner != 0) & (counts[1] > 0)
    if not where.any():
        return 0.0
    channels = np.atleast_3d(image).transpose(2, 0, 1)
    step = np.zeros(region.shape, np.float32)
    for channel in channels:
        sums = [cv2.boxFilter(channel * part, -1, (7, 7), normalize=False) for part in weights]
        step += (sums[0] / np.maximum(counts[0], 1) - sums[1] / np.maximum(counts[1], 1)) ** 2
    return float(np.mean(np.sqrt(step[where])))
