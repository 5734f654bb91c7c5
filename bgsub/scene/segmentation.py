"""From residuals to masks: a noise scale of every pixel's own, a majority vote, a least area."""

from __future__ import annotations

import numpy as np

from bgsub._opencv import cv2
from bgsub.numerics.state import State, array_of, numbers_of, part_of
from bgsub.numerics.threads import bands_for, in_bands
from bgsub.parameters import SegmenterParameters
from bgsub.scene import _pixel_kernels
from bgsub.scene.shadows import ShadowDetector
from bgsub.separation import BACKGROUND, FOREGROUND, SHADOW

_LIGHT_WORK, _HEAVY_WORK = 400_000, 150_000  # pixels per band, see `bands_for`
_NOISE_RATE = 0.02  # per frame, where the mask is background
_FOREGROUND_RATE = 0.001  # per frame, where it is not, times the share of candidates that are no objects
_NOISE_CLIP = 0.2  # of full scale: one object does not blind a pixel for long
_NOISE_FLOOR = 1e-6
_ROUNDING = 1e-5  # a frame may differ by that from itself
_NOISE_FIRST = 0.1  # most that every pixel begins with: the median of the first residual image
_PRIOR = 0.3  # share that a pixel begins with: a few candidates must have looked displaced before one is cleared
_DISPLACED_RATE = 0.05  # per candidate
_FULL = 255  # what stands for a share of one
_DISPLACED = 0.5  # share of a pixel's candidates that look like displaced background, from which they are


class Segmenter:
    """Turn joint colour residuals into foreground masks.

    A pixel is a candidate when its residual exceeds ``max(threshold, noise_factor * sigma)``, sigma the running mean
    of its clipped residual; a majority vote over a square removes speckle; connected areas below `min_area` are
    dropped and holes below it filled.

    Parameters
    ----------
    shape : tuple of int
        (h, w) of the frames.
    parameters : SegmenterParameters, optional
        By default the defaults. `median` is made odd. Where the background moves, a candidate that looks like the
        background within `neighbours` pixels is none.
    threads : int, optional
        Threads of the kernels for large frames; None for all cores.
    """

    def __init__(
        self, shape: tuple[int, int], parameters: SegmenterParameters | None = None, threads: int | None = 1
    ) -> None:
        self.shape = shape
        self.sigma = np.zeros(shape, np.float32)
        self.displaced = np.full(shape, round(_PRIOR * _FULL), np.uint8)
        self.knows_nothing = True
        self.learned = 1
        pixels = shape[0] * shape[1]
        self._few, self._many = bands_for(pixels, _LIGHT_WORK, threads), bands_for(pixels, _HEAVY_WORK, threads)
        self._shadow_detector = ShadowDetector(shape, self._many)
        self._masks = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self._counts = np.empty((self._few, shape[1]), np.uint16)
        self.tune(parameters or SegmenterParameters())

    def tune(self, parameters: SegmenterParameters) -> None:
        """Replace the parameters; what was learned stays."""
        self._threshold = np.float32(parameters.threshold)
        self._factor = np.float32(parameters.noise_factor)
        self._side = parameters.median | 1
        self._area = round(parameters.min_area * self.shape[0] * self.shape[1])
        self._shadows = parameters.shadows
        self._radius = parameters.neighbours
        self._columns = np.empty((self._few, self.shape[1] + self._side - 1), np.uint16)

    @property
    def limits(self) -> tuple[np.float32, np.float32]:
        """Least residual of a candidate, and the factor of its noise scale that it must exceed as well."""
        return self._threshold, self._factor

    def state(self) -> State:
        """Return noise scale, share of displaced candidates, and for how long they were learned, copied."""
        numbers = np.array([float(self.learned), float(self.knows_nothing)])
        maps: State = {"sigma": self.sigma.copy(), "displaced": self.displaced.copy(), "numbers": numbers}
        return {**maps, "shadows": self._shadow_detector.state()}

    def set_state(self, state: State) -> None:
        """Go on where another one stood; ParameterError when the arrays do not fit."""
        self.sigma = array_of(state, "sigma", self.shape, "float32")
        self.displaced = array_of(state, "displaced", self.shape, "uint8")
        self._shadow_detector.set_state(part_of(state, "shadows"))
        learned, knows_nothing = numbers_of(state, "numbers", 2)
        self.learned, self.knows_nothing = max(int(learned), 1), bool(knows_nothing)

    def candidates(self, residual: np.ndarray, over: np.ndarray | None = None) -> np.ndarray:
        """Return which pixels exceed their threshold, (h, w) uint8 of 0 and 1.

        Parameters
        ----------
        residual : ndarray, (h, w), float32
            Joint colour residual, full scale is 1.
        over : ndarray, (h, w), uint8, optional
            Filled with the result when given.
        """
        if self.knows_nothing and residual.max() > _ROUNDING:  # a noisy camera must not be all foreground at first
            self.knows_nothing = False
            self.sigma[:] = np.clip(np.median(residual), _NOISE_FLOOR, _NOISE_FIRST)
        over = np.empty(self.shape, np.uint8) if over is None else over
        d, sigma = residual.reshape(-1), self.sigma.reshape(-1)
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
        if self._radius:
            self._match_neighbours(candidates, x, background, frozen, scale)
        mask = self._vote(candidates)
        if self._shadows == "merged":
            self._drop_small_regions(mask)
            return mask
        if not frozen:
            self._shadow_detector.learn(x, background, mask)
        shadow = self._shadow_detector.find(x, background, mask, scale)
        if shadow is not None:
            _pixel_kernels.paint(shadow.reshape(-1), BACKGROUND, mask.reshape(-1))
        self._drop_small_regions(mask)
        if shadow is not None and self._shadows == "on":
            _pixel_kernels.paint(shadow.reshape(-1), SHADOW, mask.reshape(-1))
        return mask

    def learn(self, residual: np.ndarray, mask: np.ndarray) -> None:
        """Update the noise scale from a residual, (h, w) float32, and its final mask, (h, w) uint8."""
        self.learned += 1
        rate = max(_NOISE_RATE, 1 / (self.learned + 1))  # at first the plain mean
        rates = np.float32(rate), np.float32(_FOREGROUND_RATE / _FULL)
        limits = np.float32(_NOISE_CLIP), np.float32(_NOISE_FLOOR)
        maps = residual.reshape(-1), mask.reshape(-1), self.displaced.reshape(-1)
        sigma = self.sigma.reshape(-1)

        def learn(begin: int, end: int, band: int) -> None:
            part = np.s_[begin:end]
            _pixel_kernels.learn_noise(maps[0][part], maps[1][part], maps[2][part], *rates, *limits, sigma[part])

        in_bands(learn, sigma.size, self._few)

    def _match_neighbours(
        self, candidates: np.ndarray, x: np.ndarray, background: np.ndarray, frozen: bool, scale: float
    ) -> None:
        rates = np.float32(0 if frozen else _DISPLACED_RATE), np.float32(_DISPLACED)
        numbers = np.float32(scale), self._threshold, *rates, self._radius, np.float32(_FULL)

        def match(begin: int, end: int, band: int) -> None:
            _pixel_kernels.match_neighbours(begin, end, x, background, *numbers, self.displaced, candidates)

        in_bands(match, self.shape[0], self._many)

    def _vote(self, candidates: np.ndarray) -> np.ndarray:
        """Majority over a square of candidates in {0, 1}, the median of a two-valued image; returns {0, 255}."""
        self._masks = self._masks[::-1]
        mask = self._masks[0]

        def vote(begin: int, end: int, band: int) -> None:
            lines = self._columns[band], self._counts[band]
            _pixel_kernels.majority(begin, end, candidates, self._side, mask, *lines)

        in_bands(vote, mask.shape[0], self._few)
        return mask

    def _drop_small_regions(self, mask: np.ndarray) -> None:
        """Erase regions, 8-connected and with their holes, and fill holes of less than the least area, in place.

        By contours, which cost time where there is foreground only; labelling would visit every pixel.
        """
        if self._area <= 1:
            return
        outlines, tree = cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
        holes, small = [], []
        for i, outline in enumerate(outlines):
            if tree[0, i, 3] < 0:  # the outline of a region; that of a hole lies on the region around it
                if _pixels_inside(outline) < self._area:
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
