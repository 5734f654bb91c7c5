"""Cast shadows: darker than the background by a common factor, with the background's texture still in them."""

from __future__ import annotations

import numpy as np

from bgsub import _shadow_kernels

_DARKEST, _FAINTEST = np.float32(0.35), np.float32(0.97)  # factor; a black object is darker than shadows are
_COLOUR = np.float32(0.02)  # joint distance from the background times the factor
_TEXTURE = np.float32(0.04)  # root mean square disagreement of the brightness nearby
_SIDE = 11  # pixels of the vote
_OBJECT = np.float32(0.6)  # share of the foreground nearby that must be object for a dark pixel to belong to it


class ShadowDetector:
    """Find the foreground pixels that are cast shadows.

    A pixel is dark when it is its background times one factor in all channels (Horprasert et al., 1999), and object
    when it is not, or when the texture around it disagrees. Dark parts of objects have objects around them: a dark
    pixel is shadow where the vote of the foreground nearby is not for an object.

    Parameters
    ----------
    shape : tuple of int
        (h, w) of the frames.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._dark, self._other = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self._box = np.empty(4, np.int64)
        self._columns = np.empty((2, shape[1] + _SIDE - 1), np.uint16)
        self._counts = np.empty((2, shape[1]), np.uint16)

    def find(self, x: np.ndarray, background: np.ndarray, mask: np.ndarray, scale: float = 1.0) -> np.ndarray | None:
        """Return where the foreground is shadow, (h, w) uint8 of 0 and 1, a buffer; None when nowhere.

        Parameters
        ----------
        x, background : ndarray, (h, w, c), any real dtype
            Frame and background.
        mask : ndarray, (h, w), uint8
            0 background, others foreground.
        scale : float, default 1
            ``scale`` times frame and background is in [0, 1].
        """
        dark, other, box = self._dark, self._other, self._box
        height, width = mask.shape
        box[:] = height, 0, width, 0
        limits = _DARKEST, _FAINTEST, _COLOUR, _TEXTURE
        _shadow_kernels.classify(0, height, x, background, np.float32(scale), mask, *limits, dark, other, box)
        if box[1] == 0:
            return None
        _shadow_kernels.outvoted(box, mask, other, dark, _SIDE, _OBJECT, self._columns, self._counts)
        return dark
