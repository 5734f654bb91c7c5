"""Candidates that match the background nearby, or earlier deviations at the same place, are no foreground.

References
----------
O. Barnich, M. Van Droogenbroeck, ViBe: A universal background subtraction algorithm for video sequences, IEEE
Transactions on Image Processing 20(6), 2011: random samples that spread to neighbours. Here the samples are deviations
from the tracked background, only at restless pixels, and only candidates are compared with them.
"""

from __future__ import annotations

import numpy as np

from bgsub.numerics.arrays import lazy_zeros
from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.numerics.threads import copied, in_bands
from bgsub.scene import _sample_memory_kernels
from bgsub.scene._sample_memory_kernels import MatchLimits
from bgsub.scene.frame_format import lanes_of

_SAMPLES = 16
_EVERY = 8  # learned frames between two samples of a pixel
_PRIOR = 0.3  # initial share: some candidates must match before one is cleared
_RATE = 0.05  # per candidate
_FULL = 255  # value of a share of one
_BELIEF = 0.5  # share of matching candidates above which they are background


class SampleMemory:
    """Clear the candidates that match the background, at pixels where most candidates match."""

    # share (h, w) uint8, 255 for all; samples (h * w, channels, 16) int8, 127 is full scale

    def __init__(self, shape: tuple[int, int], channels: int, bands: int) -> None:
        self._bands, self._shape = bands, shape
        self.share = np.full(shape, round(_PRIOR * _FULL), np.uint8)
        self.samples = lazy_zeros((shape[0] * shape[1], channels, _SAMPLES), np.int8)
        self._frame = 0

    def clear(
        self,
        candidates: np.ndarray,
        x: np.ndarray,
        background: np.ndarray,
        limits: MatchLimits,
        radius: int,
        frozen: bool,
    ) -> None:
        """Clear matching `candidates`, (h, w) uint8, in place; learn nothing if `frozen`."""
        rates = np.float32(0 if frozen else _RATE), np.float32(_BELIEF), np.float32(_FULL)
        lanes = lanes_of(x)

        def clear(begin: int, end: int, band: int) -> None:
            arrays = self.samples, self.share, candidates
            _sample_memory_kernels.clear_matching(begin, end, lanes, x, background, limits, *rates, radius, *arrays)

        in_bands(clear, self._shape[0], self._bands)

    def learn(
        self, x: np.ndarray, background: np.ndarray, limits: MatchLimits, solid: np.ndarray, age: np.ndarray
    ) -> None:
        """Store samples of restless pixels; rarely at `solid` ones, (h, w) uint8, and never if they stand still."""
        self._frame += 1
        first = self._frame % _EVERY
        _sample_memory_kernels.remember(first, _EVERY, self._frame, x, background, limits, solid, age, self.samples)

    def state(self) -> State:
        """Return shares, samples of the pixels that have some, their places and the number of frames, copied."""
        used = self._used()
        numbers = np.array([float(self._frame)])
        return {"share": copied(self.share), "samples": self.samples[used], "used": np.packbits(used), "frame": numbers}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        pixels, *sample = self.samples.shape
        self.share = array_of(state, "share", self._shape, "uint8")
        used = np.unpackbits(array_of(state, "used", (-(-pixels // 8),), "uint8"), count=pixels).view(bool)
        saved = array_of(state, "samples", (int(np.count_nonzero(used)), *sample), "int8")
        self.samples = lazy_zeros(self.samples.shape, saved.dtype)
        self.samples[used] = saved
        self._frame = max(int(numbers_of(state, "frame", 1)[0]), 0)

    def _used(self) -> np.ndarray:
        """Return which pixels have samples, (h * w,) bool."""
        words = self.samples.reshape(len(self.samples), -1).view(np.uint64)
        used = np.zeros(len(words), bool)

        def look(begin: int, end: int, _band: int) -> None:
            some = np.flatnonzero(words[begin:end].reshape(-1) != 0)  # much faster than `any` over short rows
            used[begin + some // words.shape[1]] = True

        in_bands(look, len(words), self._bands)
        return used
