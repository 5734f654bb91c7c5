"""Small movements of the camera, estimated robustly against the background.

A frame is compared with the reference at points of strong gradient. One Gauss-Newton step from the identity decides
whether the camera moved; only then the movement is searched by the correlation of whole pictures and refined.

References
----------
A. J. Fitch, A. Kadyrov, W. J. Christmas, J. Kittler, Orientation correlation, BMVC 2002: the correlation of the
directions of edges; ours keeps weak edges short.
S. Baker, I. Matthews, Lucas-Kanade 20 years on: a unifying framework, IJCV 56(3), 2004: the inverse compositional
step, gradients of the reference alone; gain and offset of the light are two more unknowns.
"""

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
_COARSE = 100  # pixels of the shorter side of the coarse scale, about
_PEAK = 3  # pixels on each side of the best correlation that belong to its peak
_STANDS_OUT = 1.5  # least ratio of the best correlation to those outside of its peak
_TRUST = 0.25  # share of the width of the peak: farther from it, the Gauss-Newton steps followed objects
_SURE = 3  # searches in a row without movement, after which each further one lets one more frame be left out, ...
_MOST_RESTS = 12  # ... up to this number of searches: nine frames are left out
_LIKEWISE = 1.2  # but none is left out if its cost exceeds that of the last search by this factor
_ITERATIONS = (20, 12)  # most Gauss-Newton steps on the coarse and on the fine scale
_STILL = 0.4  # pixels: smaller movements are ignored
_UPRIGHT = 0.1  # pixels at a corner: smaller turns and zooms are ignored
_FARTHEST = 0.3  # of the shorter side: larger movements are another scene
_NEAR = 1.0  # pixels: if the first step is shorter, the fine scale converges without the search
_CONVERGED = 0.02  # pixels, length of the last step
_SOFTEST = 0.25  # of full scale: residual from which points are outliers on the coarse scale; a third on the fine one
_FITS = 0.08  # largest cost of an aligned picture (0 to 1); a short first step alone may be far from alignment
_POOR = 0.2  # cost of a movement from which on a zoom is tried: shaking pictures lie below, a zoom by 1 % above
_ZOOMED = 0.85  # largest cost with a zoom relative to that without one
_PATIENCE = 4  # poor movements in a row until a zoom is tried again after it did not reduce the cost
_PROBE = 3  # every third point decides whether the camera moved
_GAIN = 0.9  # largest cost of a movement relative to that of rest
_CLEAR = 0.5  # largest such cost if the first step found no movement
_FAINTEST = 0.25  # smallest gain (contrast of the frame relative to the reference) of a movement
_ALIKE = 0.65  # smallest gain if the steps end far from the peak of the correlation: wrong alignments have lower ones
_FEWEST = 24  # smallest number of points
_AT_REST = np.array([0.0, 0.0, 0.0, 1.0, 0.0])  # dx, dy, angle, gain, offset
_ZOOMS_AT_REST = np.append(_AT_REST, 0.0)  # and zoom


class Movement(NamedTuple):
    """A turn and a zoom about the centre of the image and a translation, from reference to frame."""

    dx: float = 0.0  # pixels
    dy: float = 0.0
    angle: float = 0.0  # radians
    zoom: float = 0.0  # growth of lengths, relative to them

    def matrix(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the affine map, (2, 3), from coordinates (x, y) of the reference to those of the frame."""
        c, s = (1 + self.zoom) * math.cos(self.angle), (1 + self.zoom) * math.sin(self.angle)
        x, y = (shape[1] - 1) / 2, (shape[0] - 1) / 2
        return np.array([[c, -s, x - c * x + s * y + self.dx], [s, c, y - s * x - c * y + self.dy]])

    def reach(self, shape: tuple[int, ...]) -> float:
        """Return the largest displacement of a corner in pixels, to first order."""
        return math.hypot(self.dx, self.dy) + math.hypot(self.angle, self.zoom) * math.hypot(shape[0], shape[1]) / 2


class _Points:
    """The points of strongest gradient in every cell of a reference, (h, w, c), at one resolution."""

    # `_strength` (rows, cells, 8): squared gradients; `_points` (8, rows, cells, 8): x and y from the centre, and the
    # derivatives by x, y, angle, gain (minus the value), offset (-1) and zoom, see `residuals`

    def __init__(self, shape: tuple[int, int, int]) -> None:
        h, w, _ = shape
        self._shape = shape
        self._side = max(math.ceil(max(h, w) / _CELLS), 4)
        self.rows, cells = h // self._side, w // self._side
        self._strength = np.zeros((self.rows, cells, _PER_CELL), np.float32)
        self._points = np.zeros((8, *self._strength.shape), np.float32)
        self._solver = np.empty((6, 6)), np.empty(6)
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

    def take(self, image: np.ndarray, scale: float, only: int | None = None) -> None:
        """Choose and read the points of all cells of a reference, or of one row of cells, `only`."""
        h, w, _ = self._shape
        side, cells = self._side, self._strength.shape[1]
        first, last = (0, self.rows) if only is None else (only, only + 1)
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
        points[7] = (points[2] * points[0] + points[3] * points[1]) / np.float32(self._unit)
        self._select()

    def _select(self) -> None:
        """Use the points that are not flat."""
        points = self._points.reshape(8, -1).take(np.flatnonzero(self._strength > _FLAT), axis=1)
        self.count = points.shape[1]
        few = np.ascontiguousarray(points[:, ::_PROBE])
        self._all, self._few = (points[:2], points[2:]), (few[:2], few[2:])
        self._work = np.empty(self.count, np.float32), np.empty((2, self.count), np.float32), *self._solver

    def step(
        self, image: np.ndarray, scale: float, soft: float, movement: np.ndarray, few: bool = False
    ) -> tuple[float, float]:
        """Refine `movement`, (5 or 6,), by a step on `few` or all points; return the cost before it and its length."""
        points, rows = self._few if few else self._all
        rows = rows[: movement.size]
        return _registration_kernels.align(image, scale, points, rows, soft, self._unit, movement, *self._work)

    def align(self, image: np.ndarray, scale: float, soft: float, iterations: int, movement: np.ndarray) -> float:
        """Refine `movement`, (5 or 6,), in pixels of this resolution by steps; return the cost before the last one."""
        cost = 1.0
        for _ in range(iterations):
            cost, length = self.step(image, scale, soft, movement)
            if length < _CONVERGED:
                break
        return cost


class _Correlation:
    """Find a translation, however far, among objects: correlate the directions of all edges of two pictures."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._size = tuple(cv2.getOptimalDFTSize(n) for n in shape)
        self.spectrum = np.zeros((*self._size, 2), np.float32)  # of the reference

    def transformed(self, image: np.ndarray) -> np.ndarray:
        """Return the spectrum of the gradients of a picture, (h, w, 1), of nearly unit length, as complex numbers."""
        slopes = np.zeros((*self._size, 2), np.float32)
        edges = slopes[: self.shape[0], : self.shape[1]]
        gx, gy = (cv2.Sobel(image, cv2.CV_32F, *order) for order in ((1, 0), (0, 1)))
        length = np.sqrt(gx * gx + gy * gy)  # cv2.magnitude rounds by where its arrays lie in memory
        length += cv2.mean(length)[0] + _FLAT
        edges[..., 0], edges[..., 1] = gx / length, gy / length
        return cv2.dft(slopes)

    def find(self, image: np.ndarray, farthest: int) -> tuple[float, float, float, bool]:
        """Return the translation from the reference to a picture, (h, w, 1), and the width of its peak."""
        # all 0 if rest correlates nearly as well; the bool: whether the peak stands out among all up to `farthest`
        product = cv2.mulSpectrums(self.transformed(image), self.spectrum, 0, conjB=True)
        likeness = cv2.idft(product)[..., 0]  # real part of the correlation
        reach = [min(farthest, (n - 1) // 2) for n in self._size]
        likeness = likeness[np.ix_(*(np.arange(-n, n + 1) for n in reach))]
        _, best, _, (x, y) = cv2.minMaxLoc(likeness)
        (dx, across), (dy, along) = _vertex(likeness[y], x), _vertex(likeness[:, x], y)
        at_rest = likeness[reach[0], reach[1]]
        likeness[max(y - _PEAK, 0) : y + _PEAK + 1, max(x - _PEAK, 0) : x + _PEAK + 1] = 0
        stands_out = bool(best > _STANDS_OUT * likeness.max())
        if best <= 0 or at_rest >= _GAIN * best:  # not positive if all edges are reversed
            return 0.0, 0.0, 0.0, stands_out
        return x + dx - reach[1], y + dy - reach[0], math.sqrt(2 * best / (across + along)), stands_out


def _vertex(values: np.ndarray, at: int) -> tuple[float, float]:
    """Return how far from a maximum the parabola through it and its neighbours has its vertex, and its curvature."""
    if not 0 < at < len(values) - 1:
        return 0.0, 1e-9
    left, middle, right = values[at - 1 : at + 2].tolist()
    curvature = max(2 * middle - left - right, 1e-9)
    return 0.5 * (right - left) / curvature, curvature


class Registration:
    """Estimate the movement of the camera from a reference picture to a frame."""

    # robust Gauss-Newton steps on points of strong gradient; gain and offset of the light are fitted as well

    def __init__(self) -> None:
        self._shape: tuple[int, int, int] | None = None
        self._still_searches, self._wait = 1, 0  # searches in a row without movement; frames left out until the next
        self._cost_to_search = 0.0  # cost of a frame from which on it is not left out
        self._since_zoom = 0  # poor movements since a zoom was found

    def set_reference(self, image: np.ndarray, scale: float = 1.0, part: int | None = None) -> bool:
        """Set the background, (h, w) or (h, w, c) with ``scale * image`` in [0, 1], as the reference."""
        # `part`: number of the only part that is set, as all at once would take long; return whether it was the last
        image = image if image.ndim == 3 else image[..., None]
        if image.shape != self._shape:
            self._begin(image.shape)
            part = None
        is_last = part is None or part >= self._fine.rows  # parts: rows of cells, then the coarse scale
        if is_last:
            level = self._reduced(image)
            self._coarse.take(level, scale)
            self._correlation.spectrum = self._correlation.transformed(level)
        if part is None or not is_last:
            self._fine.take(image, scale, part)
        return is_last

    def _begin(self, shape: tuple[int, int, int]) -> None:
        self._shape = shape
        h, w, _ = shape
        self._factor = max(1, round(min(h, w) / _COARSE))
        coarse = h // self._factor, w // self._factor
        self._fine, self._coarse, self._correlation = _Points(shape), _Points((*coarse, 1)), _Correlation(coarse)

    def _reduced(self, image: np.ndarray) -> np.ndarray:
        """Return the grey means over squares of pixels, (h_c, w_c, 1), of the type of a picture, (h, w, c)."""
        h, w = self._correlation.shape
        if self._factor > 1:
            seen = image[: h * self._factor, : w * self._factor]
            image = cv2.resize(seen, (w, h), interpolation=cv2.INTER_AREA).reshape(h, w, -1)
        return _grey(image)[..., np.newaxis]

    def state(self) -> State:
        """Return what the next frame depends on, copied; nothing before the first reference."""
        if self._shape is None:
            return {}
        return {
            "numbers": np.array([self._still_searches, self._wait, self._cost_to_search, self._since_zoom], np.float64),
            "spectrum": self._correlation.spectrum.copy(),
            "fine": self._fine.state(),
            "coarse": self._coarse.state(),
        }

    def set_state(self, state: State, shape: tuple[int, int, int]) -> None:
        """Restore a state on pictures of a shape; ParameterError if the arrays do not fit."""
        if not state:
            return
        self._begin(shape)
        rests, wait, self._cost_to_search, in_vain = numbers_of(state, "numbers", 4)
        self._still_searches, self._wait, self._since_zoom = int(rests), int(wait), int(in_vain)
        self._fine.set_state(part_of(state, "fine"))
        self._coarse.set_state(part_of(state, "coarse"))
        spectrum = self._correlation.spectrum
        self._correlation.spectrum = array_of(state, "spectrum", spectrum.shape, "float32")

    def estimate(self, image: np.ndarray, scale: float = 1.0) -> Movement | None:
        """Return the movement from the reference to a frame, (h, w, c), or None if the frame fits best unmoved."""
        if self._shape is None or self._fine.count < _FEWEST:
            return None
        first = _ZOOMS_AT_REST.copy()
        cost, step = self._fine.step(image, scale, _SOFTEST, first, few=True)
        is_quiet = cost < _FITS and step < _STILL
        if is_quiet and self._still_searches:  # at low contrast it may have moved: searched after a movement only
            return None
        if self._wait and cost < self._cost_to_search:
            self._wait -= 1
            return None
        near = first[:5] if cost < _FITS and step < _NEAR else None
        movement = self._search(image, scale, near, _CLEAR if is_quiet else _GAIN)
        self._still_searches = 0 if movement else min(self._still_searches + 1, _MOST_RESTS)
        self._wait, self._cost_to_search = max(self._still_searches - _SURE, 0), _LIKEWISE * cost
        return movement

    def _search(self, image: np.ndarray, scale: float, near: np.ndarray | None, most: float) -> Movement | None:
        """Search the movement, starting at `near`, (5,), if the first step was short; None if there is none."""
        # `most`: largest cost of a movement relative to that of rest
        if near is not None:
            cost = self._fine.align(image, scale, _SOFTEST / 3, _ITERATIONS[1], near)
            if cost < _FITS:  # one step from rest is unreliable at low contrast
                fits = near[3] >= _FAINTEST and cost <= most * self._cost_at_rest(image, scale, near[3:])
                return self._movement(near) if fits else None
        level = self._reduced(image)
        *shift, stands_out = self._correlation.find(level, math.ceil(_FARTHEST * min(level.shape[:2])))
        cost, found = self._refined(image, level, scale, np.array([*shift[:2], *_AT_REST[2:]]))
        if cost > _POOR:
            if self._still_searches or self._since_zoom % _PATIENCE == 0:
                zoomed = self._refined(image, level, scale, np.array([*shift[:2], *_ZOOMS_AT_REST[2:]]))
                if zoomed[0] <= _ZOOMED * cost:
                    cost, found = zoomed
                    self._since_zoom = -1
            self._since_zoom += 1
        dx, dy, width = (self._factor * length for length in shift)
        still, away = self._cost_at_rest(image, scale, found[3:5]), self._cost(image, scale, (dx, dy, 0.0, *found[3:5]))
        is_near = math.dist(found[:2], (dx, dy)) < _TRUST * width
        if min(cost, away) <= most * still and found[3] >= (_FAINTEST if is_near else _ALIKE):
            return self._movement(found if cost <= away else np.array([dx, dy, 0.0]))
        if width and stands_out:  # steps that end elsewhere followed objects
            return self._movement(found if is_near else np.array([dx, dy, 0.0]))
        return None

    def _refined(
        self, image: np.ndarray, level: np.ndarray, scale: float, found: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Refine a movement, (5 or 6,), that is in pixels of the coarse `level`; return its cost, and itself."""
        if self._coarse.count >= _FEWEST:
            self._coarse.align(level, scale, _SOFTEST, _ITERATIONS[0], found)
        found[:2] *= self._factor
        return self._fine.align(image, scale, _SOFTEST / 3, _ITERATIONS[1], found), found

    def _cost(self, image: np.ndarray, scale: float, movement: tuple[float, ...]) -> float:
        """Return the cost of a movement with gain and offset, (5 or 6,)."""
        return self._fine.step(image, scale, _SOFTEST / 3, np.array(movement))[0]

    def _cost_at_rest(self, image: np.ndarray, scale: float, light: np.ndarray) -> float:
        """Return the cost of rest with a given gain and offset, `light` (2,), or with fitted ones if that is less."""
        own = _AT_REST.copy()
        self._fine.step(image, scale, _SOFTEST, own)
        return min(self._cost(image, scale, (0.0, 0.0, 0.0, *some)) for some in (light, own[3:]))

    def _movement(self, found: np.ndarray) -> Movement | None:
        """Return a movement, (5 or 6,), None if it is too small or too large."""
        assert self._shape is not None
        dx, dy, *others = found[[0, 1, 2, *range(5, found.size)]].tolist()
        least = _UPRIGHT / (math.hypot(*self._shape[:2]) / 2)
        movement = Movement(dx, dy, *(x if abs(x) >= least else 0.0 for x in others))
        return movement if _STILL <= movement.reach(self._shape) <= _FARTHEST * min(self._shape[:2]) else None


def _grey(image: np.ndarray) -> np.ndarray:
    """Return the mean of the channels of an image, (h, w, c), in its type: (h, w)."""
    channels = image.shape[2]
    return image[:, :, 0] if channels == 1 else cv2.transform(image, np.full((1, channels), 1 / channels))
