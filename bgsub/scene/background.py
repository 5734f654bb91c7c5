"""Where the background of a frame comes from: what the first frames show most, then the tracked subspace."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State
from bgsub.numerics.surrogates import Surrogate
from bgsub.parameters import SubtractorParameters
from bgsub.scene import _pixel_kernels
from bgsub.scene.engine import FrameBuffers, FrameInput, SweepEngine
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.start_colours import StartBuffer, StartColours
from bgsub.tracking.batch_start import passes_cross_validation
from bgsub.tracking.subspace import SubspaceUpdate
from bgsub.tracking.tracker import SubspaceTracker

_FLATTENS_AT = 0.06  # intensity at which the cost flattens when mu is not given
_EVERYTHING, _NOTHING = np.empty(0, np.float32), np.empty(0, np.uint16)
_PERIOD = 2  # frames in which every block of the basis is visited once ...
_YOUNG, _SETTLED = 250, 3  # ... but after so many frames that were learned, in which it is this one
_INLIERS = 3.0  # residual of a channel at which its cost flattens, in units of the noise of the pixel
_LEAST = 1 / 3  # of the common scale of the costs
_PACE = 0.002  # of the logarithm of a scale, per frame
_BRIGHTEST = 1e3  # background that no image has
_CALM = 0.003  # root mean square change of the background up to which it is kept where it is not visited


class Compared(NamedTuple):
    """What a background makes of a frame beside the buffers.

    Attributes
    ----------
    candidates : int
        Their number.
    influence : SubspaceUpdate or None
        What the subspace can learn from the frame; None where there is none yet.
    """

    candidates: int
    influence: SubspaceUpdate | None


class Background(Protocol):
    """A background model: what the first frames show most, or the tracked subspace."""

    def separate(self, frame_input: FrameInput, buffers: FrameBuffers) -> Compared:
        """Fill the buffers from a frame."""

    def low_rank(self) -> np.ndarray:
        """Return the background of the newest frame, (m,), float32 in [0, 1]."""


class StartBackground:
    """What the frames so far have shown most, until there are enough of them to fit a subspace.

    Parameters
    ----------
    frames : FrameFormat
        What the frames look like.
    capacity : int
        Number of frames of the batch start.
    threads : int or None
        Most threads; None for all cores.

    Attributes
    ----------
    buffer : StartBuffer
        The frames.
    colours : StartColours
        What they show.
    """

    def __init__(self, frames: FrameFormat, capacity: int, threads: int | None) -> None:
        self.colours = StartColours(frames, threads)
        self.buffer = StartBuffer(capacity, frames.size, frames.pixels_dtype)
        self._engine = SweepEngine(frames, 1, 1)
        self._scale = np.float32(1 / frames.pixels_full)
        self._low_rank = np.empty(frames.size, np.float32)
        self._sigma = np.empty(frames.cube[:2], np.float32)

    def see(self, pixels: np.ndarray, known: np.ndarray | None, frozen: bool, sigma: np.ndarray) -> None:
        """Put a frame, (h, w, c), into the buffer, the background in the place of known foreground, (h, w) bool.

        `sigma`, (h, w) float32, is the noise scale, full scale is 1.
        """
        buffer = self.buffer
        if buffer.is_full or (frozen and buffer.count):
            return
        np.divide(sigma, self._scale, out=self._sigma)
        self.colours.see(pixels.reshape(-1), buffer.newest, self._sigma, known)
        if known is not None:
            pixels = pixels.copy()
            half = 0.5 if pixels.dtype == np.uint8 else 0
            pixels[known] = self.colours.background.reshape(pixels.shape)[known] + half
        buffer.add(pixels.reshape(-1))

    def separate(self, frame_input: FrameInput, buffers: FrameBuffers) -> Compared:
        """Fill the buffers from a frame."""
        return Compared(self._engine.compare(self.low_rank(), frame_input, buffers), None)

    def state(self) -> State:
        """Return the frames and their colours, copied."""
        return {**self.buffer.state(), **self.colours.state()} if self.buffer.count else {}

    def set_state(self, state: State) -> None:
        """Go on where another start stood; ParameterError when the arrays do not fit."""
        if state:
            self.buffer.set_state(state)
            self.colours.set_state(state)

    def low_rank(self) -> np.ndarray:
        """Return the background of the newest frame, (m,), float32 in [0, 1]."""
        _pixel_kernels.to_unit(self.colours.background, self._scale, self._low_rank)
        return self._low_rank


class TrackedBackground:
    """The tracked subspace: one pass over the model per frame.

    Every pixel has a cost of its own, ``s^2 h(r / s)``, with s in [1/3, 1]: it begins with the common one, and sign
    steps of log s then follow the median of the joint residual, so that the cost flattens at three times the noise.
    What a calm pixel suddenly shows is an outlier and hardly learned; a pixel that is noisy, moves or is wrong keeps
    the common cost. The mask has no say in it: an object raises s by one step at a time, however much it differs,
    and only where foreground is known s stays. With s above one, or with the segmenter's noise scale in its place,
    objects were learned with the noise.

    Parameters
    ----------
    frames : FrameFormat
        What the frames look like.
    parameters : SubtractorParameters
        Of the subtractor.

    Attributes
    ----------
    tracker : SubspaceTracker
        The subspace.
    scale : ndarray, (h, w), float32
        The scales s; all one where `mu` is given.
    one_pass : bool
        False: every frame by the plain passes of the tracker, for comparison.
    """

    def __init__(self, frames: FrameFormat, parameters: SubtractorParameters) -> None:
        values = parameters.tracker(frames.size)
        if values.mu is None:
            values = replace(values, mu=Surrogate.flattening_at(_FLATTENS_AT, values.surrogate, values.p).mu)
        self._frames = frames
        self.tracker = SubspaceTracker(**values.as_dict())
        self._index = self.tracker.subset_of(frames.size)
        self._values, self._seen, self._scales = np.empty((3, self._index.size), np.float32)
        self._engine = SweepEngine(frames, min(parameters.rank, frames.size), parameters.threads)
        self._scale = np.float32(1 / frames.pixels_full)
        blocks = self._index // frames.channels // self._engine.block
        self._weights = {
            (period, turn): period * (blocks % period == turn).astype(np.float32)
            for period in (_PERIOD, _SETTLED)
            for turn in range(period)
        }
        h, w, channels = frames.cube
        self._places = self._index.astype(np.uint64), (self._index // channels).astype(np.uint64)
        self.scale = np.ones((h, w), np.float32)
        self._follows = parameters.mu is None
        self._limit = np.float32(self.tracker.surrogate_.scale * np.sqrt(channels) / _INLIERS)
        self.one_pass = True

    def cleaned(self, start: StartBackground, limit: np.ndarray) -> StartBuffer:
        """Return the frames of the start, changed in place, as they should be fitted.

        What differs by more than `limit`, (h * w,) float32, from what a pixel showed most is replaced by that, lest
        those who were there become directions; but not where the changes come back, as those of a tree in the wind.
        """
        buffer, tracker, scale = start.buffer, self.tracker, float(self._scale)
        rank = tracker.rank if isinstance(tracker.rank, int) else 1
        if not passes_cross_validation(buffer.frames, scale, rank, tracker.surrogate_, self._index):
            buffer.fill_in(start.colours.background, limit / self._scale)
        return buffer

    def fit(self, buffer: StartBuffer) -> None:
        """Fit the subspace to frames."""
        self.tracker.fit(buffer.frames, float(self._scale))

    def separate(self, frame_input: FrameInput, buffers: FrameBuffers) -> Compared:
        """Fill the buffers from a frame."""
        subspace = self.tracker.subspace_
        hidden, seen = (
            (_NOTHING, _EVERYTHING) if frame_input.hidden is None else (frame_input.hidden.reshape(-1), self._seen)
        )
        known = frame_input.pixels.reshape(-1), self._scale, self.scale.reshape(-1), hidden
        _pixel_kernels.look_at(*self._places, *known, self._values, self._scales, self._seen)
        entries = self._engine.block * self._frames.channels
        period = _PERIOD if subspace.updates < _YOUNG else _SETTLED
        sweep = subspace.begin(self._values, seen, self._scales, period, entries) if self.one_pass else None
        if sweep is None:
            return self._separate_plainly(frame_input, buffers)
        kept = buffers.before is not None and sweep.fit.change < _CALM
        result = self._engine.sweep(sweep, frame_input, self.scale, kept, buffers)
        influence = subspace.end(sweep, result.products, result.cost, self._weights[sweep.visit[-2:]])
        return Compared(result.candidates, influence)

    def _separate_plainly(self, frame_input: FrameInput, buffers: FrameBuffers) -> Compared:
        x = np.empty(frame_input.pixels.size, np.float32)
        _pixel_kernels.to_unit(frame_input.pixels.reshape(-1), self._scale, x)
        weights = _EVERYTHING
        if frame_input.hidden is not None:
            weights = np.repeat(frame_input.hidden.reshape(-1) == 0, self._frames.channels).astype(np.float32)
        scale = np.repeat(self.scale.reshape(-1), self._frames.channels)
        influence = self.tracker.subspace_.separate(x, weights, scale)
        assert influence.low_rank is not None
        return Compared(self._engine.compare(influence.low_rank, frame_input, buffers), influence)

    def low_rank(self) -> np.ndarray:
        """Return the background of the newest frame, (m,), float32 in [0, 1]."""
        return self.tracker.low_rank_

    def learn(self, influence: SubspaceUpdate, rate: float | None) -> None:
        """Learn from the newest frame; `rate` replaces the forgetting factor when given."""
        self.tracker.subspace_.update(influence, self.tracker.forgetting_ if rate is None else rate)

    def set_state(self, state: State, scale: np.ndarray) -> None:
        """Go on with the tracker and the scales, (h, w) float32, of another one; ParameterError when they do not fit.

        Coefficients of no image would end in a matrix that cannot be inverted, in the middle of a stream.
        """
        self.tracker.set_state(state, self._frames.size)
        if not np.linalg.norm(self.tracker.coefficients_) <= _BRIGHTEST * np.sqrt(self._frames.size):
            raise ParameterError("the saved coefficients are those of no image")
        self.scale = np.clip(scale, np.float32(_LEAST), 1)

    def follow(self, residual: np.ndarray, known: np.ndarray | None) -> None:
        """Let the scales follow a residual, (h, w) float32, but not where foreground is `known`, (h, w) bool."""
        deferred = self.tracker.subspace_.basis.deferred
        if not self._follows or deferred.turn:  # once per period is enough
            return
        pace = len(deferred.G) * _PACE
        kept = None if known is None else self.scale[known]
        numbers = self._limit, np.float32(np.exp(pace)), np.float32(np.exp(-pace)), np.float32(_LEAST)
        _pixel_kernels.follow_median(residual.reshape(-1), *numbers, self.scale.reshape(-1))
        if kept is not None:
            self.scale[known] = kept

    def absorb(self, pixels: np.ndarray, due: np.ndarray) -> None:
        """Make a frame, (h, w, c), the background where `due`, (h, w) bool."""
        rows = np.flatnonzero(due.any(axis=1))
        part = np.s_[rows[0] : rows[-1] + 1]
        chosen = np.ascontiguousarray(pixels[part])
        target = np.empty(chosen.size, np.float32)
        _pixel_kernels.to_unit(chosen.reshape(-1), self._scale, target)
        entries = np.repeat(due[part].reshape(-1), self._frames.channels).view(np.uint8)
        self.tracker.subspace_.retarget(target, entries, rows[0] * pixels[0].size)
