"""The objects of one frame: connected parts of its foreground."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, import_optional
from bgsub.events.event import Box
from bgsub.separation import FOREGROUND, Separation
from bgsub.video.views import to_uint8

MOST_OBJECTS = 200  # most objects of a frame that are tracked: the largest ones

_UPRIGHT = 3  # how many times as far apart parts may be that are above one another: people and cars break up like that
_BINS, _OFFSET, _MOST_PIXELS = 8, 8, 1024  # of a look: classes of a ratio; grey levels against noise; enough pixels


@dataclass(frozen=True, eq=False)
class Detections:
    """The objects of one frame, largest first.

    Attributes
    ----------
    xyxy : ndarray, (n, 4), float32
        Boxes: left, top, right, bottom in pixels; right and bottom are exclusive.
    centroids : ndarray, (n, 2), float32
        Centres of mass x, y in pixels.
    area : ndarray, (n,), int64
        Pixels of each object.
    confidence : ndarray, (n,), float32
        Mean `Separation.probability` of each object's pixels, above 0.5.
    labels : ndarray, (h, w), int32
        0 background, i + 1 for the pixels of object i.
    """

    xyxy: np.ndarray
    centroids: np.ndarray
    area: np.ndarray
    confidence: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.area)

    @property
    def mask(self) -> np.ndarray:
        """One mask for each object, (n, h, w) bool; computed at each access."""
        numbers = np.arange(1, len(self) + 1, dtype=self.labels.dtype)
        return self.labels[np.newaxis] == numbers[:, np.newaxis, np.newaxis]

    def to_supervision(self) -> Any:
        """Return ``supervision.Detections`` with masks, class 0; raise `DependencyError` without that package."""
        message = "to_supervision needs the package supervision: pip install supervision"
        return import_optional("supervision", message).Detections(
            xyxy=self.xyxy, mask=self.mask, confidence=self.confidence, class_id=np.zeros(len(self), int)
        )


def find_objects(separation: Separation, min_area: int = 1) -> Detections:
    """Return the 8-connected regions of the foreground, without shadows, largest first.

    Parameters
    ----------
    separation : Separation
        One frame.
    min_area : int, default 1
        Least number of pixels of an object.

    Raises
    ------
    ParameterError
        If `separation` is no `Separation`, or `min_area` is below 1.

    Examples
    --------
    >>> import bgsub
    >>> for frame, separation in bgsub.separate("video.mp4"):
    ...     objects = bgsub.find_objects(separation, min_area=20)
    >>> len(objects) == len(objects.area) == len(objects.xyxy)
    True
    >>> objects.mask.shape[1:]  # of one mask for each object
    (48, 64)
    """
    if not isinstance(separation, Separation):
        raise ParameterError(f"separation must be a Separation as of process, got {type(separation).__name__}")
    if not (isinstance(min_area, Real) and min_area >= 1):
        raise ParameterError(f"min_area must be at least 1 pixel, got {min_area!r}")
    found = sorted(_parts(_foreground(separation.mask), min_area), key=lambda one: -one.area)
    labels = np.zeros(separation.mask.shape, np.int32)
    confidence = np.zeros(len(found), np.float32)
    for number, one in enumerate(found):
        x, y, w, h = one.box
        labels[y : y + h, x : x + w][one.mask] = number + 1
        confidence[number] = min(separation.probability[y : y + h, x : x + w][one.mask].mean(dtype=np.float64), 1)
    boxes = np.array([one.box for one in found], np.float32).reshape(-1, 4)
    corners = np.hstack([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]])
    centroids = np.array([one.centroid for one in found], np.float32).reshape(-1, 2)
    return Detections(corners, centroids, np.array([one.area for one in found], np.int64), confidence, labels)


@dataclass(frozen=True, eq=False)
class Detection:
    """A connected part of the foreground; the other attributes as of `ObjectInFrame`."""

    box: Box
    centroid: tuple[float, float]
    area: int
    mask: np.ndarray
    look: np.ndarray | None = None  # see `look`; None in grey

    @property
    def diagonal(self) -> float:
        return float(np.hypot(self.box[2], self.box[3]))


def detect(mask: np.ndarray, min_area: int, join: int = 0) -> list[Detection]:
    """Return the largest 8-connected parts of the foreground, row by row; `join` as of `ObjectLinker`."""
    found = _parts(_foreground(mask), min_area, join)
    if len(found) <= MOST_OBJECTS:
        return found
    largest = sorted(range(len(found)), key=lambda index: -found[index].area)[:MOST_OBJECTS]
    return [found[index] for index in sorted(largest)]


def _parts(foreground: np.ndarray, min_area: float, join: int = 0) -> list[Detection]:
    """Return the 8-connected parts of the foreground, (h, w) uint8, row by row."""
    near = foreground
    if join:
        square, column = (2 * join + 1, 2 * join + 1), (2 * _UPRIGHT * join + 1, 1)
        near = cv2.max(*(cv2.dilate(foreground, np.ones(size, np.uint8)) for size in (square, column)))
    # Boxes come from the outlines, because statistics of the labels take ten times as long.
    labels = cv2.connectedComponents(near, connectivity=8, ltype=cv2.CV_32S)[1]
    outlines, tree = cv2.findContours(near, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    boxes = {}
    for outline, (_, _, _, parent) in zip(outlines, tree[0] if outlines else (), strict=True):
        x, y, w, h = cv2.boundingRect(outline)
        if parent < 0 and w * h >= min_area:
            boxes[int(labels[outline[0, 0, 1], outline[0, 0, 0]])] = (x, y, w, h)
    found = [_detection(label, labels, boxes[label], foreground) for label in sorted(boxes)]
    return [one for one in found if one.area >= min_area]


def _foreground(mask: np.ndarray) -> np.ndarray:
    """Return 1 for the foreground of a mask and 0 elsewhere, uint8."""
    return np.equal(mask, FOREGROUND).view(np.uint8)


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


def look(image: np.ndarray, one: Detection) -> np.ndarray | None:
    """Return the histogram of the ratios blue to green and red to green, as square roots of shares; None in grey."""
    # The ratios do not depend on the brightness of the light, which differs between places of a scene.
    if image.ndim == 2 or image.shape[2] < 3:
        return None
    x, y, w, h = one.box
    step = 1 + math.isqrt(one.area // _MOST_PIXELS)
    pixels = image[y : y + h : step, x : x + w : step][one.mask[::step, ::step]]
    if not len(pixels):
        return None
    logs = np.log(to_uint8(pixels).astype(np.float32) + _OFFSET)
    classes = ((logs[:, ::2] - logs[:, 1:2] + 1) * (_BINS / 2)).clip(0, _BINS - 1).astype(int)
    counts = np.bincount(classes[:, 0] * _BINS + classes[:, 1], minlength=_BINS**2)
    return np.sqrt(counts / len(pixels)).astype(np.float32)


def intersection(first: Detection, second: Detection, shift: tuple[int, int] = (0, 0)) -> int:
    """Return the number of common pixels after moving the first object by `shift` = (x, y) pixels."""
    (x, y, w, h), (u, v, m, n) = first.box, second.box
    x, y = x + shift[0], y + shift[1]
    left, right, top, bottom = max(x, u), min(x + w, u + m), max(y, v), min(y + h, v + n)
    if left >= right or top >= bottom:
        return 0
    one = first.mask[top - y : bottom - y, left - x : right - x]
    other = second.mask[top - v : bottom - v, left - u : right - u]
    return int(np.count_nonzero(one & other))
