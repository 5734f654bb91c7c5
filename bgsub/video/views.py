"""Views: pictures of a separation for outputs and windows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.separation import FOREGROUND, SHADOW, Separation
from bgsub.video.text_overlay import add_caption

# Residuals of interest lie between the noise, about 0.02 of full scale, and 0.25.
RESIDUAL_GAIN = 4.0

PANEL_TILES = 2  # per row and column

_CAPTION_MIN_WIDTH = 80
_FOREGROUND_COLOUR, _SHADOW_COLOUR = (80, 80, 255), (255, 160, 80)  # blue first
_TINT = 0.45


def to_uint8(image: np.ndarray) -> np.ndarray:
    """Convert an image to 8 bit.

    Parameters
    ----------
    image : ndarray, any shape, uint8, uint16 or floating
        Full scale is 255, 65535 and 1.0; floating values outside are clipped, NaN becomes 0.

    Returns
    -------
    ndarray, shape of `image`, uint8

    Raises
    ------
    ParameterError
        If the dtype is not supported.
    """
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.uint16:
        return ((image.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if np.issubdtype(image.dtype, np.floating):
        scaled = np.nan_to_num(image, nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1) * 255
        return np.rint(scaled).astype(np.uint8)
    raise ParameterError(f"an image must be uint8, uint16 or floating, got {image.dtype}")


def to_bgr8(image: np.ndarray) -> np.ndarray:
    """Convert an image to 8 bit colour.

    Parameters
    ----------
    image : ndarray, (h, w) or (h, w, c) with c 1, 3 or 4, uint8, uint16 or floating
        A fourth channel is dropped.

    Returns
    -------
    ndarray, (h, w, 3), uint8
        Blue first.
    """
    image = to_uint8(image)
    if image.ndim == 2 or image.shape[2] == 1:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    return np.ascontiguousarray(image[:, :, :3])


def _residual(separation: Separation) -> np.ndarray:
    return to_uint8(separation.residual * RESIDUAL_GAIN)


def _probability(separation: Separation) -> np.ndarray:
    """Return the probability times 255, rounded so that foreground, above 0.5, is above 127."""
    return np.ceil(separation.probability * np.float32(255) - np.float32(0.5)).astype(np.uint8)


def _cutout(separation: Separation) -> np.ndarray:
    """Return the frame in 8 bit colour with the foreground as alpha channel."""
    alpha = np.where(separation.mask == FOREGROUND, np.uint8(255), np.uint8(0))
    return np.dstack([to_bgr8(separation.frame), alpha])


def annotated(separation: Separation, picture: np.ndarray, tiles: int = 1) -> np.ndarray:
    """Draw the detected objects, if any are known, onto a picture, (h, w, 3) uint8.

    The picture consists of `tiles` x `tiles` pictures of the frame.
    """
    return picture if separation.annotate is None else separation.annotate(picture, tiles)


def _overlay(separation: Separation) -> np.ndarray:
    """Return the frame with foreground tinted red and shadow blue."""
    image = to_bgr8(separation.frame).copy()
    for label, colour in ((FOREGROUND, _FOREGROUND_COLOUR), (SHADOW, _SHADOW_COLOUR)):
        where = separation.mask == label
        image[where] = np.rint((1 - _TINT) * image[where] + _TINT * np.array(colour)).astype(np.uint8)
    return annotated(separation, image)


def _contours(separation: Separation) -> np.ndarray:
    """Return the frame with the outlines of the foreground."""
    image = to_bgr8(separation.frame).copy()
    foreground = np.equal(separation.mask, FOREGROUND).astype(np.uint8)
    outlines, _ = cv2.findContours(foreground, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(image, outlines, -1, _FOREGROUND_COLOUR, max(1, round(image.shape[1] / 640)))
    return annotated(separation, image)


def _panel(separation: Separation) -> np.ndarray:
    """Return input and background above foreground and mask, with captions if there is room."""
    tiles = {
        "input": separation.frame,
        "background": separation.background,
        "foreground": separation.foreground,
        "mask": separation.mask,
    }
    images = [_captioned(to_bgr8(image), caption) for caption, image in tiles.items()]
    return annotated(separation, np.vstack([np.hstack(images[:2]), np.hstack(images[2:])]), PANEL_TILES)


def _captioned(image: np.ndarray, caption: str) -> np.ndarray:
    width = image.shape[1]
    if width < _CAPTION_MIN_WIDTH:
        return image
    return add_caption(image, caption, max(0.35, width / 1000))


VIEWS: dict[str, Callable[[Separation], np.ndarray]] = {
    "mask": lambda separation: separation.mask,
    "background": lambda separation: separation.background,
    "foreground": lambda separation: separation.foreground,
    "residual": _residual,
    "probability": _probability,
    "cutout": _cutout,
    "overlay": _overlay,
    "contours": _contours,
    "panel": _panel,
    "boxes": lambda separation: annotated(separation, to_bgr8(separation.frame)),
    "input": lambda separation: separation.frame,
}
"""The views by name, each a function of a `Separation`.

``mask`` (h, w) uint8; ``input``, ``background`` and ``foreground`` in shape and dtype of the frame; ``residual`` (h, w)
uint8, 4 times the residual of full scale 1.0, saturating at 255; ``probability`` (h, w) uint8, times
255; ``cutout`` (h, w, 4) uint8, the frame with the foreground as alpha channel (0 or 255); ``overlay`` (foreground
tinted) and ``contours`` (outlined) (h, w, 3) uint8; ``panel`` (2h, 2w, 3) uint8; ``boxes`` the frame with the
detected objects, (h, w, 3) uint8. The last four show boxes if the separation can `annotate`, and small frames are then
enlarged.
"""


def get_view(name: str) -> Callable[[Separation], np.ndarray]:
    """Return the view of that name; `ParameterError` lists the allowed ones."""
    if name not in VIEWS:
        raise ParameterError(f"view must be one of {', '.join(VIEWS)}, got {name!r}")
    return VIEWS[name]
