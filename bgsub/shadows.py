"""Cast shadows: darker than the background by a common factor, with the background's texture still in them."""

from __future__ import annotations

import numpy as np

from bgsub import _shadow_kernels
from bgsub._opencv import cv2

_DARKEST, _FAINTEST = np.float32(0.35), np.float32(0.97)  # factor; a black object is darker than shadows are
_COLOUR = np.float32(0.02)  # joint distance from the background times the factor
_TEXTURE = np.float32(0.04)  # root mean square disagreement of the brightness nearby
_SIDE = 11  # pixels of the vote
_OBJECT = 0.6  # share of the foreground nearby that must be object for a dark pixel to belong to it


def find_shadows(x: np.ndarray, background: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return which foreground pixels are shadow, (h, w) bool.

    A pixel is dark when it is its background times one factor in all channels (Horprasert et al., 1999), and object
    when it is not, or when the texture around it disagrees. Dark parts of objects have objects around them: a dark
    pixel is shadow where the vote of the foreground nearby is not for an object.

    Parameters
    ----------
    x, background : ndarray, (h, w, c), float32
        Frame and background in [0, 1].
    mask : ndarray, (h, w), uint8
        0 background, others foreground.
    """
    channels = x.shape[2]
    dark, other = np.zeros_like(mask), np.zeros_like(mask)
    index = np.flatnonzero(mask)
    _shadow_kernels.darkened(
        x.reshape(-1, channels),
        background.reshape(-1, channels),
        index,
        _DARKEST,
        _FAINTEST,
        _COLOUR,
        dark.reshape(-1),
    )
    if not dark.any():
        return dark.view(bool)
    _shadow_kernels.disagrees(x, background, index, mask, dark, _TEXTURE, other)
    return (dark != 0) & (_count(other) <= _OBJECT * _count((mask != 0).view(np.uint8)))


def _count(image: np.ndarray) -> np.ndarray:
    """Return how many pixels of an image of 0 and 1 are set in the square around each."""
    return cv2.boxFilter(image, cv2.CV_16U, (_SIDE, _SIDE), normalize=False, borderType=cv2.BORDER_CONSTANT)
