"""From residuals to masks: noise scale, sample memory, majority filter, shadows and minimum area."""

from __future__ import annotations

import math

import numpy as np

from bgsub._opencv import cv2
from bgsub.numerics.state import State, array_of, numbers_of, part_of
from bgsub.numerics.threads import bands_for, copied, in_bands
from bgsub.parameters import SegmenterParameters
from bgsub.scene import _pixel_kernels
from bgsub.scene._sample_memory_kernels import MatchLimits
from bgsub.scene.mask_filters import majority_filter, remove_small_regions
from bgsub.scene.sample_memory import SampleMemory
from bgsub.scene.shadows import ShadowDetector
from bgsub.separation import BACKGROUND, SHADOW

_LIGHT_WORK, _HEAVY_WORK = 400_000, 150_000  # pixels per band, see `bands_for`
_OLD = 65535  # age of pixels that are not stored
_RATE = 0.02  # learning rate per frame
_PERIOD = 2  # frames per learned frame once the rate is constant
_CLIP = 0.2  # share of full scale: limits the effect of one object
_FLOOR = 1e-6
_ROUNDING = 1e-5  # residual of a frame that equals its background
_FIRST = 0.1  # upper limit of the initial scale
_SOLID = np.ones((4, 4), np.uint8)  # square that noise rarely fills
_AROUND = np.ones((8, 8), np.uint8)  # the same, grown by two pixels: edges of objects are not noise


class NoiseScale:
    """Running mean of the clipped residual of every pixel, `sigma` (h, w) float32, except at solid regions.

    Solid regions are an opening of the residuals (J. Serra, Image Analysis and Mathematical Morphology, 1982).
    """

    # the mask has no influence, so that errors do not sustain themselves

    def __init__(self, shape: tuple[int, int], joint: float, bands: int) -> None:
        self._joint, self._bands = joint, bands
        self.sigma = np.zeros(shape, np.float32)
        self.is_empty = True
        self._learned = 1
        self._solid = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)

    def begin(self, residual: np.ndarray) -> None:
        """Start from the median of the first residual, (h, w) float32, so that a noisy camera is not all foreground."""
        if self.is_empty and residual.max() > _ROUNDING:
            self.is_empty = False
            self.sigma[:] = np.clip(np.median(residual), _FLOOR, _FIRST * self._joint)

    @property
    def skips_frame(self) -> bool:
        """Whether this frame, one of two, is not learned."""
        # the Thue-Morse sequence chooses them, so that periodic changes are not always seen in the same phase
        return self._learned > 1 / _RATE and self._learned.bit_count() % _PERIOD == 0

    def skip_frame(self) -> None:
        """Count a frame without learning it."""
        self._learned += 1

    def solid(self, residual: np.ndarray, threshold: np.float32) -> np.ndarray:
        """Return where residuals above the threshold are solid, (h, w) uint8 of 0 and 1, a buffer."""
        solid, over = self._solid
        np.greater(residual, threshold, out=over.view(bool))
        cv2.erode(over, _SOLID, solid)
        return cv2.dilate(solid, _AROUND, solid, (3, 3))

    def learn(self, residual: np.ndarray, kept: np.ndarray) -> None:
        """Learn from a residual, (h, w) float32, except where `kept`, (h, w) uint8, is not 0."""
        self._learned += 1
        mean = 1 / (self._learned + 1)  # plain mean in the beginning
        rate = np.float32(mean if mean > _RATE else _PERIOD * _RATE)
        limits = np.float32(_CLIP * self._joint), np.float32(_FLOOR)
        d, skipped, sigma = residual.reshape(-1), kept.reshape(-1), self.sigma.reshape(-1)

        def learn(begin: int, end: int, band: int) -> None:
            part = np.s_[begin:end]
            _pixel_kernels.learn_noise(d[part], skipped[part], rate, *limits, sigma[part])

        in_bands(learn, sigma.size, self._bands)

    def state(self) -> State:
        """Return the scale and the number of learned frames, copied."""
        return {"sigma": copied(self.sigma), "numbers": np.array([float(self._learned), float(self.is_empty)])}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        self.sigma = array_of(state, "sigma", self.sigma.shape, "float32")
        learned, is_empty = numbers_of(state, "numbers", 2)
        self._learned, self.is_empty = max(int(learned), 1), bool(is_empty)


class Segmenter:
    """Turn joint colour residuals into foreground masks."""

    def __init__(
        self,
        shape: tuple[int, int],
        parameters: SegmenterParameters | None = None,
        threads: int | None = 1,
        channels: int = 3,
    ) -> None:
        self.shape, self._joint = shape, math.sqrt(channels / 3)
        pixels = shape[0] * shape[1]
        few, many = bands_for(pixels, _LIGHT_WORK, threads), bands_for(pixels, _HEAVY_WORK, threads)
        self.noise = NoiseScale(shape, self._joint, few)
        self.sample_memory = SampleMemory(shape, channels, many)
        self._shadow_detector = ShadowDetector(shape, many)
        self._masks = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self.tune(parameters or SegmenterParameters())

    def tune(self, parameters: SegmenterParameters) -> None:
        """Replace the parameters; the learned state is kept."""
        self._threshold = np.float32(parameters.threshold * self._joint)
        self._factor = np.float32(parameters.noise_factor)
        self.side = parameters.median | 1
        self._area = round(parameters.min_area * self.shape[0] * self.shape[1])
        self._shadows = parameters.shadows
        self._radius = parameters.neighbours

    @property
    def limits(self) -> tuple[np.float32, np.float32]:
        """Minimum residual of a candidate, and the factor of its noise scale."""
        return self._threshold, self._factor

    def state(self) -> State:
        """Return the learned noise, samples and shadows, copied."""
        shadows = self._shadow_detector.state()
        return {"noise": self.noise.state(), "sample_memory": self.sample_memory.state(), "shadows": shadows}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        self.noise.set_state(part_of(state, "noise"))
        self.sample_memory.set_state(part_of(state, "sample_memory"))
        self._shadow_detector.set_state(part_of(state, "shadows"))

    def candidates(self, residual: np.ndarray, over: np.ndarray | None = None) -> np.ndarray:
        """Write which pixels of a residual, (h, w) float32, exceed their limit into `over`, (h, w) uint8; return it."""
        self.noise.begin(residual)
        over = np.empty(self.shape, np.uint8) if over is None else over
        d, sigma = residual.reshape(-1), self.noise.sigma.reshape(-1)
        _pixel_kernels.exceeds_noise(d, sigma, self._threshold, self._factor, over.reshape(-1))
        return over

    def segment(
        self,
        candidates: np.ndarray,
        x: np.ndarray,
        background: np.ndarray,
        frozen: bool = False,
        scale: float = 1.0,
    ) -> np.ndarray:
        """Return the mask, (h, w) uint8, of a frame, (h, w, c): a buffer that is overwritten two calls later."""
        # 0 background, 127 shadow, 255 foreground; changes `candidates`; learns nothing if `frozen`
        if not cv2.countNonZero(candidates):
            self._masks = self._masks[::-1]
            self._masks[0][:] = BACKGROUND
            return self._masks[0]
        if self._radius:
            self.sample_memory.clear(candidates, x, background, self._memory(scale), self._radius, frozen)
        mask = self._vote(candidates)
        if not cv2.countNonZero(mask):
            return mask
        if self._shadows == "merged":
            remove_small_regions(mask, self._area)
            return mask
        if not frozen and not self.noise.skips_frame:
            self._shadow_detector.learn(x, background, mask)
        shadow = self._shadow_detector.find(x, background, mask, scale)
        if shadow is not None:
            _pixel_kernels.paint(shadow.reshape(-1), BACKGROUND, mask.reshape(-1))
        remove_small_regions(mask, self._area)
        if shadow is not None and self._shadows == "on":
            _pixel_kernels.paint(shadow.reshape(-1), SHADOW, mask.reshape(-1))
        return mask

    def learn(
        self,
        residual: np.ndarray,
        known: np.ndarray | None,
        age: np.ndarray,
        x: np.ndarray,
        background: np.ndarray,
        scale: float = 1.0,
    ) -> None:
        """Learn noise and moving background from a frame, except at `known` foreground, (h, w) bool."""
        if self.noise.skips_frame:
            self.noise.skip_frame()
            return
        solid = self.noise.solid(residual, self._threshold)
        if known is not None:
            solid[known] = 1
            age = np.where(known, age.dtype.type(_OLD), age)
        self.noise.learn(residual, solid)
        if self._radius:
            self.sample_memory.learn(x, background, self._memory(scale), solid, age)

    def _memory(self, scale: float) -> MatchLimits:
        return MatchLimits(self.noise.sigma, np.float32(scale), *self.limits)

    def _vote(self, candidates: np.ndarray) -> np.ndarray:
        """Majority over a square of candidates in {0, 1}, the median of a two-valued image; returns {0, 255}."""
        self._masks = self._masks[::-1]
        return majority_filter(candidates, self.side, self._masks[0])
