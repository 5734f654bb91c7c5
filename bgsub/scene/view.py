"""What a scene model makes of one frame: the value that goes from separating to learning and to the caller."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bgsub.scene.engine import Canvas
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.reduction import Reduction
from bgsub.scene.registration import Movement
from bgsub.scene.segmentation import Segmenter
from bgsub.scene.soft_vote import SoftVote
from bgsub.scene.stabiliser import to_frame
from bgsub.separation import FrameEvent, Phase
from bgsub.tracking.subspace import Influence


@dataclass(frozen=True, eq=False)
class Seen:
    """What a model can learn from a frame, in the coordinates of the background.

    Attributes
    ----------
    pixels : ndarray, (h, w, c), uint8 or float32
        The frame.
    known : ndarray of bool, (h, w), or None
        Pixels that are known to be foreground.
    mask : ndarray, (h, w), uint8
        A buffer.
    influence : Influence or None
        For the subspace; None during the start.
    """

    pixels: np.ndarray
    known: np.ndarray | None
    mask: np.ndarray
    influence: Influence | None


@dataclass(frozen=True, eq=False)
class View:
    """What a scene model makes of one frame; valid until the model sees the next one.

    Attributes
    ----------
    frames : FrameFormat
        What the frames look like.
    pixels : ndarray, (h, w, c), uint8 or float32
        The frame as the engine works on it.
    mask : ndarray, (h, w), uint8
        In the coordinates of the frame; a buffer.
    canvas : Canvas
        Residual and background.
    segmenter : Segmenter
        Whose noise scale decided.
    phase : {"start", "tracking"}
        Which model the frame was seen by.
    movement : Movement or None
        Of the camera.
    seen : Seen or None
        What there is to learn; None where the frame shows nothing.
    event : FrameEvent or None
        What happened to the whole frame.
    """

    frames: FrameFormat
    pixels: np.ndarray
    mask: np.ndarray
    canvas: Canvas
    segmenter: Segmenter
    phase: Phase
    movement: Movement | None = None
    seen: Seen | None = None
    event: FrameEvent | None = None

    def picture(self) -> np.ndarray:
        """Return the background as the engine works on it, (h, w, c), in the coordinates of the frame."""
        return to_frame(self.movement, self.canvas.picture, self.pixels, smooth=True)

    def background(self) -> np.ndarray:
        """Return the background, like the frame, in the coordinates of the frame."""
        return self.frames.from_pixels(self.picture())

    def residual(self) -> np.ndarray:
        """Return the joint colour residual, (h, w), float32."""
        if self.seen is None:
            return np.zeros(self.mask.shape, np.float32)
        residual = to_frame(self.movement, self.canvas.residual, None, smooth=True)
        return residual.copy() if residual is self.canvas.residual else residual

    def soft_vote(self, residual: np.ndarray, reduction: Reduction | None) -> SoftVote | None:
        """Return how sure the mask is, before anything is learned from it; None where the frame shows nothing.

        `residual` is what the method `residual` returned: kept, not copied, where the camera stood still.
        """
        if self.seen is None:
            return None
        vote = self.segmenter.soft_vote(residual if self.movement is None else self.canvas.residual.copy())
        return replace(vote, movement=self.movement, reduction=reduction)
