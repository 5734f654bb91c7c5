"""What replaces the background of a picture."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.separation import FOREGROUND, Separation
from bgsub.video._quiet import quiet
from bgsub.video.views import to_bgr8

BLUR = "blur"

_COLOUR = re.compile(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})", re.IGNORECASE)
_EDGE_SIGMA = 1.0  # pixels; the edge is soft over some 2 pixels to each side
_BLURRED_WIDTH = 80  # pixels; a blurred picture needs no more

Backdrop = Callable[[Separation], np.ndarray]


def make_backdrop(spec: str | os.PathLike[str]) -> Backdrop:
    """Return a function from a separation to the (h, w, 3) uint8 picture behind its foreground.

    Parameters
    ----------
    spec : str or path
        ``"blur"``, the background out of focus; ``"#rrggbb"``, a colour; or an image file, which covers the
        picture and is cut at the sides where its proportions differ.

    Raises
    ------
    ParameterError
        If it is none of them.
    """
    text = os.fspath(spec)
    if text == BLUR:
        return _blurred
    colour = _COLOUR.fullmatch(text)
    if colour is not None:
        return _Still(np.array([[[int(part, 16) for part in colour.groups()[::-1]]]], np.uint8))
    with quiet():
        image = None if text.startswith("#") else cv2.imread(text, cv2.IMREAD_COLOR)
    if image is None:
        raise ParameterError(f"a backdrop is '{BLUR}', a colour such as '#00b140' or an image file, got '{text}'")
    return _Still(image)


def compose(separation: Separation, backdrop: Backdrop) -> np.ndarray:
    """Return the foreground of a separation in front of a backdrop, with a soft edge: (h, w, 3) uint8, blue first."""
    alpha = np.equal(separation.mask, FOREGROUND).astype(np.float32)
    alpha = cv2.GaussianBlur(alpha, (0, 0), _EDGE_SIGMA)
    return cv2.blendLinear(to_bgr8(separation.frame), backdrop(separation), alpha, 1 - alpha)


def _blurred(separation: Separation) -> np.ndarray:
    image = to_bgr8(separation.background)
    height, width = image.shape[:2]
    shrink = max(1.0, width / _BLURRED_WIDTH)
    small = cv2.resize(image, (round(width / shrink), max(1, round(height / shrink))), interpolation=cv2.INTER_AREA)
    return cv2.resize(cv2.GaussianBlur(small, (0, 0), 1.5), (width, height), interpolation=cv2.INTER_LINEAR)


class _Still:
    """A picture that covers frames of any size, fitted once."""

    def __init__(self, image: np.ndarray) -> None:
        self._image = image
        self._fitted = image

    def __call__(self, separation: Separation) -> np.ndarray:
        height, width = separation.mask.shape
        if self._fitted.shape[:2] != (height, width):
            self._fitted = _cover(self._image, width, height)
        return self._fitted


def _cover(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """Resize an image so that it covers a rectangle, and cut what is too much."""
    scale = max(width / image.shape[1], height / image.shape[0])
    size = max(width, round(image.shape[1] * scale)), max(height, round(image.shape[0] * scale))
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    return np.ascontiguousarray(image[top : top + height, left : left + width])
