"""Process reduced frames and return results in full size, for frames that are too large for the machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bgsub._opencv import cv2
from bgsub.numerics.threads import bands_for, in_bands
from bgsub.scene import _reduction_kernels
from bgsub.scene._reduction_kernels import REACH, SPREAD, WINDOW
from bgsub.scene.frame_format import MAX_CHANNELS, FrameFormat, in_type, plain

_WORK = 400_000  # full-size pixels per band, see `bands_for`
_AROUND = np.ones((3, 3), np.uint8)


class Reduction:
    """Reduce frames and enlarge results; masks keep the sharp edges of the full-size frame."""

    # F on synthetic scenes of 640x480 with noise: .916 at scale 0.5, .883 at 0.25; nearest reduced pixel: .900 and .843

    def __init__(self, full: FrameFormat, scale: float, threads: int | None = None) -> None:
        height, width = full.shape[:2]
        h, w = max(round(scale * height), 1), max(round(scale * width), 1)
        self.full = full
        # OpenCV cannot resize half precision
        self.frames = replace(
            full, shape=(h, w, *full.shape[2:]), dtype="float32" if full.dtype == "float16" else full.dtype
        )
        self._frame = np.empty(self.frames.shape, self.frames.dtype)
        self._edges = np.empty((h, w), np.uint8)
        self._rows, self._row_taper = _places(height, h)
        self._columns, self._column_taper = _places(width, w)
        self._bands = bands_for(height * width, _WORK, threads)
        self._work = [
            (
                np.empty((2, WINDOW, WINDOW), np.float32),
                np.empty((2, WINDOW), np.float32),
                np.empty((3, MAX_CHANNELS), np.float32),
            )
            for _ in range(self._bands)
        ]

    def reduce(self, frame: np.ndarray) -> np.ndarray:
        """Return a checked full-size frame in the reduced format, the mean over the area of each pixel; a buffer."""
        return _resized(frame.astype(self._frame.dtype, copy=False), self._frame, cv2.INTER_AREA)

    def reduce_known(self, known: np.ndarray) -> np.ndarray:
        """Return which reduced pixels contain a known pixel of (H, W) bool, however thin."""
        rows = np.logical_or.reduceat(known, self._rows[:-1], axis=0)
        return np.logical_or.reduceat(rows, self._columns[:-1], axis=1)

    def enlarge(
        self, mask: np.ndarray, frame: np.ndarray, small: np.ndarray, picture: np.ndarray, out: np.ndarray
    ) -> np.ndarray:
        """Return the mask, (h, w) uint8, in full size, in `out`, with the edges of the full-size frame."""
        cv2.morphologyEx(mask, cv2.MORPH_GRADIENT, _AROUND, dst=self._edges)
        images = (
            plain(frame).reshape(self.full.cube), np.float32(self.full.scale),
            small, picture, np.float32(1 / self.frames.pixels_full),
        )  # fmt: skip
        places = self._rows, self._columns, self._row_taper, self._column_taper

        def enlarge(begin: int, end: int, band: int) -> None:
            _reduction_kernels.enlarge(begin, end, *images, mask, self._edges, *places, out, *self._work[band])

        in_bands(enlarge, mask.shape[0], self._bands)
        return out

    def enlarge_background(self, background: np.ndarray) -> np.ndarray:
        """Return a background of the reduced format in full size; bilinear."""
        large = _resized(background, np.empty(self.full.shape, background.dtype), cv2.INTER_LINEAR)
        return large if large.dtype == self.full.dtype else in_type(large, self.full.dtype)

    def enlarge_residual(self, residual: np.ndarray) -> np.ndarray:
        """Return the residual of the reduced frame, (h, w) float32, in full size; bilinear."""
        # a residual computed in full size would include fine detail that the reduced background does not have
        return _resized(residual, np.empty(self.full.shape[:2], np.float32), cv2.INTER_LINEAR)


def _resized(image: np.ndarray, out: np.ndarray, how: int) -> np.ndarray:
    """Write `image`, (h, w) or (h, w, c), in the size of `out` into it and return it."""
    if image.ndim == 3 and image.shape[2] == 1:  # OpenCV drops this axis
        _resized(image.reshape(image.shape[:2]), out.reshape(out.shape[:2]), how)
    else:
        cv2.resize(image, out.shape[1::-1], dst=out, interpolation=how)
    return out


def _places(full: int, reduced: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first full-size line of each reduced one, (n + 1,), and the weights of the reduced lines, (N, 5)."""
    lines = np.arange(full)
    inside = (2 * lines + 1) * reduced // (2 * full)
    first = np.searchsorted(inside, np.arange(reduced + 1))
    middles = (lines + 0.5) * reduced / full - 0.5
    distances = inside[:, None] + np.arange(-REACH, REACH + 1) - middles[:, None]
    taper = np.exp(-(distances**2) / (2 * SPREAD**2))
    return first.astype(np.int64), (taper / taper.sum(axis=1, keepdims=True)).astype(np.float32)
