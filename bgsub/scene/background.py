"""The background of a frame: the commonest colours of the first frames, then the tracked subspace."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

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

_FLATTENS_AT = 0.06  # intensity at which the cost flattens if mu is not given
_EVERYTHING, _NOTHING = np.empty(0, np.float32), np.empty(0, np.uint16)
_PERIOD = 2  # frames in which every block of the basis is visited once
_YOUNG, _SETTLED = 250, 3  # learned frames after which the period becomes this one
_INLIERS = 3.0  # noise scales of the pixel at which the cost of a channel flattens
_LEAST = 1 / 3  # lower limit of the scales
_PACE = 0.002  # step of the logarithm of a scale per frame
_BRIGHTEST = 1e3  # largest plausible background
_CALM = 0.003  # root mean square change up to which blocks keep their background


class Comparison(NamedTuple):
    """Result of comparing a frame with a background, besides the buffers."""

    candidates: int
    update: SubspaceUpdate | None  # None during the start


class StartBackground:
    """The commonest colours of the frames so far, until there are enough frames to fit a subspace."""

    def __init__(self, frames: FrameFormat, capacity: int, threads: int | None) -> None:
        self.colours = StartColours(frames, threads)
        self.buffer = StartBuffer(capacity, frames.size, frames.pixels_dtype)
        self._engine = SweepEngine(frames, 1, 1)
        self._scale = np.float32(1 / frames.pixels_full)
        self._low_rank = np.empty(frames.size, np.float32)
        self._sigma = np.empty(frames.cube[:2], np.float32)

    def add(self, pixels: np.ndarray, known: np.ndarray | None, frozen: bool, sigma: np.ndarray) -> None:
        """Add a frame, (h, w, c), with the background in place of `known` foreground, (h, w) bool."""
        buffer = self.buffer
        if buffer.is_full or (frozen and buffer.count):
            return
        np.divide(sigma, self._scale, out=self._sigma)
        self.colours.add(pixels.reshape(-1), buffer.newest, self._sigma, known)
        if known is not None:
            pixels = pixels.copy()
            half = 0.5 if pixels.dtype == np.uint8 else 0
            pixels[known] = self.colours.background.reshape(pixels.shape)[known] + half
        buffer.add(pixels.reshape(-1))

    def separate(self, frame_input: FrameInput, buffers: FrameBuffers) -> Comparison:
        """Fill the buffers from a frame."""
        return Comparison(self._engine.compare(self.low_rank(), frame_input, buffers), None)

    def state(self) -> State:
        """Return the frames and their colours, copied."""
        return {**self.buffer.state(), **self.colours.state()} if self.buffer.count else {}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        if state:
            self.buffer.set_state(state)
            self.colours.set_state(state)

    def low_rank(self) -> np.ndarray:
        """Return the background of the newest frame, (m,), float32 in [0, 1]."""
        _pixel_kernels.to_unit(self.colours.background, self._scale, self._low_rank)
        return self._low_rank


class TrackedBackground:
    """The tracked subspace: one pass over the model per frame.

    Every pixel has its own cost ``s^2 h(r / s)``, `scale` (h, w) float32: sign steps of log s follow the median of the
    joint residual, so that sudden changes of a calm pixel are outliers and hardly learned.
    """

    # s is at most 1: with larger ones, or the noise scale of the segmenter, objects were learned as noise

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
        """Return the frames of the start for the fit, with colours that pass once replaced, in place."""
        # objects of the start would become directions of the subspace; changes that recur, as of trees, are no objects
        buffer, tracker, scale = start.buffer, self.tracker, float(self._scale)
        rank = tracker.rank if isinstance(tracker.rank, int) else 1
        if not passes_cross_validation(buffer.frames, scale, rank, tracker.surrogate_, self._index):
            buffer.fill_in(start.colours.background, limit / self._scale)
        return buffer

    def fit(self, buffer: StartBuffer) -> None:
        """Fit the subspace to frames."""
        self.tracker.fit(buffer.frames, float(self._scale))

    def separate(self, frame_input: FrameInput, buffers: FrameBuffers) -> Comparison:
        """Fill the buffers from a frame."""
        subspace = self.tracker.subspace_
        hidden, seen = (
            (_NOTHING, _EVERYTHING) if frame_input.hidden is None else (frame_input.hidden.reshape(-1), self._seen)
        )
        known = frame_input.pixels.reshape(-1), self._scale, self.scale.reshape(-1), hidden
        _pixel_kernels.read_subset(*self._places, *known, self._values, self._scales, self._seen)
        entries = self._engine.block * self._frames.channels
        period = _PERIOD if subspace.updates < _YOUNG else _SETTLED
        sweep = subspace.begin(self._values, seen, self._scales, period, entries) if self.one_pass else None
        if sweep is None:
            return self._separate_plainly(frame_input, buffers)
        kept = buffers.before is not None and sweep.fit.change < _CALM
        result = self._engine.sweep(sweep, frame_input, self.scale, kept, buffers)
        update = subspace.end(sweep, result.products, result.cost, self._weights[sweep.visit[-2:]])
        return Comparison(result.candidates, update)

    def _separate_plainly(self, frame_input: FrameInput, buffers: FrameBuffers) -> Comparison:
        """Fill the buffers by the plain passes of the tracker."""
        x = np.empty(frame_input.pixels.size, np.float32)
        _pixel_kernels.to_unit(frame_input.pixels.reshape(-1), self._scale, x)
        weights = _EVERYTHING
        if frame_input.hidden is not None:
            weights = np.repeat(frame_input.hidden.reshape(-1) == 0, self._frames.channels).astype(np.float32)
        scale = np.repeat(self.scale.reshape(-1), self._frames.channels)
        update = self.tracker.subspace_.separate(x, weights, scale)
        assert update.low_rank is not None
        return Comparison(self._engine.compare(update.low_rank, frame_input, buffers), update)

    def low_rank(self) -> np.ndarray:
        """Return the background of the newest frame, (m,), float32 in [0, 1]."""
        return self.tracker.low_rank_

    def learn(self, update: SubspaceUpdate, rate: float | None) -> None:
        """Apply an update; `rate` replaces the forgetting factor if given."""
        self.tracker.subspace_.update(update, self.tracker.forgetting_ if rate is None else rate)

    def set_state(self, state: State, scale: np.ndarray) -> None:
        """Restore the tracker and the scales, (h, w) float32; ParameterError if they do not fit."""
        # coefficients out of range would lead to a singular matrix later in the stream
        self.tracker.set_state(state, self._frames.size)
        if not np.linalg.norm(self.tracker.coefficients_) <= _BRIGHTEST * np.sqrt(self._frames.size):
            raise ParameterError("saved coefficients are out of range")
        self.scale = np.clip(scale, np.float32(_LEAST), 1)

    def follow(self, residual: np.ndarray, known: np.ndarray | None) -> None:
        """Adapt the scales to a residual, (h, w) float32, but not where foreground is `known`, (h, w) bool."""
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
        """Make a frame, (h, w, c), the background at the pixels `due`, (h, w) bool."""
        rows = np.flatnonzero(due.any(axis=1))
        part = np.s_[rows[0] : rows[-1] + 1]
        chosen = np.ascontiguousarray(pixels[part])
        target = np.empty(chosen.size, np.float32)
        _pixel_kernels.to_unit(chosen.reshape(-1), self._scale, target)
        entries = np.repeat(due[part].reshape(-1), self._frames.channels).view(np.uint8)
        self.tracker.subspace_.retarget(target, entries, rows[0] * pixels[0].size)
