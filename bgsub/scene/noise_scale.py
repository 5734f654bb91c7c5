"""The noise scale of every pixel: learned from what is speckled, not from what is solid."""

from __future__ import annotations

import numpy as np

from bgsub._opencv import cv2
from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.numerics.threads import copied, in_bands
from bgsub.scene import _pixel_kernels

_RATE = 0.02  # per frame
_PERIOD = 2  # frames, of which one is learned from, as soon as the rate is that
_CLIP = 0.2  # of full scale: one object does not blind a pixel for long
_FLOOR = 1e-6
_ROUNDING = 1e-5  # a frame may differ by that from itself
_FIRST = 0.1  # most that every pixel begins with: the median of the first residual image
_SOLID = np.ones((4, 4), np.uint8)  # what noise rarely fills
_AROUND = np.ones((8, 8), np.uint8)  # the same, grown by two pixels: edges of objects are no noise either


class NoiseScale:
    """Running mean of the clipped residual of every pixel, but for solid ones.

    Noise, leaves and water scatter; objects are solid. What counts is the residual alone, above the least threshold
    that the noise scale cannot lower: a square of such pixels, and two pixels around it, is not learned (an opening,
    J. Serra, Image Analysis and Mathematical Morphology, 1982, grown by two pixels). The mask has no say, so that
    nothing that is wrong keeps itself alive: neither foreground that was missed and raises the scale, nor moving
    background that is called foreground and never learned.

    Parameters
    ----------
    shape : tuple of int
        (h, w) of the frames.
    joint : float
        Unit of the joint residuals, see `FrameFormat`.
    bands : int
        Bands of pixels that are learned at the same time.

    Attributes
    ----------
    sigma : ndarray, (h, w), float32
        The scale, full scale is 1.
    knows_nothing : bool
        Whether no residual was seen yet.
    """

    def __init__(self, shape: tuple[int, int], joint: float, bands: int) -> None:
        self._joint, self._bands = joint, bands
        self.sigma = np.zeros(shape, np.float32)
        self.knows_nothing = True
        self._learned = 1
        self._solid = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)

    def begin(self, residual: np.ndarray) -> None:
        """Begin with the median of the first residual, (h, w) float32: a noisy camera must not be all foreground."""
        if self.knows_nothing and residual.max() > _ROUNDING:
            self.knows_nothing = False
            self.sigma[:] = np.clip(np.median(residual), _FLOOR, _FIRST * self._joint)

    @property
    def rests(self) -> bool:
        """Whether nothing is to be learned from this frame: one of every two will do.

        Not always the same one, lest what blinks, or is compressed better in every second frame, is seen in one phase
        only: the sequence of A. Thue (1912) and M. Morse (1921) favours neither.
        """
        return self._learned > 1 / _RATE and self._learned.bit_count() % _PERIOD == 0

    def pass_over(self) -> None:
        """Learn nothing from this frame."""
        self._learned += 1

    def solid(self, residual: np.ndarray, threshold: np.float32) -> np.ndarray:
        """Return where residuals above the threshold are solid, (h, w) uint8 of 0 and 1, a buffer."""
        solid, over = self._solid
        np.greater(residual, threshold, out=over.view(bool))
        cv2.erode(over, _SOLID, solid)
        return cv2.dilate(solid, _AROUND, solid, (3, 3))

    def learn(self, residual: np.ndarray, kept: np.ndarray) -> None:
        """Learn from a residual, (h, w) float32, but where the scale is `kept`, (h, w) uint8, not 0."""
        self._learned += 1
        mean = 1 / (self._learned + 1)  # at first the plain mean
        rate = np.float32(mean if mean > _RATE else _PERIOD * _RATE)
        limits = np.float32(_CLIP * self._joint), np.float32(_FLOOR)
        d, skipped, sigma = residual.reshape(-1), kept.reshape(-1), self.sigma.reshape(-1)

        def learn(begin: int, end: int, band: int) -> None:
            part = np.s_[begin:end]
            _pixel_kernels.learn_noise(d[part], skipped[part], rate, *limits, sigma[part])

        in_bands(learn, sigma.size, self._bands)

    def state(self) -> State:
        """Return the scale, and for how long it was learned, copied."""
        return {"sigma": copied(self.sigma), "numbers": np.array([float(self._learned), float(self.knows_nothing)])}

    def set_state(self, state: State) -> None:
        """Go on where another one stood; ParameterError when the arrays do not fit."""
        self.sigma = array_of(state, "sigma", self.sigma.shape, "float32")
        learned, knows_nothing = numbers_of(state, "numbers", 2)
        self._learned, self.knows_nothing = max(int(learned), 1), bool(knows_nothing)
