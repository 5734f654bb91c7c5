"""The result of a scene model for one frame, passed from separation to learning and to the caller."""

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
    """A lazy map of the foreground probability of one frame.

    A residual d counts ``r^2 / (1 + r^2)`` with ``r = d / max(threshold, factor * sigma)``: 0 for none, 0.5 at the
    limit of a candidate, 1 far beyond it. The map is the mean over the square of the majority filter.

    Attributes
    ----------
    residual, sigma : ndarray, (h, w), float32
        Joint residual and noise scale, in the coordinates of the background; read only.
    threshold, factor : float32
        As in `FrameInput`.
    side : int
        Side of the square, odd.
    movement : Movement or None
        Movement of the camera.
    reduction : Reduction or None
        Enlarges the map if the frames are reduced.

    Notes
    -----
    The cost of S. Geman and D. McClure (Statistical methods for tomographic image reconstruction, Bull. ISI 52(4),
    1987). The map ranks pixels and is not calibrated.
    """

    residual: np.ndarray
    sigma: np.ndarray
    threshold: np.float32
    factor: np.float32
    side: int
    movement: Movement | None = None
    reduction: Reduction | None = None

    def __call__(self) -> np.ndarray:
        """Return the mean counts, (H, W) float32 in [0, 1], in the coordinates and size of the frame."""
        counts = self.residual / np.maximum(self.threshold, self.factor * self.sigma)
        counts *= counts
        counts /= 1 + counts
        mean = cv2.blur(counts, (self.side, self.side), borderType=cv2.BORDER_REPLICATE)
        mean = to_frame(self.movement, mean.reshape(counts.shape), None, smooth=True)
        if self.reduction is not None:
            mean = self.reduction.enlarge_residual(mean)
        return np.clip(mean, 0, 1)  # running sums may round beyond


@dataclass(frozen=True, eq=False)
class TrainingInput:
    """The input of learning from a frame, in the coordinates of the background.

    Attributes
    ----------
    pixels : ndarray, (h, w, c), uint8 or float32
        The frame.
    known : ndarray of bool, (h, w), or None
        Known foreground.
    mask : ndarray, (h, w), uint8
        A buffer.
    update : SubspaceUpdate or None
        Update of the subspace; None during the start.
    """

    pixels: np.ndarray
    known: np.ndarray | None
    mask: np.ndarray
    update: SubspaceUpdate | None


@dataclass(frozen=True, eq=False)
class FrameResult:
    """Result of a scene model for one frame; valid until the next frame.

    Attributes
    ----------
    frames : FrameFormat
        Format of the frames.
    pixels : ndarray, (h, w, c), uint8 or float32
        The frame, see `FrameFormat.to_pixels`.
    mask : ndarray, (h, w), uint8
        In the coordinates of the frame; a buffer.
    buffers : FrameBuffers
        Residual and background.
    segmenter : Segmenter
        Its noise scale and limits made the mask.
    phase : {"start", "tracking"}
        Phase of the model.
    movement : Movement or None
        Movement of the camera.
    training : TrainingInput or None
        Input of learning; None if the lens is covered.
    event : FrameEvent or None
        Event of the whole frame.
    """

    frames: FrameFormat
    pixels: np.ndarray
    mask: np.ndarray
    buffers: FrameBuffers
    segmenter: Segmenter
    phase: Phase
    movement: Movement | None = None
    training: TrainingInput | None = None
    event: FrameEvent | None = None

    def picture(self) -> np.ndarray:
        """Return the background in the type of `pixels`, (h, w, c), in the coordinates of the frame."""
        return to_frame(self.movement, self.buffers.picture, self.pixels, smooth=True)

    def background(self) -> np.ndarray:
        """Return the background, like the frame, in the coordinates of the frame."""
        return self.frames.from_pixels(self.picture())

    def residual(self) -> np.ndarray:
        """Return the joint colour residual, (h, w), float32."""
        if self.training is None:
            return np.zeros(self.mask.shape, np.float32)
        residual = to_frame(self.movement, self.buffers.residual, None, smooth=True)
        return residual.copy() if residual is self.buffers.residual else residual

    def probability(self, residual: np.ndarray, reduction: Reduction | None) -> ForegroundProbability | None:
        """Return the probability map before anything is learned from the frame; None if the lens is covered.

        `residual` is the result of the method `residual`; it is kept without a copy if the camera did not move.
        """
        if self.training is None:
            return None
        residual = residual if self.movement is None else self.buffers.residual.copy()
        sigma = self.segmenter.noise.sigma.copy()
        limits = self.segmenter.limits
        return ForegroundProbability(residual, sigma, *limits, self.segmenter.side, self.movement, reduction)
