"""Small movements of the camera: estimated against the background, robustly, on a few hundred points.

A frame is compared with the reference picture at points of strong gradient. One Gauss-Newton step from the identity
tells whether the camera moved at all; only if it did is the movement searched on a coarse scale and refined.
"""

from __future__ import annotations

import math

import numpy as np

from bgsub import _registration_kernels
from bgsub._opencv import cv2

_CELLS = 16  # the points are spread over a grid of this many cells along the longer side
_PER_CELL = 8
_COARSE = (30, 80)  # pixels along the shorter side of the coarse scales
_ITERATIONS = (20, 12)  # coarse, fine
_STILL = 0.15  # pixels: movements below it are left alone
_FARTHEST = 0.1  # of the frame's shorter side; beyond it the picture is another one
_NEAR = 1.0  # pixels: up to here one step from rest lands where the fine scale converges
_CONVERGED = 0.02  # pixels
_SOFTEST = 0.25  # of full scale, where outliers begin on the coarse scale; the fine one uses a third of it
_FITS = 0.08  # cost of a picture in place, hardly any point an outlier; far away one step is short as well
_PROBE = 3  # every third point tells whether the camera moved
_GAIN = 0.9  # a movement must lower the cost to this share of the cost at rest
_FAINTEST = 0.25  # gain; a picture with less contrast than that shows no place
_FEWEST = 24  # points that determine three numbers


class Movement:
    """A rotation about the centre of the picture and a translation, from reference to frame.

    Attributes
    ----------
    dx, dy : float
        Translation in pixels; a point (x, y) of the reference is seen at (x + dx, y + dy).
    angle : float
        Rotation in radians.
    """

    __slots__ = ("angle", "dx", "dy")

    def __init__(self, dx: float = 0.0, dy: float = 0.0, angle: float = 0.0) -> None:
        self.dx, self.dy, self.angle = dx, dy, angle

    def matrix(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the affine map, (2, 3), from coordinates (x, y) of the reference to those of the frame."""
        c, s = math.cos(self.angle), math.sin(self.angle)
        x, y = (shape[1] - 1) / 2, (shape[0] - 1) / 2
        return np.array([[c, -s, x - c * x + s * y + self.dx], [s, c, y - s * x - c * y + self.dy]])

    def reach(self, shape: tuple[int, ...]) -> float:
        """Return the largest displacement of a corner in pixels, to first order."""
        return math.hypot(self.dx, self.dy) + abs(self.angle) * math.hypot(shape[0], shape[1]) / 2


class _Scale:
    """Reference and points at one resolution.

    Parameters
    ----------
    image : ndarray, (h, w, c), float32
        Reference.
    """

    def __init__(self, image: np.ndarray) -> None:
        grey = np.ascontiguousarray(image.mean(axis=2, dtype=np.float32))
        gx, gy = (cv2.Sobel(grey, cv2.CV_32F, *order, scale=1 / 8) for order in ((1, 0), (0, 1)))
        rows, columns = _spread_points(gx * gx + gy * gy)
        self.points = np.stack([columns, rows], 1).astype(np.float32)
        self.values = grey[rows, columns]
        self.gradient = np.stack([gx[rows, columns], gy[rows, columns]], 1)
        self._work = np.empty((5, 5)), np.empty(5)

    def align(
        self, image: np.ndarray, soft: float, iterations: int, movement: np.ndarray, stride: int = 1
    ) -> tuple[float, float]:
        """Refine `movement`, (5,), in pixels of this scale; return the cost and the length of the last step."""
        cost, step = _registration_kernels.align(
            image,
            self.points[::stride],
            self.values[::stride],
            self.gradient[::stride],
            soft,
            iterations,
            _CONVERGED,
            movement,
            *self._work,
        )
        return float(cost), float(step)


class Registration:
    """Estimate the movement of the camera from a reference picture to a frame.

    Translation and rotation about the centre, with gain and offset of the light, by robust Gauss-Newton steps on
    points of strong gradient that are spread over the picture. O(points) for a still camera.
    """

    def __init__(self) -> None:
        self._fine: _Scale | None = None

    def set_reference(self, image: np.ndarray) -> None:
        """Take the background, (h, w, c), float32 in [0, 1], for the reference."""
        h, w = image.shape[:2]
        self._shape = (h, w)
        self._fine = _Scale(image)
        factors = sorted({max(1, min(h, w) // side) for side in _COARSE} - {1}, reverse=True)
        self._coarse = [(factor, _Scale(_shrunk(image, factor))) for factor in factors]

    def estimate(self, image: np.ndarray) -> Movement | None:
        """Return the movement that shows the reference in a frame, or None where it shows best as it is.

        Parameters
        ----------
        image : ndarray, (h, w, c), float32
            Frame, intensities in [0, 1].
        """
        fine = self._fine
        if fine is None or len(fine.points) < _FEWEST:
            return None
        at_rest = _identity()
        cost, step = fine.align(image, _SOFTEST, 1, at_rest, _PROBE)
        if step < _STILL and cost < _FITS:
            return None
        near = cost < _FITS and step < _NEAR
        found = at_rest if near else _identity()
        for factor, scale in () if near else self._coarse:
            if len(scale.points) >= _FEWEST:
                found[:2] /= factor
                scale.align(_shrunk(image, factor), _SOFTEST, _ITERATIONS[0], found)
                found[:2] *= factor
        cost, _ = fine.align(image, _SOFTEST / 3, _ITERATIONS[1], found)
        movement = Movement(*found[:3].tolist())
        at_rest = np.concatenate([np.zeros(3), found[3:]])  # compared in the same light
        still, _ = fine.align(image, _SOFTEST / 3, 1, at_rest)
        far = movement.reach(self._shape)
        if found[3] < _FAINTEST or cost > _GAIN * still or not _STILL <= far <= _FARTHEST * min(self._shape):
            return None
        return movement


def _shrunk(image: np.ndarray, factor: int) -> np.ndarray:
    """Return an image, (h, w, c), averaged over squares of `factor` pixels; an incomplete margin is left out."""
    h, w = image.shape[0] // factor, image.shape[1] // factor
    return cv2.resize(image[: h * factor, : w * factor], (w, h), interpolation=cv2.INTER_AREA).reshape(h, w, -1)


def _identity() -> np.ndarray:
    return np.array([0.0, 0.0, 0.0, 1.0, 0.0])


def _spread_points(strength: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the strongest places of an image, the same number from every cell of a grid."""
    h, w = strength.shape
    side = max(math.ceil(max(h, w) / _CELLS), 4)
    inner = strength.copy()
    inner[[0, -1]] = 0
    inner[:, [0, -1]] = 0
    ny, nx = h // side, w // side
    if ny == 0 or nx == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    cells = inner[: ny * side, : nx * side].reshape(ny, side, nx, side).transpose(0, 2, 1, 3).reshape(ny * nx, -1)
    count = min(_PER_CELL, cells.shape[1])
    best = np.argpartition(cells, -count, axis=1)[:, -count:]
    cell = np.repeat(np.arange(ny * nx), count)
    place = best.reshape(-1)
    keep = np.take_along_axis(cells, best, 1).reshape(-1) > 1e-6
    rows = cell // nx * side + place // side
    columns = cell % nx * side + place % side
    return rows[keep], columns[keep]
