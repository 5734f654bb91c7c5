"""Small movements of the camera, estimated robustly against the background on a few hundred points.

A frame is compared with the reference at points of strong gradient. One Gauss-Newton step from the identity decides
whether the camera moved; only then the movement is searched on coarse scales and refined.

References
----------
S. Baker, I. Matthews, Lucas-Kanade 20 years on: a unifying framework, IJCV 56(3), 2004: the inverse compositional
step, gradients of the reference alone; gain and offset of the light are two more unknowns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of, numbers_of, part_of
from bgsub.scene import _registration_kernels

_CELLS = 16  # the points are spread over a grid of this many cells along the longer side
_PER_CELL = 8
_LINES = 20  # most lines of a cell that are searched for points
_FLAT = 1e-6  # smallest squared gradient of a point
_COARSE = (80, 30)
_ITERATIONS = (20, 12)  # coarse, fine
_STILL = 0.4  # pixels: smaller movements are ignored
_UPRIGHT = 0.1  # pixels at a corner: smaller rotations are ignored
_FARTHEST = 0.1  # of the shorter side: larger movements are another scene
_NEAR = 1.0  # pixels: the fine scale converges after shorter first steps
_CONVERGED = 0.02  # pixels
_SOFTEST = 0.25  # of full scale: begin of outliers on coarse scales, a third on the fine one
_FITS = 0.08  # largest cost of an aligned picture; far away, one step is short as well
_LIKEWISE = 1.2  # factor of the cost of a failed search below which no search is repeated
_FORGETS = 0.99  # decay of that limit per frame, as objects hide points for many frames
_PROBE = 3  # every third point decides whether the camera moved
_GAIN = 0.9  # largest cost of a movement relative to rest
_FAINTEST = 0.25  # smallest gain
_FEWEST = 24  # smallest number of points
_AT_REST = np.array([0.0, 0.0, 0.0, 1.0, 0.0])


class Movement(NamedTuple):
    """A rotation (radians) about the centre of the image and a translation (pixels), from reference to frame."""

    dx: float = 0.0
    dy: float = 0.0
    angle: float = 0.0

    def matrix(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the affine map, (2, 3), from coordinates (x, y) of the reference to those of the frame."""
        c, s = math.cos(self.angle), math.sin(self.angle)
        x, y = (shape[1] - 1) / 2, (shape[0] - 1) / 2
        return np.array([[c, -s, x - c * x + s * y + self.dx], [s, c, y - s * x - c * y + self.dy]])

    def reach(self, shape: tuple[int, ...]) -> float:
        """Return the largest displacement of a corner in pixels, to first order."""
        return math.hypot(self.dx, self.dy) + abs(self.angle) * math.hypot(shape[0], shape[1]) / 2


class _Scale:
    """Points of a reference at one resolution, of pictures (h, w, c)."""

    # the strongest gradients of every cell; their squares (rows, cells, 8), and x and y from the centre, gradients,
    # their turn, minus the value, -1 (7, rows, cells, 8)

    def __init__(self, shape: tuple[int, int, int]) -> None:
        h, w, _ = shape
        self._shape = shape
        self._side = max(math.ceil(max(h, w) / _CELLS), 4)
        self.rows, cells = h // self._side, w // self._side
        self.row_size = self._side * w
        self._strength = np.zeros((self.rows, cells, _PER_CELL), np.float32)
        self._points = np.zeros((7, *self._strength.shape), np.float32)
        self._solver = np.empty((5, 5)), np.empty(5)
        self._unit = max(math.hypot((w - 1) / 2, (h - 1) / 2), 1.0)
        self.count = 0

    def state(self) -> State:
        """Return the points, copied; nothing before the first `take`."""
        return {"strength": self._strength.copy(), "points": self._points.copy()} if self.count else {}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        if state:
            self._strength = array_of(state, "strength", self._strength.shape, "float32")
            self._points = array_of(state, "points", self._points.shape, "float32")
            h, w, _ = self._shape
            farthest = np.abs(self._points[:2, self._strength > _FLAT]).max(axis=1, initial=0)
            if farthest[0] > (w - 3) / 2 or farthest[1] > (h - 3) / 2:
                raise ParameterError("saved registration points are outside of the frame or on its border")
            self._select()

    def take(self, image: np.ndarray, scale: float, first: int = 0, count: int | None = None) -> None:
        """Choose and read the points of `count` rows of cells from `first` on; all if None."""
        h, w, _ = self._shape
        side, cells = self._side, self._strength.shape[1]
        last = self.rows if count is None else min(first + count, self.rows)
        if not (last > first and cells):
            return
        top = max(first * side - 1, 0)
        grey = _grey(image[top : last * side + 1].astype(np.float32)) * np.float32(scale)
        gx, gy = (cv2.Sobel(grey, cv2.CV_32F, *order, scale=1 / 8) for order in ((1, 0), (0, 1)))
        squares = np.full(grey.shape, np.float32(-1))
        squares[1:-1, 1:-1] = (gx * gx + gy * gy)[1:-1, 1:-1]
        lines = squares[first * side - top : last * side - top, : cells * side].reshape(-1, side, cells, side)
        each = max(side // _LINES, 1)
        strength = lines[:, ::each].transpose(0, 2, 1, 3).reshape(last - first, cells, -1)
        best = np.argpartition(-strength, _PER_CELL - 1)[:, :, :_PER_CELL]
        self._strength[first:last] = np.take_along_axis(strength, best, 2)
        line, column = np.divmod(best, side)
        row = line * each + np.arange(first * side, last * side, side)[:, np.newaxis, np.newaxis]
        column += np.arange(0, cells * side, side)[:, np.newaxis]
        places = (row - top) * w + column
        points = self._points[:, first:last]
        points[0], points[1] = column - (w - 1) / 2, row - (h - 1) / 2
        points[2], points[3] = gx.take(places), gy.take(places)
        points[4] = (points[3] * points[0] - points[2] * points[1]) / np.float32(self._unit)
        points[5], points[6] = -grey.take(places), -1
        self._select()

    def _select(self) -> None:
        """Use the points that are not flat."""
        points = self._points.reshape(7, -1).take(np.flatnonzero(self._strength > _FLAT), axis=1)
        self.count = points.shape[1]
        few = np.ascontiguousarray(points[:, ::_PROBE])
        self._all, self._few = (points[:2], points[2:]), (few[:2], few[2:])
        self._work = np.empty(self.count, np.float32), np.empty((2, self.count), np.float32), *self._solver

    def step(
        self, image: np.ndarray, scale: float, soft: float, movement: np.ndarray, few: bool = False
    ) -> tuple[float, float]:
        """Refine `movement`, (5,), by one step on `few` or all points; return the cost before it and its length."""
        points = self._few if few else self._all
        return _registration_kernels.align(image, scale, *points, soft, self._unit, movement, *self._work)

    def align(self, image: np.ndarray, scale: float, soft: float, iterations: int, movement: np.ndarray) -> float:
        """Refine `movement`, (5,), in pixels of this scale by at least one step; return the cost before the last."""
        cost = 1.0
        for _ in range(iterations):
            cost, length = self.step(image, scale, soft, movement)
            if length < _CONVERGED:
                break
        return cost


class _Pyramid:
    """Reduced grey pictures, each the mean over squares of the one before, of (h, w, c) uint8 or float32."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        h, w, _ = shape
        self.factors: list[int] = []  # factor to the next level
        self.shapes: list[tuple[int, int, int]] = []  # (h_i, w_i, 1), the coarsest last
        for side in _COARSE:
            factor = max(1, round(min(h, w) / side))
            if factor > 1:
                h, w = h // factor, w // factor
                self.factors.append(factor)
                self.shapes.append((h, w, 1))

    def shrink(self, image: np.ndarray) -> list[np.ndarray]:
        """Return the pictures, (h_i, w_i, 1) of its type, the coarsest last."""
        levels = []
        for factor, (h, w, _) in zip(self.factors, self.shapes, strict=True):
            image = cv2.resize(image[: h * factor, : w * factor], (w, h), interpolation=cv2.INTER_AREA)
            image = _grey(image.reshape(h, w, -1))[:, :, np.newaxis]
            levels.append(image)
        return levels


class Registration:
    """Estimate the movement of the camera from a reference picture to a frame."""

    # robust Gauss-Newton steps on points of strong gradient; gain and offset of the light are fitted as well

    def __init__(self) -> None:
        self._shape: tuple[int, int, int] | None = None
        self._usual = _FITS

    def set_reference(self, image: np.ndarray, scale: float = 1.0, part: int | None = None) -> bool:
        """Set the background, (h, w) or (h, w, c) with ``scale * image`` in [0, 1], as the reference."""
        # `part`: only this part of a later reference, so that no frame takes long; return whether it was the last
        image = image if image.ndim == 3 else image[..., None]
        if image.shape != self._shape:
            self._begin(image.shape)
            part = None
        parts = self._parts if part is None else self._parts[part : part + 1]
        levels = [image, *self._pyramid.shrink(image)] if any(i for i, *_ in parts) else [image]
        for i, *rows in parts:
            self._scales[i].take(levels[i], scale, *rows)
        return part is None or part + 1 >= len(self._parts)

    def _begin(self, shape: tuple[int, int, int]) -> None:
        self._shape = shape
        self._pyramid = _Pyramid(shape)
        self._scales = [_Scale(level) for level in (shape, *self._pyramid.shapes)]
        self._fine, *self._coarse = self._scales
        self._parts: list[tuple[int, int, int]] = []  # scale, first row of cells, number of rows: about equally much
        for i, level in enumerate(self._scales):
            count = max(self._fine.row_size // level.row_size, 1)
            self._parts += [(i, first, count) for first in range(0, level.rows, count)]

    def state(self) -> State:
        """Return what the next frame depends on, copied; nothing before the first reference."""
        if self._shape is None:
            return {}
        coarse = {f"coarse{i}": scale.state() for i, scale in enumerate(self._coarse)}
        return {"usual": np.array([float(self._usual)]), "fine": self._fine.state(), **coarse}

    def set_state(self, state: State, shape: tuple[int, int, int]) -> None:
        """Restore a state on pictures of a shape; ParameterError if the arrays do not fit."""
        if not state:
            return
        self._begin(shape)
        self._usual = numbers_of(state, "usual", 1)[0]
        self._fine.set_state(part_of(state, "fine"))
        for i, scale in enumerate(self._coarse):
            scale.set_state(part_of(state, f"coarse{i}"))

    def estimate(self, image: np.ndarray, scale: float = 1.0) -> Movement | None:
        """Return the movement from the reference to a frame, (h, w, c), or None if the frame fits best unmoved."""
        if self._shape is None or self._fine.count < _FEWEST:
            return None
        at_rest = _AT_REST.copy()
        cost_at_rest, step = self._fine.step(image, scale, _SOFTEST, at_rest, few=True)
        self._usual = max(_FITS, _FORGETS * self._usual)
        if step < _STILL and cost_at_rest < self._usual:
            return None
        return self._searched(image, scale, at_rest, cost_at_rest, step)

    def _searched(
        self, image: np.ndarray, scale: float, at_rest: np.ndarray, cost_at_rest: float, step: float
    ) -> Movement | None:
        """Search the movement after a step from rest, given its cost and length; None if there is none."""
        assert self._shape is not None
        found, cost = at_rest, 1.0
        near = cost_at_rest < _FITS and step < _NEAR
        if near:
            cost = self._fine.align(image, scale, _SOFTEST / 3, _ITERATIONS[1], found)
        if not near or cost > _FITS:  # one step from rest is unreliable at low contrast
            other = self._coarsely(image, scale)
            other_cost = self._fine.align(image, scale, _SOFTEST / 3, _ITERATIONS[1], other)
            if other_cost < cost:
                found, cost = other, other_cost
        dx, dy, angle = found[:3].tolist()
        turn = abs(angle) * math.hypot(*self._shape[:2]) / 2
        movement = Movement(dx, dy, angle if turn >= _UPRIGHT else 0.0)
        at_rest = np.concatenate([np.zeros(3), found[3:]])  # in the same light
        still, _ = self._fine.step(image, scale, _SOFTEST / 3, at_rest)
        far = movement.reach(self._shape)
        if found[3] < _FAINTEST or cost > _GAIN * still or not _STILL <= far <= _FARTHEST * min(self._shape[:2]):
            if step < _STILL:
                self._usual = max(_FITS, _LIKEWISE * cost_at_rest)
            return None
        return movement

    def _coarsely(self, image: np.ndarray, scale: float) -> np.ndarray:
        """Return the movement, (5,), found on the coarse scales, from the coarsest on."""
        found = _AT_REST.copy()
        factors = np.cumprod(self._pyramid.factors).tolist()
        levels = self._pyramid.shrink(image)
        for factor, level, coarse in [*zip(factors, levels, self._coarse, strict=True)][::-1]:
            if coarse.count >= _FEWEST:
                found[:2] /= factor
                coarse.align(level, scale, _SOFTEST, _ITERATIONS[0], found)
                found[:2] *= factor
        return found


def _grey(image: np.ndarray) -> np.ndarray:
    """Return the mean of the channels of an image, (h, w, c), in its type: (h, w)."""
    channels = image.shape[2]
    return image[:, :, 0] if channels == 1 else cv2.transform(image, np.full((1, channels), 1 / channels))
