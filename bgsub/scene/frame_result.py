"""What a scene model makes of one frame: the value that goes from separating to learning and to the caller."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgsub._opencv import cv2
from bgsub.scene.engine import FrameBuffers
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.reduction import Reduction
from bgsub.scene.registration import Movement
from bgsub.scene.segmentation import Segmenter
from bgsub.scene.stabiliser import to_frame
from bgsub.separation import FrameEvent, Phase
from bgsub.tracking.subspace import SubspaceUpdate


@dataclass(frozen=True, eq=False)
class ForegroundProbability:
    """What a soft map of one frame is made of, should anybody ask for it: copies of what later frames overwrite.

    A residual d counts ``r^2 / (1 + r^2)`` with ``r = d / max(threshold, factor * sigma)``: 0 for none, 0.5 at the
    limit of a candidate, 1 far beyond it. Where the hard vote asks whether most of a square are candidates, this is
    the mean over the same square.

    Attributes
    ----------
    residual, sigma : ndarray, (h, w), float32
        Joint residual and noise scale, in the coordinates of the background; read only.
    threshold, factor : float32
        As of `FrameInput`.
    side : int
        Side of the square, odd.
    movement : Movement or None
        Of the camera.
    reduction : Reduction or None
        The way to full size, where the frames are reduced.

    Notes
    -----
    The cost of S. Geman and D. McClure (Statistical methods for tomographic image reconstruction, Bull. ISI 52(4),
    1987). Not calibrated: an order, and the side of the mask.
    """

    residual: np.ndarray
    sigma: np.ndarray
    threshold: np.float32
    factor: np.float32
    side: int
    movement: Movement | None = None
    reduction: Reduction | None = None

    def __call__(self) -> np.ndarray:
        """Return the mean counts, (H, W) float32 in [0, 1], in the coordinates and the size of the frame."""
        counts = self.residual / np.maximum(self.threshold, self.factor * self.sigma)
        counts *= counts
        counts /= 1 + counts
        mean = cv2.blur(counts, (self.side, self.side), borderType=cv2.BORDER_REPLICATE)
        mean = to_frame(self.movement, mean.reshape(counts.shape), None, smooth=True)
        if self.reduction is not None:
            mean = self.reduction.enlarge_residual(mean)
        return np.clip(mean, 0, 1)  # running sums round


@dataclass(frozen=True, eq=False)
class TrainingInput:
    """What a model can learn from a frame, in the coordinates of the background.

    Attributes
    ----------
    pixels : ndarray, (h, w, c), uint8 or float32
        The frame.
    known : ndarray of bool, (h, w), or None
        Pixels that are known to be foreground.
    mask : ndarray, (h, w), uint8
        A buffer.
    influence : SubspaceUpdate or None
        For the subspace; None during the start.
    """

    pixels: np.ndarray
    known: np.ndarray | None
    mask: np.ndarray
    influence: SubspaceUpdate | None


@dataclass(frozen=True, eq=False)
class FrameResult:
    """What a scene model makes of one frame; valid until the model sees the next one.

    Attributes
    ----------
    frames : FrameFormat
        What the frames look like.
    pixels : ndarray, (h, w, c), uint8 or float32
        The frame as the engine works on it.
    mask : ndarray, (h, w), uint8
        In the coordinates of the frame; a buffer.
    buffers : FrameBuffers
        Residual and background.
    segmenter : Segmenter
        Whose noise scale decided.
    phase : {"start", "tracking"}
        Which model the frame was seen by.
    movement : Movement or None
        Of the camera.
    seen : TrainingInput or None
        What there is to learn; None where the frame shows nothing.
    event : FrameEvent or None
        What happened to the whole frame.
    """

    frames: FrameFormat
    pixels: np.ndarray
    mask: np.ndarray
    buffers: FrameBuffers
    segmenter: Segmenter
    phase: Phase
    movement: Movement | None = None
    seen: TrainingInput | None = None
    event: FrameEvent | None = None

    def picture(self) -> np.ndarray:
        """Return the background as the engine works on it, (h, w, c), in the coordinates of the frame."""
        return to_frame(self.movement, self.buffers.picture, self.pixels, smooth=True)

    def background(self) -> np.ndarray:
        """Return the background, like the frame, in the coordinates of the frame."""
        return self.frames.from_pixels(self.picture())

    def residual(self) -> np.ndarray:
        """Return the joint colour residual, (h, w), float32."""
        if self.seen is None:
            return np.zeros(self.mask.shape, np.float32)
        residual = to_frame(self.movement, self.buffers.residual, None, smooth=True)
        return residual.copy() if residual is self.buffers.residual else residual

    def soft_vote(self, residual: np.ndarray, reduction: Reduction | None) -> ForegroundProbability | None:
        """Return how sure the mask is, before anything is learned from it; None where the frame shows nothing.

        `residual` is what the method `residual` returned: kept, not copied, where the camera stood still.
        """
        if self.seen is None:
            return None
        residual = residual if self.movement is None else self.buffers.residual.copy()
        sigma = self.segmenter.noise.sigma.copy()
        limits = self.segmenter.limits
        return ForegroundProbability(residual, sigma, *limits, self.segmenter.side, self.movement, reduction)
