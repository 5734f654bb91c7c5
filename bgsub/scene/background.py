"""The background of a frame: the commonest colours of the first frames, then the tracked subspace."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of, numbers_of, part_of
from bgsub.numerics.surrogates import Surrogate
from bgsub.numerics.threads import one_blas_thread
from bgsub.parameters import SubtractorParameters
from bgsub.scene.engine import PERIOD, SweepEngine
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.illumination import Illumination
from bgsub.scene.start_colours import NOWHERE, CleanedFrames, LateColours, StartBuffer, StartColours
from bgsub.tracking.basis import Basis
from bgsub.tracking.batch_start import SUBSET_WORK, Parts, batch_start_in_parts, passes_cross_validation
from bgsub.tracking.subspace import SubspaceUpdate
from bgsub.tracking.tracker import SubspaceTracker

_FLATTENS_AT = 0.03  # intensity at which the cost flattens if mu is not given
_EVERYTHING, _NOTHING = np.empty(0, np.float32), np.empty(0, bool)  # all entries are observed; no entry is hidden
_BRIGHTEST = 1e3  # largest plausible RMS of a saved background; full scale is 1
_FIT_WORK = 6_500_000  # work of the start fit per frame, in entries of the first frames: some 40 ms
_CHANGE_WORK = 2_000_000  # work of fitting one change of the light, in the same unit: some 10 ms
_RESTORED = 256  # steps between two calls of `Subspace.restore`
_LOOKS, _RARELY = 4, 32  # frames between two tests for background that has returned: at `_MANY` pixels, at any number
_MANY = 0.002  # share of the pixels
_SELDOM, _HARDLY = 8, 0.016  # of so many frames only two are counted while less than this share is unknown
_FEW = 0.1  # least share of observed pixels to which coefficients are fitted; with fewer, to standing objects, too
_CALM = 0.003  # RMS change of the background up to which blocks that are not visited keep their `picture`


class Comparison(NamedTuple):
    """Result of comparing a frame with a background, besides the maps of the engine."""

    candidates: int
    update: SubspaceUpdate | None  # None during the start
    due: tuple[int, int] = (1, 0)  # blocks whose noise scales learn: period, and number within it


class StartBackground:
    """The commonest colours of the frames so far, until there are enough frames to fit a subspace."""

    def __init__(self, frames: FrameFormat, capacity: int, threads: int | None) -> None:
        self.colours = StartColours(frames, threads)
        self.buffer = StartBuffer(capacity, frames.size, frames.pixels_dtype)
        self._scale = np.float32(1 / frames.pixels_full)
        self._low_rank = np.empty(frames.size, np.float32)
        self._sigma = np.empty(frames.cube[:2], np.float32)

    def add(self, pixels: np.ndarray, known: np.ndarray | None, sigma: np.ndarray) -> None:
        """Add a frame, (h, w, c), with the background in place of `known` foreground, (h, w) bool."""
        buffer = self.buffer
        np.divide(sigma, self._scale, out=self._sigma)
        self.colours.add(pixels.reshape(-1), buffer.newest, self._sigma, known)
        if known is not None:
            pixels = pixels.copy()
            half = 0.5 if pixels.dtype == np.uint8 else 0
            pixels[known] = self.colours.background.reshape(pixels.shape)[known] + half
        buffer.add(pixels.reshape(-1))

    def separate(self, engine: SweepEngine, _age: np.ndarray | None, _known: np.ndarray | None) -> Comparison:
        """Compare the frame of the engine."""
        return Comparison(engine.compare(self.low_rank()), None)

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
        return np.multiply(self.colours.background, self._scale, out=self._low_rank)


class TrackedBackground:
    """The tracked subspace: one pass over the model per frame."""

    # a cost with a scale for each pixel, the median of its residual, gained nothing over a smaller common mu

    def __init__(self, frames: FrameFormat, parameters: SubtractorParameters, block: int) -> None:
        values = parameters.tracker(frames.size)
        if values.mu is None:
            values = replace(values, mu=Surrogate.flattening_at(_FLATTENS_AT, values.surrogate, values.p).mu)
        self.frames, self.parameters, self.late = frames, parameters, LateColours(frames, parameters)
        self.tracker, self._rank = SubspaceTracker(**values.as_dict()), int(values.rank)
        self._forgetting = parameters.forgetting
        self._index = self.tracker.subset_of(frames.size)
        self._values, self._seen = np.empty((2, self._index.size), np.float32)
        self.unit = 1 / frames.pixels_full
        self._scale = np.float32(self.unit)
        self._block_entries = block * frames.channels
        blocks = self._index // self._block_entries
        self._weights = [PERIOD * (blocks % PERIOD == turn).astype(np.float32) for turn in range(PERIOD)]
        self._index_pixels = self._index // frames.channels
        self._since_restore = 0  # frames since `Subspace.restore`; older objects hid their pixels all the time
        self._pixels = frames.size // frames.channels

    def cleaned(self, frames: np.ndarray, colours: np.ndarray, limit: np.ndarray) -> np.ndarray | CleanedFrames:
        """Return the first frames, (n, m), for the fit, without objects unless changes recur, as those of trees do."""
        # objects differ from the commonest `colours`, (m,), by more than `limit`, (h * w,), and would become directions
        if passes_cross_validation(frames, float(self._scale), self._rank, self.tracker.surrogate_, self._index):
            return frames
        return CleanedFrames(frames, colours, limit / self._scale)

    def fit(self, X: np.ndarray | CleanedFrames) -> Parts[None]:
        """Fit the subspace to frames, (n, m), with pauses."""
        basis = Basis(self._rank, X.shape[1])
        U = basis.stack[: basis.k, : basis.m]
        Y = yield from batch_start_in_parts(X, float(self._scale), self.tracker.surrogate_, self._index, U)
        self._subspace = self.tracker.begin(basis, Y).subspace_

    def separate(self, engine: SweepEngine, age: np.ndarray | None, known: np.ndarray | None) -> Comparison:
        """Compare the frame of the engine; pixels with an `age`, (h, w) uint16, or `known` (bool) are not observed."""
        subspace, seen = self._subspace, _EVERYTHING
        np.multiply(engine.images.pixels.take(self._index), self._scale, out=self._values)
        hidden = age if known is None else known.astype(np.uint16) if age is None else age | known
        if hidden is not None:
            seen = np.equal(hidden.take(self._index_pixels), 0, out=self._seen)
            if seen @ seen < _FEW * seen.size:  # a fit to so few entries is arbitrary
                seen = _EVERYTHING if known is None else np.equal(known.take(self._index_pixels), 0, out=self._seen)
        sweep = subspace.begin(self._values, seen, PERIOD, self._block_entries, engine.limit)
        result = engine.sweep(sweep, hidden, sweep.fit.change >= _CALM)
        turn = sweep.visit.turn
        update = subspace.end(sweep, result.products, result.cost, self._weights[turn])
        return Comparison(result.candidates, update, (PERIOD, turn))

    def low_rank(self) -> np.ndarray:
        """Return the background of the newest frame, (m,), float32 in [0, 1]."""
        return self.tracker.low_rank_

    def learn(
        self, update: SubspaceUpdate, rate: float | None, age: np.ndarray | None = None, elapsed: int = 1
    ) -> None:
        """Apply an update; `rate` replaces the forgetting factor if given; `age`, `elapsed`: see `StandingObjects`."""
        subspace = self._subspace
        self._since_restore += max(elapsed, 1)
        subspace.update(update, self._forgetting if rate is None else rate)
        if subspace.updates % _RESTORED == 0:
            unseen = _NOTHING if age is None else np.repeat(age.reshape(-1) > self._since_restore, self.frames.channels)
            subspace.restore(unseen.view(np.uint8))
            self._since_restore = 0

    def set_forgetting(self, forgetting: float) -> None:
        """Change the weight of the newest frame."""
        self.tracker.set_forgetting(forgetting)
        self._forgetting = forgetting

    def state(self) -> State:
        """Return what the next frame depends on, copied."""
        return {**self.tracker.state(), "passed": np.array([float(self._since_restore)]), "late": self.late.state()}

    def set_state(self, state: State) -> None:
        """Restore the tracker; ParameterError if it does not fit."""
        # coefficients out of range would lead to a singular matrix later in the stream
        self.tracker.set_state(state, self.frames.size)
        self._subspace = self.tracker.subspace_
        self._since_restore = int(numbers_of(state, "passed", 1)[0])
        self.late = LateColours.from_state(self.frames, self.parameters, part_of(state, "late"))
        if not np.linalg.norm(self.tracker.coefficients_) <= _BRIGHTEST * np.sqrt(self.frames.size):
            raise ParameterError("saved coefficients are out of range")

    def move(self, places: np.ndarray, picture: np.ndarray) -> None:
        """Move pixel ``places[i]``, (h * w,) indices, to pixel i, and set a new background, (h, w, c)."""
        channels = np.arange(self.frames.channels)
        self._subspace.move((self.frames.channels * places[:, np.newaxis] + channels).reshape(-1))
        self._subspace.retarget(picture.reshape(-1) * self._scale)
        self.late = LateColours(self.frames, self.parameters)

    def returned(self, pixels: np.ndarray, age: np.ndarray | None, known: np.ndarray | None) -> np.ndarray:
        """Count colours; return the pixels, (n,) indices, that now show a background that the first frames hid."""
        frame = self._subspace.updates
        if frame % _SELDOM > 1 and self.late.where.size < _HARDLY * self._pixels:
            return NOWHERE
        self.late.count(pixels, age, known)
        return self.late.returned(1 if frame % _RARELY == 0 else math.inf if frame % _LOOKS else _MANY * self._pixels)

    def absorb(self, pixels: np.ndarray, due: np.ndarray) -> None:
        """Make a frame, (h, w, c), the background at the pixels `due`, (h, w) bool."""
        rows = np.flatnonzero(due.any(axis=1))
        part = np.s_[rows[0] : rows[-1] + 1]
        target = pixels[part].reshape(-1) * self._scale
        entries = np.repeat(due[part].reshape(-1), self.frames.channels).view(np.uint8)
        self._subspace.retarget(target, entries, rows[0] * pixels[0].size)


class StartFit:
    """The fit of the subspace to the first frames, spread over the next ones."""

    def __init__(
        self,
        tracked: TrackedBackground,
        start: StartBackground,
        limit: np.ndarray,
        illumination: Illumination,
        state: State,
    ) -> None:
        """Begin, or repeat the parts that were done in a saved `state`; `limit`: see `TrackedBackground.cleaned`."""
        self.tracked, self._buffer, self._limit, self._illumination = tracked, start.buffer, limit, illumination
        self._late = LateColours.after(start.colours, tracked.frames, tracked.parameters)
        self.colours, done, outdated = start.colours.background.copy(), 0, start.buffer.outdated
        # outdated frames and their lights, one part of `_fit` each; a saved state counts those that were done, too
        self._pending, self._lights = len(outdated), len(np.unique(start.buffer.lights[outdated]))
        if state:
            self._limit = array_of(state, "limit", limit.shape, "float32")
            self.colours = array_of(state, "colours", self.colours.shape, "float32")
            done, self._pending, self._lights = (int(number) for number in numbers_of(state, "numbers", 3))
        self._done = 0
        self._parts = self._fit()
        while self._done < done:
            self.advance()

    def state(self) -> State:
        """Return what the fit depends on, besides the frames, copied."""
        numbers = np.array([float(self._done), float(self._pending), float(self._lights)])
        return {"limit": self._limit.copy(), "colours": self.colours.copy(), "numbers": numbers}

    def advance(self) -> bool:
        """Do the work of one frame, `_FIT_WORK`; return whether the fit is done."""
        self._done += 1
        work = 0
        with one_blas_thread():
            while work < _FIT_WORK:
                part = next(self._parts, None)
                if part is None:
                    return True
                work += part
        return False

    def _fit(self) -> Parts[None]:
        """Turn the first frames into the newest light, count their colours, and fit the subspace."""
        buffer, scale = self._buffer, self.tracked.unit
        newest, lights = self._illumination.values(self.colours, scale), len(buffer.references)
        outdated = list(buffer.outdated)
        waiting, changes = sorted(set(buffer.lights[outdated].tolist())), {}
        for _ in range(self._lights):
            if waiting:  # empty if this was done before the state was saved
                light = waiting.pop()
                changes[light] = self._illumination.between(buffer.references[light], newest)
            yield _CHANGE_WORK
        for _ in range(self._pending):
            if outdated:
                i = outdated.pop(0)
                buffer.frames[i] = self._illumination.relit(buffer.frames[i], changes[buffer.lights[i]], scale)
                buffer.lights[i] = lights
            yield self.colours.size
        yield 2 * self.colours.size  # limit and colours
        for frame in buffer.frames:
            self._late.count(frame)
            yield self._late.colours[0].size
        X = self.tracked.cleaned(self._buffer.frames, self.colours, self._limit)
        yield SUBSET_WORK
        yield from self.tracked.fit(X)

    def catch_up(self, start: StartBackground) -> None:
        """Set the background where `start` has changed its colours since the fit began."""
        cube = self.tracked.frames.cube
        late = (start.colours.background != self.colours).reshape(cube).any(axis=2)
        if late.any():
            self.tracked.absorb(start.colours.background.reshape(cube), late)
        self._late.begin(start.colours)
        self.tracked.late = self._late
