"""The connected objects of one mask, in the form in which detectors give theirs."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import DependencyError, ParameterError
from bgsub.separation import FOREGROUND, Separation


@dataclass(frozen=True, eq=False)
class Detections:
    """The objects of one frame, largest first.

    Attributes
    ----------
    xyxy : ndarray, (n, 4), float32
        Boxes: left, top, right, bottom in pixels; right and bottom are just outside.
    centroids : ndarray, (n, 2), float32
        Centres of mass x, y in pixels.
    area : ndarray, (n,), int64
        Pixels of each object.
    confidence : ndarray, (n,), float32
        Mean residual of each object's pixels, at most 1 (full scale).
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
        """One mask for each object, (n, h, w) bool; made anew at each call."""
        return (
            self.labels[np.newaxis] == np.arange(1, len(self) + 1, dtype=self.labels.dtype)[:, np.newaxis, np.newaxis]
        )

    def to_supervision(self) -> Any:
        """Return the objects as ``supervision.Detections`` with masks, class 0.

        Raises
        ------
        DependencyError
            Where the package is missing.
        """
        try:
            import supervision  # noqa: PLC0415 - optional
        except ImportError:
            raise DependencyError("to_supervision needs the package supervision: pip install supervision") from None
        return supervision.Detections(
            xyxy=self.xyxy, mask=self.mask, confidence=self.confidence, class_id=np.zeros(len(self), int)
        )


def find_objects(separation: Separation, min_area: int = 1) -> Detections:
    """Return the 8-connected regions of the foreground; shadows are none.

    Parameters
    ----------
    separation : Separation
        One frame.
    min_area : int, default 1
        Least number of pixels of an object.

    Raises
    ------
    ParameterError
        If `min_area` is below 1.
    """
    if not (isinstance(min_area, Real) and min_area >= 1):
        raise ParameterError(f"min_area must be at least 1 pixel, got {min_area!r}")
    foreground = np.equal(separation.mask, FOREGROUND).view(np.uint8)
    count, labels, stats, centroids = cv2.connectedComponentsWithStats(foreground, connectivity=8, ltype=cv2.CV_32S)
    area = stats[:, cv2.CC_STAT_AREA].astype(np.int64)
    kept = np.flatnonzero(area >= min_area)
    kept = kept[kept > 0]
    kept = kept[np.argsort(-area[kept], kind="stable")]
    number = np.zeros(count, np.int32)
    number[kept] = np.arange(1, len(kept) + 1)
    corner = stats[kept, :2].astype(np.float32)
    total = np.bincount(labels.reshape(-1), separation.residual.reshape(-1), count)[kept]
    return Detections(
        np.hstack([corner, corner + stats[kept, 2:4]]).astype(np.float32),
        centroids[kept].astype(np.float32),
        area[kept],
        np.minimum(total / np.maximum(area[kept], 1), 1).astype(np.float32),
        number[labels],
    )
