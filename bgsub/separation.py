"""The result of separating one frame, shared by the subtractor, the sinks and the scores."""

from __future__ import annotations

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


Phase = Literal["start", "tracking"]
"""Which model serves: what the first frames showed most, or the tracked subspace."""


class FrameEvent(StrEnum):
    """Something that happened to the whole frame.

    It is a text as well: ``"light-change"``, the light of much of the picture changed at once; ``"covered"``, there is
    nothing to be seen, and the model learns nothing; ``"scene-change"``, a cut or a broken frame, with which a new
    model begins; ``"scene-return"``, the scene before is back, and so is its model.

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
    """One frame, split into background and foreground.

    Attributes
    ----------
    frame : ndarray, (h, w) or (h, w, c), uint8, uint16 or floating
        The frame as it was given; of `BackgroundSubtractor.process` a copy, which belongs to the separation.
    mask : ndarray, (h, w), uint8
        0 background, 127 shadow, 255 foreground.
    background : ndarray, shape and dtype of `frame`
        The low-rank part ``l = U y`` in the units of the frame.
    residual : ndarray, (h, w), float32
        Joint colour residual ``|x - l|`` of each pixel; 1 is full scale.
    coefficients : ndarray, (k,), float64
        The coefficients ``y`` of the background in the subspace; empty before the batch start.
    phase : {"start", "tracking"}
        Which model made the mask.
    event : FrameEvent or None
        Something that happened to the whole frame.
    soft_vote : callable or None
        Makes what `probability` is made of, (h, w) float32 in [0, 1]; not called unless somebody asks for that.
    annotate : callable or None
        Writes what was found in the frame onto a picture of it, where somebody follows that; called with the picture,
        (h, w, 3) uint8 at any scale, and how many of them lie side by side and above each other. See
        `bgsub.events.AnnotatingSink`.

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
        """How sure each pixel is to be foreground, (h, w) float32 in [0, 1]: for a threshold of one's own.

        The mean over the square of the vote of how far residuals reach beyond their pixel's limit (none 0, at the
        limit 0.5, far beyond 1; see `bgsub.scene.frame_result`). The mask decides the side: above 0.5 where it says
        foreground and nowhere else, whatever vote, shadows and least areas made of the residuals. It ranks pixels and
        is not calibrated. Made at the first access; without a `soft_vote`, 1 on the foreground and 0 elsewhere.
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
