"""The moving camera undone: frames into the coordinates of the background, results back into those of the frame."""

from __future__ import annotations

import numpy as np

from bgsub._opencv import cv2
from bgsub.registration import Movement, Registration

_REFRESH = 50  # frames between two looks at the background


class Stabiliser:
    """Keep a stream in the coordinates of its background picture.

    A still camera costs one Gauss-Newton step on a few hundred points per frame. What a moved frame does not show of
    the background is filled from it, so that it neither is foreground nor is learned.
    """

    def __init__(self) -> None:
        self._registration = Registration()
        self._age = 0
        self.movement: Movement | None = None

    def needs_reference(self) -> bool:
        """Return whether the background should be given to `set_reference` again."""
        return self._age <= 0

    def set_reference(self, background: np.ndarray) -> None:
        """Take the background, (h, w, c), float32 in [0, 1]."""
        self._registration.set_reference(background)
        self._age = _REFRESH

    def align(self, frame: np.ndarray, x: np.ndarray, background: np.ndarray) -> np.ndarray:
        """Return the frame in the coordinates of the background; `frame` itself when the camera did not move.

        Parameters
        ----------
        frame : ndarray, (h, w) or (h, w, c)
            The frame.
        x : ndarray, (h, w, c), float32
            The same in [0, 1].
        background : ndarray, like `frame`
            Its background, for what the frame does not show.
        """
        self._age -= 1
        self.movement = self._registration.estimate(x)
        if self.movement is None:
            return frame
        return _warped(frame, background, self.movement.matrix(frame.shape), cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)

    def forth(self, known: np.ndarray) -> np.ndarray:
        """Return a boolean image, (h, w), of the last frame in the coordinates of the background."""
        if self.movement is None:
            return known
        flags = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
        image = known.astype(np.uint8)
        return _warped(image, np.zeros_like(image), self.movement.matrix(image.shape), flags) != 0

    def back(self, image: np.ndarray, outside: np.ndarray, *, smooth: bool) -> np.ndarray:
        """Return an image of the background's coordinates in those of the last frame.

        Parameters
        ----------
        image : ndarray, (h, w) or (h, w, c)
            Mask, residual or background.
        outside : ndarray, like `image`
            What stands where the background's picture does not reach.
        smooth : bool
            Whether values in between make sense, as they do not in a mask.
        """
        if self.movement is None:
            return image
        return _warped(
            image, outside, self.movement.matrix(image.shape), cv2.INTER_LINEAR if smooth else cv2.INTER_NEAREST
        )


def _warped(image: np.ndarray, outside: np.ndarray, matrix: np.ndarray, flags: int) -> np.ndarray:
    """Return `image` mapped by `matrix`, (2, 3), on a copy of `outside`."""
    wide = image.dtype == np.float16  # which OpenCV does not map
    source, target = (image.astype(np.float32), outside.astype(np.float32)) if wide else (image, outside.copy())
    h, w = image.shape[:2]
    result = cv2.warpAffine(source, matrix, (w, h), dst=target, flags=flags, borderMode=cv2.BORDER_TRANSPARENT)
    return result.reshape(image.shape).astype(image.dtype, copy=False)
