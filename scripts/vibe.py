"""ViBe, written from its paper, as a peer in tables of speed: Python with Numba, one thread.

O. Barnich, M. Van Droogenbroeck, ViBe: A universal background subtraction algorithm for video sequences, IEEE
Transactions on Image Processing 20(6), 2011, with the parameters of the paper: 20 samples, radius 20, 2 matches, and
one of 16 background pixels writes itself into a random sample of its own and into one of a random neighbour.
"""

from __future__ import annotations

import numba
import numpy as np

SAMPLES, RADIUS, MATCHES, SUBSAMPLING = 20, 20, 2, 16
_RANDOM = 1 << 16  # numbers drawn at once, read from a random place in every frame


class ViBe:
    """Background subtraction by samples; `apply` takes a frame and returns a mask."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._numbers = self._rng.integers(0, 1 << 31, _RANDOM).astype(np.uint32)
        self.samples: np.ndarray | None = None

    def apply(self, image: np.ndarray) -> np.ndarray:
        """Return the mask of the next frame, (h, w) or (h, w, c) uint8: 0 or 255, (h, w)."""
        frame = np.atleast_3d(image)
        if self.samples is None:
            self.samples = self._first(frame)
        mask = np.empty(frame.shape[:2], np.uint8)
        _step(frame.ravel(), self.samples.reshape(-1), mask, self._numbers, int(self._rng.integers(_RANDOM)))
        return mask

    def _first(self, frame: np.ndarray) -> np.ndarray:
        """Return samples, (h, w, 20, c), of the pixels around each pixel of the first frame."""
        h, w, channels = frame.shape
        samples = np.empty((h, w, SAMPLES, channels), np.uint8)
        rows, columns = np.indices((h, w))
        for sample in range(SAMPLES):
            down, right = self._rng.integers(-1, 2, (2, h, w))
            samples[:, :, sample] = frame[np.clip(rows + down, 0, h - 1), np.clip(columns + right, 0, w - 1)]
        return samples


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _step(colours, samples, mask, numbers, place):  # type: ignore[no-untyped-def]
    """Classify a frame, (h * w * c,), and update the samples from `numbers`, (2^n,), from `place` on."""
    h, w = mask.shape
    channels, limit = np.uint64(colours.size // (h * w)), np.int32(RADIUS * RADIUS)
    for pixel in range(h * w):
        here = np.uint64(pixel) * channels  # unsigned indices need no test for negative ones
        own, end = here * np.uint64(SAMPLES), (here + channels) * np.uint64(SAMPLES)
        matches = 0
        while matches < MATCHES and own < end:
            square = np.int32(0)
            for c in range(channels):
                d = np.int32(colours[here + np.uint64(c)]) - np.int32(samples[own + np.uint64(c)])
                square += np.int32(d * d)
            matches += np.int64(square < limit)
            own += channels
        i, j = pixel // w, pixel % w
        mask[i, j] = 0 if matches == MATCHES else 255
        place = (place + 1) & (_RANDOM - 1)
        bits = numbers[place]
        if matches < MATCHES:
            continue
        for near in range(2):
            if bits % SUBSAMPLING == 0:
                k = np.int64(bits // SUBSAMPLING % 8)
                k = k + (k >= 4) if near else 4  # 4 is the pixel itself
                u, v = min(max(i + k // 3 - 1, 0), h - 1), min(max(j + k % 3 - 1, 0), w - 1)
                sample = np.uint64(u * w + v) * np.uint64(SAMPLES) + np.uint64(bits // (8 * SUBSAMPLING) % SAMPLES)
                for c in range(channels):
                    samples[sample * channels + np.uint64(c)] = colours[here + np.uint64(c)]
            bits >>= np.uint32(12)
