"""Cast shadows: darker than the background by a common factor, with the background's texture still in them."""

from __future__ import annotations

import numpy as np

from bgsub.numerics.threads import in_bands
from bgsub.scene import _shadows_kernels

# Least and largest factor, as a black object is darker than shadows are; joint distance from the background times the
# factor; root mean square disagreement of the brightness nearby.
_COLOURED = np.float32(0.35), np.float32(0.97), np.float32(0.02), np.float32(0.04)
_GREY = np.float32(0.5), np.float32(0.97), np.float32(0.02), np.float32(0.01)
_SIDE = 11  # pixels of the vote
_SPREAD = 0.03  # most by which the channels of a grey pixel differ, coded as it may be
_STRAY, _SAMPLES = 0.01, 1000  # share of a grey picture that may be coloured; pixels that are looked at
_OBJECT = np.float32(0.6)  # share of the foreground nearby that must be object for a dark pixel to belong to it


def has_colour(image: np.ndarray, scale: float) -> bool:
    """Return whether more than a few pixels of an image, (h, w, c), ``scale`` times it in [0, 1], are no grey.

    Looks at some thousand of them.
    """
    if image.shape[2] < 3:
        return False
    step = max(image.shape[0] * image.shape[1] // _SAMPLES, 1)
    one, two, three = image.reshape(-1, image.shape[2])[::step, :3].T  # one by one: a maximum over an axis is slow
    spread = np.maximum(np.maximum(one, two), three) - np.minimum(np.minimum(one, two), three)
    return bool(np.count_nonzero(spread > _SPREAD / scale) > _STRAY * spread.size)


class ShadowDetector:
    """Find the foreground pixels that are cast shadows.

    A pixel is dark when it is its background times one factor in all channels (Horprasert et al., 1999), and object
    when it is not, or when the texture around it disagrees. Dark parts of objects have objects around them: a dark
    pixel is shadow where the vote of the foreground nearby is not for an object. Before a grey background everything
    darker has its colour, so that factor and texture have tighter limits there, be the channels one or three.

    Parameters
    ----------
    shape : tuple of int
        (h, w) of the frames.
    bands : int, default 1
        Bands of rows that are looked at at the same time.
    """

    def __init__(self, shape: tuple[int, int], bands: int = 1) -> None:
        self._bands = bands
        self._dark, self._other = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self._boxes = np.empty((bands, 4), np.int64)
        self._columns = np.empty((bands, 2, shape[1] + _SIDE - 1), np.uint16)
        self._counts = np.empty((bands, 2, shape[1]), np.uint16)

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
        dark, other, boxes = self._dark, self._other, self._boxes
        height, width = mask.shape
        boxes[:] = height, 0, width, 0
        limits = _COLOURED if has_colour(background, scale) else _GREY
        inputs = x, background, np.float32(scale), mask

        def classify(begin: int, end: int, band: int) -> None:
            _shadows_kernels.classify(begin, end, *inputs, *limits, dark, other, boxes[band])

        in_bands(classify, height, self._bands)
        box = np.where([True, False, True, False], boxes.min(axis=0), boxes.max(axis=0))
        if box[1] == 0:
            return None

        def vote(begin: int, end: int, band: int) -> None:
            part = np.array([box[0] + begin, box[0] + end, box[2], box[3]])
            work = self._columns[band], self._counts[band]
            _shadows_kernels.outvoted(part, mask, other, dark, _SIDE, _OBJECT, *work)

        in_bands(vote, int(box[1] - box[0]), self._bands)
        return dark
