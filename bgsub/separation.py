"""The result of background subtraction for one frame."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

BACKGROUND = 0
SHADOW = 127
FOREGROUND = 255
_HALF = np.float32(0.5)
_ABOVE_HALF = np.nextafter(_HALF, np.float32(1))


#: Model of the background: the most frequent colours of the first frames, or the tracked subspace.
Phase = Literal["start", "tracking"]


class FrameEvent(StrEnum):
    """An event of the whole frame, which is a string as well.

    ``"light-change"``: the light of much of the picture changed at once. ``"covered"``: the camera is covered, and the
    model learns nothing. ``"scene-change"``: a cut or a broken frame, at which a new model begins. ``"scene-return"``:
    one of the last scenes is back, and so is its model.

    Examples
    --------
    >>> import bgsub
    >>> bgsub.FrameEvent.COVERED == "covered"
    True
    """

    LIGHT_CHANGE = "light-change"
    COVERED = "covered"
    SCENE_CHANGE = "scene-change"
    SCENE_RETURN = "scene-return"


@dataclass(frozen=True, eq=False)
class Separation:
    """The separation of a frame into background and foreground.

    Attributes
    ----------
    frame : ndarray, (h, w) or (h, w, c), uint8, uint16 or floating
        The frame; `BackgroundSubtractor.process` copies it.
    mask : ndarray, (h, w), uint8
        0 background, 127 shadow, 255 foreground.
    background : ndarray, shape and dtype of `frame`
        The low-rank part ``l = U y`` in the units of the frame.
    residual : ndarray, (h, w), float32
        Joint colour residual ``|x - l|`` of each pixel; 1 is full scale.
    coefficients : ndarray, (k,), float64
        The coefficients ``y`` of the background in the subspace; empty in the start phase.
    phase : {"start", "tracking"}
        Model that made the mask.
    event : FrameEvent or None
        Event of the whole frame.
    soft_vote : callable or None
        Returns the votes for `probability`, (h, w) float32 in [0, 1]; called only by that property.
    annotate : callable or None
        Draws the detected objects onto a picture of the frame; called with the picture, (h, w, 3) uint8 at any scale,
        and the number of tiles per row and column. See `bgsub.events.AnnotatingSink`.

    Examples
    --------
    >>> import bgsub
    >>> import numpy as np
    >>> separation = bgsub.BackgroundSubtractor().process(np.zeros((48, 64, 3), np.uint8))
    >>> separation.mask.shape, separation.background.shape, separation.residual.dtype, separation.share
    ((48, 64), (48, 64, 3), dtype('float32'), 0.0)
    """

    frame: np.ndarray
    mask: NDArray[np.uint8]
    background: np.ndarray
    residual: NDArray[np.float32]
    coefficients: NDArray[np.float64]
    phase: Phase
    event: FrameEvent | None = None
    soft_vote: Callable[[], NDArray[np.float32]] | None = field(default=None, repr=False)
    annotate: Callable[[np.ndarray, int], np.ndarray] | None = field(default=None, repr=False)

    @property
    def foreground(self) -> np.ndarray:
        """The frame where the mask says foreground and zero elsewhere; shape and dtype of `frame`."""
        keep = self.mask == FOREGROUND
        if self.frame.ndim == 3:
            keep = keep[:, :, np.newaxis]
        return np.where(keep, self.frame, 0).astype(self.frame.dtype, copy=False)

    @cached_property
    def probability(self) -> NDArray[np.float32]:
        """Foreground score of each pixel, (h, w) float32 in [0, 1], for custom thresholds.

        The mean over a square of how far the residuals exceed the limits of their pixels (0 far below, 0.5 at the
        limit, 1 far beyond). It is above 0.5 on the foreground of the mask and nowhere else. The score ranks pixels
        and is not a calibrated probability. It is computed at the first access; without `soft_vote` it is 1 on the
        foreground and 0 elsewhere.
        """
        foreground = self.mask == FOREGROUND
        if self.soft_vote is None:
            return foreground.astype(np.float32)
        vote = self.soft_vote()
        return np.where(foreground, np.maximum(vote, _ABOVE_HALF), np.minimum(vote, _HALF))

    @cached_property
    def share(self) -> float:
        """Share of the pixels that are foreground, in [0, 1]."""
        return float(np.count_nonzero(self.mask == FOREGROUND)) / max(self.mask.size, 1)
