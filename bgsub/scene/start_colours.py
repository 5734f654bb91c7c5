"""The first frames of a stream and their commonest colours, a background from the first frame on.

Only stable colours last: leaves before the lens and people change from frame to frame, while the background behind them
returns with the same colour. A median would need the background in more than half of the frames.

References
----------
S. Zeevi, BackgroundSubtractorCNT, 2016: a colour that stays for some frames is background.
K. Kim, T. Chalidabhongse, D. Harwood, L. Davis, Real-time foreground-background segmentation using codebook model,
Real-Time Imaging 11(3), 2005: several colours per pixel.
"""

import math
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.jit import constant
from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.numerics.threads import bands_for, copied, in_bands
from bgsub.parameters import SubtractorParameters
from bgsub.scene import _start_colours_kernels
from bgsub.scene.frame_format import FrameFormat

_COLOURS = 3  # per pixel
_SAME = 0.03  # colours of a pixel are the same up to the largest of this joint distance (full scale is 1), ...
_NOISE = 2.0  # ... this many times the noise of the camera, ...
_SCATTER = 2.5  # ... and this many times the noise scale of the pixel
_EXACT = 0.0075  # used by `LateColours` instead of `_SAME` and `_SCATTER`: hidden background returns exactly
_KNOWN = 0.5  # share of the first frames that must show a colour for it to be known as the background
_STOOD = 10  # frames of one colour after which foreground stands still, and `LateColours` does not count it
_SAMPLE = 5000  # pixels from which the noise is measured, ...
_CALMEST = 0.25  # ... as this quantile of their changes, since much of the frame may move
_WORK = 150_000  # pixels per band, see `bands_for`
#: Indices of no pixels.
NOWHERE = np.empty(0, np.int64)


class StartBuffer:
    """The first frames of a stream, kept until the batch start."""

    def __init__(self, capacity: int, size: int, dtype: str) -> None:
        self.frames = np.empty((capacity, size), dtype)
        self.count = 0
        self.lights = np.zeros(capacity, np.int64)  # of each frame, the number of the light in which it was taken
        self.references: list[np.ndarray] = []  # `Illumination.values` of the background in each light but the newest

    def state(self) -> State:
        """Return the frames so far, at least one, copied."""
        references = {f"light{i}": reference for i, reference in enumerate(self.references)}
        return {"frames": copied(self.frames[: self.count]), "lights": self.lights.copy(), **references}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the frames do not fit."""
        capacity, size = self.frames.shape
        frames = array_of(state, "frames", (None, size), self.frames.dtype.name)
        if not 1 <= len(frames) <= capacity:
            raise ParameterError(f"the start must have 1 to {capacity} frames, got {len(frames)}")
        self.count = len(frames)
        self.frames[: self.count] = frames
        self.lights = array_of(state, "lights", self.lights.shape, "int64", 0, capacity)
        self.references = [array_of(state, f"light{i}", (None, None), "float32") for i in range(int(self.lights.max()))]

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full."""
        return self.count == self.frames.shape[0]

    @property
    def outdated(self) -> np.ndarray:
        """Numbers of the frames that were taken under another light than the newest."""
        return np.flatnonzero(self.lights[: self.count] < len(self.references))

    @property
    def newest(self) -> np.ndarray | None:
        """The last frame, (m,), None before the first."""
        return self.frames[self.count - 1] if self.count else None

    def add(self, frame: np.ndarray) -> None:
        """Append one flattened frame, (m,)."""
        self.frames[self.count] = frame
        self.lights[self.count] = len(self.references)
        self.count += 1

    def begin_light(self, reference: np.ndarray) -> None:
        """Begin a new light with the next frame; `reference`: `Illumination.values` of the background before."""
        if self.count and self.lights[self.count - 1] == len(self.references):  # else no frame was taken in it
            self.references.append(reference)


class CleanedFrames:
    """Frames, (n, m), in which the background replaces what differs from it by more than a limit; read by columns."""

    def __init__(self, frames: np.ndarray, background: np.ndarray, limit: np.ndarray) -> None:
        """Use a background, (m,) float32, and a joint distance `limit`, (h * w,), in the unit of the frames."""
        self.shape = frames.shape
        self._pixels = frames.reshape(len(frames), limit.size, -1)
        self._colours, self._squares = background.reshape(limit.size, -1), limit * limit
        half = np.float32(0.5 if frames.dtype == np.uint8 else 0)
        self._rounded = (self._colours + half).astype(frames.dtype)

    def __getitem__(self, key: tuple[slice, Any]) -> np.ndarray:
        """Return a copy of some columns, a range or an array of indices."""
        columns, channels = key[1], self._pixels.shape[2]
        if isinstance(columns, slice):
            first, last = columns.start // channels, -(-columns.stop // channels)
            pixels: Any = np.s_[first:last]
            chosen: Any = np.s_[columns.start - first * channels : columns.stop - first * channels]
        else:
            pixels = columns // channels
            chosen = channels * np.arange(columns.size) + columns % channels
        x = np.array(self._pixels[:, pixels], order="C")
        d = x - self._colours[pixels]
        far = np.einsum("fpc,fpc->fp", d, d) > self._squares[pixels]
        np.copyto(x, self._rounded[pixels], where=far[:, :, np.newaxis])
        return x.reshape(len(x), -1)[:, chosen]


class StartColours:
    """The commonest colours of each pixel, `colours` (q, h * w, c), the first the commonest, with their `counts`."""

    def __init__(self, frames: FrameFormat, threads: int | None, pixels: int | None = None) -> None:
        """Begin with no colours of all or some pixels."""
        h, w, channels = frames.cube
        n = h * w if pixels is None else pixels
        self._bands, self._lanes = bands_for(n, _WORK, threads), constant(channels)
        self._full = np.float32(frames.pixels_full)
        self._same = _SAME * frames.pixels_full
        self.colours = np.zeros((_COLOURS, n, channels), np.float32)
        self.counts = np.zeros((_COLOURS, n), np.uint16)
        self._last, self._fresh = np.zeros((2, n), np.uint8)
        self._limit = np.empty(n, np.float32)
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

    def scale(self, factors: np.ndarray) -> None:
        """Multiply all colours by `factors`, (h, w, c) float32."""
        most = np.maximum(self.colours, self._full)
        self.colours *= factors.reshape(self.colours.shape[1:])
        np.minimum(self.colours, most, out=self.colours)

    def put(self, pixels: np.ndarray, where: np.ndarray) -> None:
        """Make the colours of a frame, (h, w, c), the background at some pixels, (h, w) bool."""
        chosen = np.flatnonzero(where)
        self.colours[0, chosen] = pixels.reshape(self.colours.shape[1:])[chosen]

    def add(
        self, pixels: np.ndarray, before: np.ndarray | None, sigma: np.ndarray, known: np.ndarray | None = None
    ) -> None:
        """Count the colours of a frame, (m,), except at `known` foreground; measure the noise against `before`."""
        if before is not None:
            step = max(len(self._last) // _SAMPLE, 1)
            x, y = (image.reshape(self.colours.shape[1:])[::step].astype(np.float32) for image in (pixels, before))
            others = y, y * np.float32(x.mean() / max(float(y.mean()), 1e-9))  # the light may flicker
            changes = [float(np.quantile(np.linalg.norm(x - other, axis=1), _CALMEST)) for other in others]
            if changes[0] > 0:  # else the frame repeats the previous one
                self.noise = min(changes[1] or changes[0], changes[0], self.noise or math.inf)
        limit = np.multiply(sigma.reshape(-1), np.float32(_SCATTER), out=self._limit)
        np.maximum(limit, np.float32(max(self._same, _NOISE * self.noise)), out=limit)
        self._count_colours(pixels, limit, NOWHERE if known is None else np.flatnonzero(known))

    def _count_colours(self, pixels: np.ndarray, limit: np.ndarray, hidden: np.ndarray) -> bool:
        """Count colours, (m,), equal up to `limit`, (n,); return whether the commonest one changed anywhere (`_fresh`).

        `hidden` pixels, (k,) indices, are not counted; those without a colour take that of the frame.
        """
        x, maps, changed = pixels.reshape(self.colours.shape[1:]), (self.colours, self.counts, self._last), list[int]()
        if hidden.size:
            kept = [array[..., hidden].copy() for array in maps[1:]]
            colours = np.where(self.counts[0, hidden, np.newaxis] > 0, self.colours[:, hidden], x[hidden])

        def count(begin: int, end: int, _: int) -> None:
            changed.append(_start_colours_kernels.count_colours(begin, end, self._lanes, x, limit, *maps, self._fresh))

        in_bands(count, len(x), self._bands)
        if hidden.size:
            self.counts[:, hidden], self._last[hidden], self.colours[:, hidden] = *kept, colours
            self._fresh[hidden] = 0
        return any(changed)


class LateColours(StartColours):
    """Go on counting the colours of unknown pixels, which showed none in half of the first frames, until one is known.

    Leaves, people and traffic may hide a background during most of the start. Only the background returns with exactly
    the same colour.
    """

    def __init__(
        self, frames: FrameFormat, parameters: SubtractorParameters, where: np.ndarray = NOWHERE, noise: float = 0.0
    ) -> None:
        """Begin without colours at the pixels `where`, (n,) indices, with the `noise` of the start."""
        super().__init__(frames, parameters.threads, where.size)
        self.where, self.noise, self._known_after = where, noise, _KNOWN * parameters.start_length
        self._limit[:] = max(_EXACT * frames.pixels_full, _NOISE * noise)
        self._new = np.zeros(where.size, np.uint8)  # not 0 where the commonest colour is not the background yet

    @classmethod
    def after(cls, start: StartColours, frames: FrameFormat, parameters: SubtractorParameters) -> "LateColours":
        """Begin with the pixels that are unknown after the first frames; these are then counted again."""
        return cls(frames, parameters, np.flatnonzero(start.counts[0] < _KNOWN * parameters.start_length), start.noise)

    def begin(self, start: StartColours) -> None:
        """End the count of the first frames; known foreground, which `StartColours` left out, must not count."""
        np.minimum(self.counts, start.counts[0].take(self.where), out=self.counts)
        self._new[:] = 0  # the background stays until another colour is the commonest

    def count(self, pixels: np.ndarray, age: np.ndarray | None = None, known: np.ndarray | None = None) -> None:
        """Count the colours of a frame, (h, w, c), except where foreground stands still or is known.

        `age`, (h, w) uint16: see `StandingObjects`; `known` foreground, (h, w) bool.
        """
        if not self.where.size:
            return
        hidden = NOWHERE if age is None else np.flatnonzero(age.take(self.where) > _STOOD)
        if known is not None:
            hidden = np.union1d(hidden, np.flatnonzero(known.take(self.where)))
        if self._count_colours(pixels.reshape(-1, self.colours.shape[2]).take(self.where, axis=0), self._limit, hidden):
            self._new |= self._fresh
        self._last[hidden] = _COLOURS  # showed none of its colours

    def returned(self, least: float) -> np.ndarray:
        """Return pixels, (n,) indices, that show their commonest colour, and this is new or known; drop the known ones.

        `NOWHERE`, and nothing is dropped, if there are fewer than `least`.
        """
        if self.where.size < least:
            return NOWHERE
        is_known = self.counts[0] >= self._known_after
        found = (self._last == 0) & (is_known | (self._new != 0))
        if np.count_nonzero(found) < least:
            return NOWHERE
        self._new[found] = 0
        where, left = self.where[found], np.flatnonzero(~(found & is_known))
        if left.size < self.where.size:
            self.where, self._limit = self.where.take(left), self._limit.take(left)
            self._last, self._fresh, self._new = (array.take(left) for array in (self._last, self._fresh, self._new))
            self.colours, self.counts = self.colours.take(left, axis=1), self.counts.take(left, axis=1)
        return where

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        return {**super().state(), "where": self.where.copy(), "new": self._new.copy()}

    @classmethod
    def from_state(cls, frames: FrameFormat, parameters: SubtractorParameters, state: State) -> "LateColours":
        """Return colours that continue bit for bit; ParameterError if the arrays do not fit."""
        where = array_of(state, "where", (None,), "int64", 0, frames.cube[0] * frames.cube[1] - 1)
        late = cls(frames, parameters, where, numbers_of(state, "noise", 1)[0])
        late.set_state(state)
        late._new = array_of(state, "new", where.shape, "uint8")
        return late
