"""Which pixels of a frame lie in a region; all masks are (h, w), bool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.video.sources.images import read_image

_JPEG_SEAM = 127  # JPEG leaves a grey seam around black
Point = tuple[float, float]


def rectangle(points: Sequence[Point], height: int, width: int) -> np.ndarray:
    """Return the mask of a rectangle, given by its corner and its size; what sticks out of the frame is cut off."""
    (x, y), (w, h) = points
    inside: np.ndarray = np.zeros((height, width), bool)
    rows = slice(max(round(y), 0), max(round(y + h), 0))
    inside[rows, max(round(x), 0) : max(round(x + w), 0)] = True
    return inside


def polygon(points: Sequence[Point], height: int, width: int) -> np.ndarray:
    """Return the mask of a polygon, given by its corners; what sticks out of the frame is cut off."""
    canvas: np.ndarray = np.zeros((height, width), np.uint8)
    cv2.fillPoly(canvas, [np.array([(round(x), round(y)) for x, y in points], np.int32)], 1)
    return canvas.view(bool)


def image(path: Path, height: int, width: int) -> np.ndarray:
    """Return the mask in an image file, non-zero inside; SourceError or ParameterError where it does not fit."""
    found = read_image(path)
    if found.shape[:2] != (height, width):
        raise ParameterError(
            f"mask image '{path}' must have the size of the frames, {width}x{height}, "
            f"got {found.shape[1]}x{found.shape[0]}"
        )
    grey = found if found.ndim == 2 else found.max(axis=2)
    return grey > (_JPEG_SEAM if path.suffix.lower() in (".jpg", ".jpeg") else 0)


def bounding_box(inside: np.ndarray) -> tuple[slice, slice]:
    """Return the rows and the columns of the smallest box around the pixels of a mask; not all False."""
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)
