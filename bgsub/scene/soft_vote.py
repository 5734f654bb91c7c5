"""The vote of the segmenter without its threshold: how sure each pixel and its neighbours are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgsub._opencv import cv2
from bgsub.scene.reduction import Reduction
from bgsub.scene.registration import Movement
from bgsub.scene.stabiliser import to_frame


@dataclass(frozen=True, eq=False)
class SoftVote:
    """What a soft map of one frame is made of, should anybody ask for it: copies of what later frames overwrite.

    A residual d counts ``r^2 / (1 + r^2)`` with ``r = d / max(threshold, factor * sigma)``: 0 for none, 0.5 at the
    limit of a candidate, 1 far beyond it. Where the hard vote asks whether most of a square are candidates, this is
    the mean over the same square.

    Attributes
    ----------
    residual, sigma : ndarray, (h, w), float32
        Joint residual and noise scale, in the coordinates of the background; read only.
    threshold, factor : float32
        As of `Shot`.
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
