"""The result of a scene model for one frame, passed from separation to learning and to the caller."""

from dataclasses import dataclass

import numpy as np

from bgsub._opencv import cv2
from bgsub.scene.background import Comparison
from bgsub.scene.engine import SweepEngine
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.reduction import Reduction
from bgsub.scene.registration import Movement
from bgsub.scene.segmentation import Segmenter
from bgsub.scene.stabiliser import to_frame
from bgsub.separation import FrameEvent, Phase


@dataclass(frozen=True, eq=False)
class ForegroundProbability:
    """A lazy map of the foreground probability: ``r^2 / (1 + r^2)``, ``r = residual / limit``, mean over a square."""

    # the cost of S. Geman and D. McClure (Statistical methods for tomographic image reconstruction, 1987)

    residual: np.ndarray  # (h, w) float32, joint residual, read only
    sigma: np.ndarray  # (h, w) float32, noise scale
    threshold: np.float32  # the limit is ``hypot(threshold, factor * sigma)``
    factor: np.float32
    side: int  # of the square, odd
    movement: Movement | None = None
    reduction: Reduction | None = None  # enlarges the map

    def __call__(self) -> np.ndarray:
        """Return the map, (H, W) float32 in [0, 1], in the coordinates and size of the frame."""
        counts = self.residual / np.hypot(self.threshold, self.factor * self.sigma)
        counts *= counts
        counts /= 1 + counts
        mean = cv2.blur(counts, (self.side, self.side), borderType=cv2.BORDER_REPLICATE)
        mean = to_frame(self.movement, mean.reshape(counts.shape), None, smooth=True)
        if self.reduction is not None:
            mean = self.reduction.enlarge_residual(mean)
        return np.clip(mean, 0, 1)  # running sums may round beyond


@dataclass(eq=False, slots=True)
class TrainingInput:
    """The input of learning from a frame, in the coordinates of the background."""

    pixels: np.ndarray  # (h, w, c), uint8 or float32
    known: np.ndarray | None  # (h, w) bool, known foreground
    mask: np.ndarray  # (h, w) uint8, a buffer
    compared: Comparison  # with the background after changes of the light


@dataclass(eq=False, slots=True)
class FrameResult:
    """Result of a scene model for one frame; valid until the next frame."""

    frames: FrameFormat
    pixels: np.ndarray  # (h, w, c), uint8 or float32
    mask: np.ndarray  # (h, w) uint8, in the coordinates of the frame, a buffer
    engine: SweepEngine
    segmenter: Segmenter
    phase: Phase
    movement: Movement | None = None
    training: TrainingInput | None = None  # None if nothing may be learned, as with a covered lens
    event: FrameEvent | None = None
    has_moved: bool = False  # whether the background was moved to the new place of the camera

    def picture(self) -> np.ndarray:
        """Return the background in the type of `pixels`, (h, w, c), in the coordinates of the frame."""
        return to_frame(self.movement, self.engine.picture, self.pixels, smooth=True)

    def residual(self) -> np.ndarray:
        """Return the joint colour residual, (h, w), float32."""
        if self.training is None:
            return np.zeros(self.mask.shape, np.float32)
        return to_frame(self.movement, self.engine.residual(), None, smooth=True)

    def probability(self, residual: np.ndarray, reduction: Reduction | None) -> ForegroundProbability | None:
        """Return the probability map; must be called before learning; None without `training`."""
        if self.training is None:
            return None
        residual = residual if self.movement is None else self.engine.residual()
        sigma = self.segmenter.noise.sigma.copy()
        limits = self.segmenter.limits
        return ForegroundProbability(residual, sigma, *limits, self.segmenter.side, self.movement, reduction)
