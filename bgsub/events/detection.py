"""The objects of one frame: connected parts of its foreground."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgsub._opencv import cv2
from bgsub.events.event import Box
from bgsub.separation import FOREGROUND

MOST_OBJECTS = 200
"""Objects of a frame that are looked at; the largest, where there are more."""


@dataclass(frozen=True, eq=False)
class Detection:
    """A connected part of the foreground; attributes as of `ObjectInFrame`."""

    box: Box
    centroid: tuple[float, float]
    area: int
    mask: np.ndarray

    @property
    def diagonal(self) -> float:
        """Diagonal of the box in pixels."""
        return float(np.hypot(self.box[2], self.box[3]))


def detect(mask: np.ndarray, min_area: int, join: int = 0) -> list[Detection]:
    """Return the connected parts of the foreground, in the order of their first pixel row by row.

    Parameters
    ----------
    mask : ndarray, (h, w), uint8
        Foreground where it is 255; shadows (127) do not count. Pixels that touch at a corner are connected.
    min_area : int
        Least number of pixels.
    join : int
        Parts with at most `2 * join` pixels of background between them are one object.
    """
    foreground = np.equal(mask, FOREGROUND).view(np.uint8)
    size = 2 * join + 1
    near = cv2.dilate(foreground, np.ones((size, size), np.uint8)) if join else foreground
    # Boxes from the outlines: OpenCV takes ten times as long for statistics of the labels.
    labels = cv2.connectedComponents(near, connectivity=8, ltype=cv2.CV_32S)[1]
    outlines, tree = cv2.findContours(near, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    boxes = {}
    for outline, (_, _, _, parent) in zip(outlines, tree[0] if outlines else (), strict=True):
        x, y, w, h = cv2.boundingRect(outline)
        if parent < 0 and w * h >= min_area:
            boxes[int(labels[outline[0, 0, 1], outline[0, 0, 0]])] = (x, y, w, h)
    found = [_detection(label, labels, boxes[label], foreground) for label in sorted(boxes)]
    found = [one for one in found if one.area >= min_area]
    if len(found) > MOST_OBJECTS:
        largest = sorted(range(len(found)), key=lambda index: -found[index].area)[:MOST_OBJECTS]
        found = [found[index] for index in sorted(largest)]
    return found


def _detection(label: int, labels: np.ndarray, box: Box, foreground: np.ndarray) -> Detection:
    """Return the foreground under a label, in the smallest box."""
    x, y, w, h = box
    mask = (labels[y : y + h, x : x + w] == label) & foreground[y : y + h, x : x + w].view(bool)
    left, top, width, height = cv2.boundingRect(mask.view(np.uint8))
    mask = mask[top : top + height, left : left + width]
    moments = cv2.moments(mask.view(np.uint8), binaryImage=True)
    area = round(moments["m00"])
    x, y = x + left, y + top
    centroid = (x + moments["m10"] / area, y + moments["m01"] / area) if area else (0.0, 0.0)
    return Detection((x, y, width, height), centroid, area, mask)


def intersection(first: Detection, second: Detection, shift: tuple[int, int] = (0, 0)) -> int:
    """Return how many pixels two objects share when the first one is moved by `shift` = (x, y) pixels."""
    (x, y, w, h), (u, v, m, n) = first.box, second.box
    x, y = x + shift[0], y + shift[1]
    left, right, top, bottom = max(x, u), min(x + w, u + m), max(y, v), min(y + h, v + n)
    if left >= right or top >= bottom:
        return 0
    one = first.mask[top - y : bottom - y, left - x : right - x]
    other = second.mask[top - v : bottom - v, left - u : right - u]
    return int(np.count_nonzero(one & other))
