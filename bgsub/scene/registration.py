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
_TURNS = 8  # references after which all cells have been searched again
_FLAT = 1e-6  # smallest squared gradient of a point
_FADED = 0.5  # remaining share of the squared gradients below which all points are chosen again
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
_SOBEL = np.array([[-1, 0, 1, -2, 0, 2, -1, 0, 1], [-1, -2, -1, 0, 0, 0, 1, 2, 1]], np.float32) / 8
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

    def __init__(self, shape: tuple[int, int, int]) -> None:
        h, w, _ = shape
        self._shape = shape
        self._side = max(math.ceil(max(h, w) / _CELLS), 4)
        self._best = np.zeros((h // self._side, w // self._side, _PER_CELL), np.int64)
        self._strength = np.zeros(self._best.shape, np.float32)
        self._solver = np.empty((5, 5)), np.empty(5)
        self._unit = max(math.hypot((w - 1) / 2, (h - 1) / 2), 1.0)
        self._next = 0  # row of cells that is looked through next
        self.count = 0

    def state(self) -> State:
        """Return the points and their values in the reference, copied; nothing before the first `take`."""
        if not self.count:
            return {}
        best, strength, rows = self._best.copy(), self._strength.copy(), self._all[1].copy()
        return {"best": best, "strength": strength, "rows": rows, "next": np.array([float(self._next)])}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        if not state:
            return
        best = array_of(state, "best", self._best.shape, "int64")
        strength = array_of(state, "strength", self._strength.shape, "float32")
        h, w, _ = self._shape
        rows, columns = np.divmod(best[strength > _FLAT], w)
        if not ((rows > 0) & (rows < h - 1) & (columns > 0) & (columns < w - 1)).all():
            raise ParameterError("saved registration points are outside of the frame or on its border")
        self._best, self._strength = best, strength
        self._next = int(numbers_of(state, "next", 1)[0]) % max(len(best), 1)
        places = self._places()
        self._set_points(places, self._coordinates(places), array_of(state, "rows", (5, len(places)), "float32"))

    def take(self, image: np.ndarray, scale: float) -> None:
        """Read the reference: all cells at first, some cells in turn later."""
        cells = len(self._best)
        if not self._best.size:
            return
        if self.count == 0:
            self._choose(image, scale, 0, cells)
        else:
            last = min(self._next + math.ceil(cells / _TURNS), cells)
            self._choose(image, scale, self._next, last)
            self._next = last % cells
        if self._look(image, scale) < _FADED * float(self._strength[self._strength > _FLAT].sum()):
            self._choose(image, scale, 0, cells)
            self._look(image, scale)

    def _choose(self, image: np.ndarray, scale: float, first: int, last: int) -> None:
        """Choose the points in the rows of cells from `first` to `last`."""
        w = self._shape[1]
        side, cells = self._side, self._best.shape[1]
        top = max(first * side - 1, 0)
        grey = _grey(image[top : last * side + 1].astype(np.float32)) * np.float32(scale / 8)
        gx, gy = (cv2.Sobel(grey, cv2.CV_32F, *order) for order in ((1, 0), (0, 1)))
        squares = np.full(grey.shape, np.float32(-1))
        squares[1:-1, 1:-1] = (gx * gx + gy * gy)[1:-1, 1:-1]

        def by_cell(values: np.ndarray) -> np.ndarray:  # (rows, cells, n)
            lines = values[first * side - top : last * side - top, : cells * side].reshape(-1, side, cells, side)
            return lines[:, :: max(side // _LINES, 1)].transpose(0, 2, 1, 3).reshape(last - first, cells, -1)

        strength = by_cell(squares)
        best = np.argpartition(-strength, _PER_CELL - 1)[:, :, :_PER_CELL]
        self._strength[first:last] = np.take_along_axis(strength, best, 2)
        places = np.arange(top * w, top * w + grey.size).reshape(grey.shape)
        self._best[first:last] = np.take_along_axis(by_cell(places), best, 2)

    def _look(self, image: np.ndarray, scale: float) -> float:
        """Read values and gradients at the points; return the sum of the squared gradients."""
        places, (_, w, channels) = self._places(), self._shape
        points = self._coordinates(places)
        around = places[:, np.newaxis] + np.add.outer([-w, 0, w], [-1, 0, 1]).ravel()
        colours = np.take(image.reshape(-1, channels), around, axis=0).astype(np.float32)
        grey = colours @ np.full(channels, scale / channels, np.float32)
        gx, gy = _SOBEL @ grey.T
        turn = (gy * points[0] - gx * points[1]) / np.float32(self._unit)
        self._set_points(places, points, np.stack([gx, gy, turn, -grey[:, 4], np.full_like(gx, -1)]))
        return float(gx @ gx + gy @ gy)

    def _places(self) -> np.ndarray:
        """Return the chosen points, (n,) int64, as indices of pixels."""
        return self._best[self._strength > _FLAT]

    def _coordinates(self, places: np.ndarray) -> np.ndarray:
        """Return x and y of the points from the centre, (2, n) float32."""
        h, w, _ = self._shape
        return np.stack([places % w - (w - 1) / 2, places // w - (h - 1) / 2]).astype(np.float32)

    def _set_points(self, places: np.ndarray, points: np.ndarray, rows: np.ndarray) -> None:
        """Set the points and the rows of the reference: gradients, their turn, minus the value, -1."""
        self.count = len(places)
        self._all = points, rows
        self._few = points[:, ::_PROBE].copy(), rows[:, ::_PROBE].copy()
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
        """Set the background, (h, w) or (h, w, c) with ``scale * image`` in [0, 1], as the reference.

        `part`: of a later reference take one scale only, 0 is the finest, so that no frame takes long; return whether
        it was the last.
        """
        # points are searched in the first reference; later ones are read there, and few points are chosen again
        image = channelled(image)
        if image.shape != self._shape:
            self._begin(image.shape)
            part = None
        if not part:
            self._fine.take(image, scale)
        if part != 0:
            scales = [*zip(self._pyramid.shrink(image), self._coarse, strict=True)]
            for level, coarse in scales if part is None else scales[part - 1 : part]:
                coarse.take(level, scale)
        return part is None or part >= len(self._coarse)

    def _begin(self, shape: tuple[int, int, int]) -> None:
        self._shape = shape
        self._pyramid = _Pyramid(shape)
        self._fine = _Scale(shape)
        self._coarse = [_Scale(level) for level in self._pyramid.shapes]

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


def channelled(image: np.ndarray) -> np.ndarray:
    """Return an image, (h, w) or (h, w, c), as (h, w, c)."""
    return image if image.ndim == 3 else image[..., None]


def _grey(image: np.ndarray) -> np.ndarray:
    """Return the mean of the channels of an image, (h, w, c), in its type: (h, w)."""
    channels = image.shape[2]
    return image[:, :, 0] if channels == 1 else cv2.transform(image, np.full((1, channels), 1 / channels))
