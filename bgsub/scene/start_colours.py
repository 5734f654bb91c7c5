"""The first frames of a stream and their commonest colours, a background from the first frame on.

Only stable colours last: leaves before the lens and people change from frame to frame, while the background behind them
returns with the same colour. A median would need the background in more than half of the frames.

References
----------
S. Zeevi, BackgroundSubtractorCNT, 2016: a colour that stays for some frames is background.
K. Kim, T. Chalidabhongse, D. Harwood, L. Davis, Real-time foreground-background segmentation using codebook model,
Real-Time Imaging 11(3), 2005: several colours per pixel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.numerics.threads import bands_for, copied, cores, in_bands
from bgsub.scene import _start_colours_kernels
from bgsub.scene.frame_format import FrameFormat, lanes_of

_COLOURS = 3  # per pixel
_SAME = 0.03  # joint distance of the same colour
_NOISE = 2.0  # the same in units of the noise
_SCATTER = 2.5  # the same in units of the pixel's noise scale
_SAMPLE = 5000  # pixels for the noise
_CALMEST = 0.25  # quantile of their changes, as much of the frame may move
_WORK = 150_000  # pixels per band, see `bands_for`


class StartBuffer:
    """The first frames of a stream, kept until the batch start."""

    def __init__(self, capacity: int, size: int, dtype: str) -> None:
        self.frames = np.empty((capacity, size), dtype)
        self.count = 0

    def state(self) -> State:
        """Return the frames so far, copied."""
        return {"frames": copied(self.frames[: self.count])} if self.count else {}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the frames do not fit."""
        if not state:
            return
        capacity, size = self.frames.shape
        frames = array_of(state, "frames", (None, size), self.frames.dtype.name)
        if not 1 <= len(frames) <= capacity:
            raise ParameterError(f"the start must have 1 to {capacity} frames, got {len(frames)}")
        self.count = len(frames)
        self.frames[: self.count] = frames

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full."""
        return self.count == self.frames.shape[0]

    @property
    def is_nearly_full(self) -> bool:
        """Whether at most one frame is missing."""
        return self.count + 1 >= self.frames.shape[0]

    @property
    def newest(self) -> np.ndarray | None:
        """The last frame, (m,), None before the first."""
        return self.frames[self.count - 1] if self.count else None

    def add(self, frame: np.ndarray) -> None:
        """Append one flattened frame, (m,)."""
        self.frames[self.count] = frame
        self.count += 1

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Replace every frame except the newest one, (m,), by the result of `change`."""
        for i in range(self.count - 1):
            self.frames[i] = change(self.frames[i])

    def fill_in(self, background: np.ndarray, limit: np.ndarray) -> None:
        """Replace pixels by a background, (m,) float32, where they differ by more than `limit`, (h * w,)."""
        pixels = self.frames[: self.count].reshape(self.count, limit.size, -1)
        half = np.float32(0.5 if pixels.dtype == np.uint8 else 0)
        colours, squares = background.reshape(limit.size, -1), limit * limit

        def fill(begin: int, end: int, _: int) -> None:
            _start_colours_kernels.fill_in(begin, end, colours, squares, half, pixels)

        in_bands(fill, limit.size, cores())


class StartColours:
    """Colours of every pixel, (q, h * w, c), the first one the commonest, and for how many frames each was seen."""

    def __init__(self, frames: FrameFormat, threads: int | None) -> None:
        h, w, channels = frames.cube
        self._bands = bands_for(h * w, _WORK, threads)
        self._same = _SAME * frames.pixels_full
        self.colours = np.zeros((_COLOURS, h * w, channels), np.float32)
        self.counts = np.zeros((_COLOURS, h * w), np.uint16)
        self._last = np.zeros(h * w, np.uint8)
        self._due = np.zeros(h * w, np.uint8)
        self._limit = np.empty(h * w, np.float32)
        self.noise = 0.0

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        maps: State = {"colours": self.colours.copy(), "counts": self.counts.copy(), "last": self._last.copy()}
        return {**maps, "noise": np.array([self.noise])}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        self.colours = array_of(state, "colours", self.colours.shape, "float32")
        self.counts = array_of(state, "counts", self.counts.shape, "uint16")
        self._last = array_of(state, "last", self._last.shape, "uint8")
        self.noise = float(numbers_of(state, "noise", 1)[0])

    @property
    def background(self) -> np.ndarray:
        """The commonest colour of every pixel, (m,), float32, in the unit of the pixels."""
        return self.colours[0].reshape(-1)

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Replace every picture of colours, (m,), by the result of `change`."""
        for picture in self.colours:
            picture.reshape(-1)[:] = change(picture.reshape(-1))

    def put(self, pixels: np.ndarray, where: np.ndarray) -> None:
        """Make the colours of a frame, (h, w, c), the background at some pixels, (h, w) bool."""
        chosen = np.flatnonzero(where)
        self.colours[0, chosen] = pixels.reshape(self.colours.shape[1:])[chosen]

    def add(
        self, pixels: np.ndarray, before: np.ndarray | None, sigma: np.ndarray, known: np.ndarray | None = None
    ) -> None:
        """Count the colours of a frame, (m,), except at `known` foreground; learn the noise from `before`."""
        if before is not None:
            self._learn_noise(pixels, before)
        limit = np.multiply(sigma.reshape(-1), np.float32(_SCATTER), out=self._limit)
        np.maximum(limit, np.float32(max(self._same, _NOISE * self.noise)), out=limit)
        x, maps = pixels.reshape(self.colours.shape[1:]), (self.colours, self.counts, self._last)
        hidden = np.empty(0, np.int64) if known is None else np.flatnonzero(known)
        kept = [array[..., hidden].copy() for array in (self.counts, self._last)]
        colours = np.where(self.counts[0, hidden, np.newaxis] > 0, self.colours[:, hidden], x[hidden])

        lanes = lanes_of(x)

        def count(begin: int, end: int, _: int) -> None:
            if _start_colours_kernels.count_colours(begin, end, lanes, x, limit, *maps, self._due):
                _start_colours_kernels.put_first(begin, end, self._due, *maps)

        in_bands(count, len(x), self._bands)
        self.counts[:, hidden], self._last[hidden], self.colours[:, hidden] = *kept, colours

    def _learn_noise(self, pixels: np.ndarray, before: np.ndarray) -> None:
        step = max(len(self._last) // _SAMPLE, 1)
        x, y = (image.reshape(self.colours.shape[1:])[::step].astype(np.float32) for image in (pixels, before))
        change = float(np.quantile(np.sqrt(np.sum((x - y) ** 2, axis=1)), _CALMEST))
        if change > 0:  # not a repeated frame
            self.noise = min(change, self.noise or change)
