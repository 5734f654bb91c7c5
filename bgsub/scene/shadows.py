"""Cast shadows: darker than the background by a common factor, or on the side of objects that is never lit.

References
----------
T. Horprasert, D. Harwood, L. S. Davis, A statistical approach for real-time robust background subtraction and shadow
detection, ICCV frame-rate workshop, 1999: the common factor. The walk in from the side of the shadows is our own.
"""

from __future__ import annotations

import math

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of
from bgsub.numerics.threads import in_bands
from bgsub.scene import _shadows_kernels
from bgsub.scene.frame_format import lanes_of
from bgsub.scene.mask_filters import majority_filter

# Smallest and largest factor; joint distance from the background times the factor; RMS error of the texture.
_COLOURED = np.float32(0.35), np.float32(0.97), np.float32(0.02), np.float32(0.04)
_GREY = np.float32(0.5), np.float32(0.97), np.float32(0.02), np.float32(0.01)
_SIDE = 11  # pixels, side of the vote
_SPREAD = 0.03  # largest difference of the channels of a grey pixel, after video coding
_STRAY, _SAMPLES = 0.01, 1000  # coloured share of a grey image; sampled pixels
_OBJECT = np.float32(0.6)  # share of object nearby above which a dark pixel is object
_RISE, _FALL = np.float32(0.003), np.float32(0.05)  # tolerance of the factor on the way in: noise and penumbra
_SPECKLE = 7  # pixels, side of the vote over the way in
_BLACK = 0.01  # share of full scale added to a background that may be black
_EVERY = 4  # rows per row of the outline
_DEPTH = 4  # depth of the outline in pixels
_LIT = np.float32(0.6)  # factor of lit outline
_UNKNOWN, _MEMORY = 5.0, 1500.0  # outline in frame sides: initial one, half lit, and largest one kept
_MOST = 0.9  # largest share forgotten in one frame
_NEVER = 0.65  # relative lit share below which a side is never lit
_STEPS = np.array([(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)])  # right, clockwise


def has_colour(image: np.ndarray, scale: float) -> bool:
    """Return whether more than a few of some thousand pixels of an image, (h, w, c), are not grey."""
    if image.shape[2] < 3:
        return False
    pixels = image.reshape(-1, image.shape[2])
    step = max(len(pixels) // _SAMPLES, 1)
    coloured = _shadows_kernels.count_coloured(pixels, step, np.float32(_SPREAD / scale))
    return bool(coloured > _STRAY * -(-len(pixels) // step))


class ShadowDetector:
    """Find the foreground pixels that are cast shadows.

    A pixel is dark if it is its background times one factor in all channels (Horprasert et al., 1999), and object if
    not, or if its texture differs. A dark pixel is shadow unless most of the foreground nearby is object.
    """

    # darker shadows are found by their place: on the side where the outline of the foreground is rarely lit

    def __init__(self, shape: tuple[int, int], bands: int = 1) -> None:
        self._bands = bands
        self._dark, self._other = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self._cast, self._darkest = np.zeros(shape, np.uint8), np.empty(shape, np.float32)
        self._boxes = np.empty((bands, 4), np.int64)
        self._columns = np.empty((bands, 2, shape[1] + _SIDE - 1), np.uint16)
        self._counts = np.empty((bands, 2, shape[1]), np.uint16)
        self._seen = np.empty((bands, len(_STEPS), 2), np.int64)
        self._outline = [(0.5 * _UNKNOWN, _UNKNOWN)] * len(_STEPS)  # in frame sides: lit and total
        self.side: int | None = None

    def state(self) -> State:
        """Return the outline statistics, copied."""
        return {"outline": np.array(self._outline)}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        outline = array_of(state, "outline", (len(_STEPS), 2), "float64")
        if not ((outline[:, 0] >= 0) & (outline[:, 0] <= outline[:, 1]) & (outline[:, 1] > 0)).all():
            raise ParameterError(f"outline must be pairs of lit and total outline, got {outline.tolist()}")
        self._outline = [(lit, total_outline) for lit, total_outline in outline.tolist()]
        self.side = _dark_side(self._outline)

    def learn(self, x: np.ndarray, background: np.ndarray, mask: np.ndarray) -> None:
        """Learn the side of shadows from frame, background and foreground, arrays as in `find`."""
        inputs = x, background, mask, _EVERY, _DEPTH, _STEPS, _LIT

        def see(begin: int, end: int, band: int) -> None:
            _shadows_kernels.see_outline(begin, end, *inputs, self._seen[band])

        self._seen[:] = 0  # fewer bands may run
        in_bands(see, len(mask), self._bands)
        unit = _EVERY / math.sqrt(mask.size)
        seen = np.add.reduce(self._seen).tolist()
        total = sum(count for _, count in seen)
        if total == 0:
            return
        keep = 1 - min(unit * total / _MEMORY, _MOST)
        self._outline = [
            (keep * lit + unit * a, keep * total_outline + unit * b)
            for (lit, total_outline), (a, b) in zip(self._outline, seen, strict=True)
        ]
        self.side = _dark_side(self._outline)

    def find(self, x: np.ndarray, background: np.ndarray, mask: np.ndarray, scale: float = 1.0) -> np.ndarray | None:
        """Return where the foreground is shadow (not 0), (h, w) uint8, a buffer; None if nowhere."""
        dark = self._find_darkened(x, background, mask, scale)
        side = self.side
        if side is None:
            return dark
        cast = self._walk_in(side, x, background, mask, scale)
        return cast if dark is None else np.bitwise_or(dark, cast, out=dark)

    def _walk_in(self, side: int, x: np.ndarray, background: np.ndarray, mask: np.ndarray, scale: float) -> np.ndarray:
        """Return where the foreground gets darker from a side on, as `find` does."""
        dy, dx = _STEPS[side]
        limits = np.float32(_BLACK / scale), *_COLOURED[:2], _RISE, _FALL
        _shadows_kernels.walk_in(dy, dx, x, background, mask, *limits, self._other, self._darkest)
        majority_filter(self._other, _SPECKLE, self._cast)
        return np.bitwise_and(self._cast, mask, out=self._cast)  # the majority has all bits set

    def _find_darkened(
        self, x: np.ndarray, background: np.ndarray, mask: np.ndarray, scale: float
    ) -> np.ndarray | None:
        """Return where the foreground is its background times one factor, as `find` does."""
        dark, other, boxes = self._dark, self._other, self._boxes
        height, width = mask.shape
        boxes[:] = height, 0, width, 0
        limits = _COLOURED if has_colour(background, scale) else _GREY
        inputs = lanes_of(x), x, background, np.float32(scale), mask

        def classify(begin: int, end: int, band: int) -> None:
            _shadows_kernels.classify(begin, end, *inputs, *limits, dark, other, boxes[band])

        in_bands(classify, height, self._bands)
        top, bottom, left, right = zip(*boxes.tolist(), strict=True)
        first, last = min(top), max(bottom)
        if last == 0:
            return None

        def vote(begin: int, end: int, band: int) -> None:
            part = np.array([first + begin, first + end, min(left), max(right)])
            work = self._columns[band], self._counts[band]
            _shadows_kernels.clear_outvoted(part, mask, other, dark, _SIDE, _OBJECT, *work)

        in_bands(vote, last - first, self._bands)
        return dark


def _dark_side(outline: list[tuple[float, float]]) -> int | None:
    """Return the side whose outline is rarely lit, given the lit and total outline of each; None if there is none."""
    lit, total_outline = zip(*outline, strict=True)
    side = min(range(len(lit)), key=lambda i: lit[i] / total_outline[i])
    return side if lit[side] * sum(total_outline) < _NEVER * sum(lit) * total_outline[side] else None
