"""Pictures of errors."""

from __future__ import annotations

import numpy as np

from bgsub.errors import ParameterError
from bgsub.evaluation.metrics import MOVING, SHADOW, STATIC

_FALSE_ALARM = (40, 40, 230)
_MISS = (240, 110, 30)
_HIT = (70, 190, 70)


def error_image(frame: np.ndarray, mask: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Colour a frame by the errors of a mask: false alarms red, misses blue, hits green.

    Parameters
    ----------
    frame : ndarray, (h, w) or (h, w, 3), uint8
        The frame, grey or BGR.
    mask : ndarray, (h, w), uint8
        The answer, positive above 127.
    truth : ndarray, (h, w), uint8
        The true mask in the codes of changedetection.net; pixels that are not scored keep their colour.

    Returns
    -------
    ndarray, (h, w, 3), uint8
        A new BGR picture: the frame at half brightness, errors and hits laid over it.

    Raises
    ------
    ParameterError
        If the shapes do not fit or the frame is not uint8.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub.evaluation import error_image
    >>> frame, mask = np.zeros((48, 64), np.uint8), np.full((48, 64), 255, np.uint8)
    >>> blue, green, red = error_image(frame, mask, truth=np.zeros((48, 64), np.uint8))[0, 0]
    >>> bool(red > max(blue, green))  # a false alarm
    True
    """
    if frame.dtype != np.uint8 or frame.ndim not in (2, 3):
        raise ParameterError(f"frame must be (h, w) or (h, w, 3) of uint8, got {frame.shape} of {frame.dtype}")
    if not frame.shape[:2] == mask.shape == truth.shape:
        raise ParameterError(
            f"frame, mask and truth must have one size, got {frame.shape[:2]}, {mask.shape}, {truth.shape}"
        )
    grey = frame[..., np.newaxis] if frame.ndim == 2 else frame
    image = np.broadcast_to(grey // 2, (*mask.shape, 3)).copy()
    found = mask > 127
    negative = (truth == STATIC) | (truth == SHADOW)
    for where, colour in (
        (found & negative, _FALSE_ALARM),
        (~found & (truth == MOVING), _MISS),
        (found & (truth == MOVING), _HIT),
    ):
        image[where] = image[where] // 2 + np.array(colour, np.uint8) // 4 * 3
    return image
