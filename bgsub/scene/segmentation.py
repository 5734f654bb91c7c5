"""From residuals to masks: a noise scale of every pixel's own, a majority vote, a least area."""

from __future__ import annotations

import math

import numpy as np

from bgsub._opencv import cv2
from bgsub.numerics.state import State, part_of
from bgsub.numerics.threads import bands_for
from bgsub.parameters import SegmenterParameters
from bgsub.scene import _pixel_kernels
from bgsub.scene._sample_memory_kernels import Memory
from bgsub.scene.mask_filters import majority_filter
from bgsub.scene.noise_scale import NoiseScale
from bgsub.scene.sample_memory import SampleMemory
from bgsub.scene.shadows import ShadowDetector
from bgsub.separation import BACKGROUND, FOREGROUND, SHADOW

_LIGHT_WORK, _HEAVY_WORK = 400_000, 150_000  # pixels per band, see `bands_for`
_OLD = 65535  # age of what is not to be remembered


class Segmenter:
    """Turn joint colour residuals into foreground masks.

    A pixel is a candidate when its residual exceeds ``max(threshold, noise_factor * sigma)``, sigma its noise scale;
    candidates that look like moving background are cleared; a majority vote over a square removes speckle; connected
    areas below `min_area` are dropped and holes below it filled.

    Parameters
    ----------
    shape : tuple of int
        (h, w) of the frames.
    parameters : SegmenterParameters, optional
        By default the defaults. `median` is made odd. Where the background moves, a candidate that looks like the
        background within `neighbours` pixels is none. Shadows: see `bgsub.scene.shadows`.
    threads : int, optional
        Threads of the kernels for large frames; None for all cores.
    channels : int, default 3
        Of the frames.

    Attributes
    ----------
    noise : NoiseScale
    sample_memory : SampleMemory
    side : int
        Side of the square of the majority vote, odd.
    """

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
        """Replace the parameters; what was learned stays."""
        self._threshold = np.float32(parameters.threshold * self._joint)
        self._factor = np.float32(parameters.noise_factor)
        self.side = parameters.median | 1
        self._area = round(parameters.min_area * self.shape[0] * self.shape[1])
        self._shadows = parameters.shadows
        self._radius = parameters.neighbours

    @property
    def limits(self) -> tuple[np.float32, np.float32]:
        """Least residual of a candidate, and the factor of its noise scale that it must exceed as well."""
        return self._threshold, self._factor

    def state(self) -> State:
        """Return what was learned of noise, moving background and shadows, copied."""
        shadows = self._shadow_detector.state()
        return {"noise": self.noise.state(), "sample_memory": self.sample_memory.state(), "shadows": shadows}

    def set_state(self, state: State) -> None:
        """Go on where another one stood; ParameterError when the arrays do not fit."""
        self.noise.set_state(part_of(state, "noise"))
        self.sample_memory.set_state(part_of(state, "sample_memory"))
        self._shadow_detector.set_state(part_of(state, "shadows"))

    def candidates(self, residual: np.ndarray, over: np.ndarray | None = None) -> np.ndarray:
        """Return which pixels exceed their threshold, (h, w) uint8 of 0 and 1.

        Parameters
        ----------
        residual : ndarray, (h, w), float32
            Joint colour residual, full scale is 1.
        over : ndarray, (h, w), uint8, optional
            Filled with the result when given.
        """
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
        """Return the mask of a frame; `learn` then learns the noise from it.

        Parameters
        ----------
        candidates : ndarray, (h, w), uint8
            What `candidates` returned; changed in place.
        x, background : ndarray, (h, w, c), uint8 or float32
            Frame and background.
        frozen : bool, default False
            Whether nothing is to be learned of how the background moves.
        scale : float, default 1
            ``scale`` times frame and background is in [0, 1].

        Returns
        -------
        ndarray, (h, w), uint8
            0 background, 127 shadow, 255 foreground; a buffer that the call after the next one overwrites.
        """
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
            self._drop_small_regions(mask)
            return mask
        if not frozen and not self.noise.rests:
            self._shadow_detector.learn(x, background, mask)
        shadow = self._shadow_detector.find(x, background, mask, scale)
        if shadow is not None:
            _pixel_kernels.paint(shadow.reshape(-1), BACKGROUND, mask.reshape(-1))
        self._drop_small_regions(mask)
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
        """Learn noise and moving background from a frame.

        Parameters
        ----------
        residual : ndarray, (h, w), float32
            Joint residual.
        known : ndarray of bool, (h, w), or None
            Pixels that are known to be foreground, where nothing is learned.
        age : ndarray, (h, w), uint16
            For how long foreground has shown one colour, see `StandingObjects`.
        x, background, scale
            As for `segment`.
        """
        if self.noise.rests:
            self.noise.pass_over()
            return
        solid = self.noise.solid(residual, self._threshold)
        if known is not None:
            solid[known] = 1
            age = np.where(known, age.dtype.type(_OLD), age)
        self.noise.learn(residual, solid)
        if self._radius:
            self.sample_memory.learn(x, background, self._memory(scale), solid, age)

    def _memory(self, scale: float) -> Memory:
        return Memory(self.noise.sigma, np.float32(scale), *self.limits)

    def _vote(self, candidates: np.ndarray) -> np.ndarray:
        """Majority over a square of candidates in {0, 1}, the median of a two-valued image; returns {0, 255}."""
        self._masks = self._masks[::-1]
        return majority_filter(candidates, self.side, self._masks[0])

    def _drop_small_regions(self, mask: np.ndarray) -> None:
        """Erase regions, 8-connected and with their holes, and fill holes of less than the least area, in place.

        By contours, which cost time where there is foreground only; labelling would visit every pixel.
        """
        if self._area <= 1:
            return
        outlines, tree = cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
        if not outlines:
            return
        holes, small = [], []
        for outline, parent in zip(outlines, tree[0, :, 3].tolist(), strict=True):
            if parent < 0:  # the outline of a region; that of a hole lies on the region around it
                if len(outline) < 2 * self._area and _pixels_inside(outline) < self._area:
                    small.append(outline)
            elif _pixels_inside(outline) - len(outline) < self._area:
                holes.append(outline)
        if holes:
            cv2.drawContours(mask, holes, -1, FOREGROUND, cv2.FILLED)
        if small:
            cv2.drawContours(mask, small, -1, BACKGROUND, cv2.FILLED)


def _pixels_inside(outline: np.ndarray) -> float:
    """Return the number of pixels in and on an outline of neighbouring pixels, by Pick's theorem."""
    return float(cv2.contourArea(outline)) + len(outline) / 2 + 1
