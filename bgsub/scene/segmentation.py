"""From candidates to masks: noise scale, sample memory, and the settings of the kernel that makes a mask.

References
----------
O. Barnich, M. Van Droogenbroeck, ViBe: A universal background subtraction algorithm for video sequences, IEEE
Transactions on Image Processing 20(6), 2011: random samples that spread to neighbours. Here the samples are deviations
from the tracked background, only at restless pixels, and only candidates are compared with them.
T. Horprasert, D. Harwood, L. S. Davis, A statistical approach for real-time robust background subtraction and shadow
detection, ICCV frame-rate workshop, 1999: a shadow is its background times one factor in all channels. The walk in from
the side of the shadows is our own.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.numerics.arrays import lazy_zeros
from bgsub.numerics.jit import TypedKernel, constant
from bgsub.numerics.state import LARGEST, State, array_of, numbers_of, part_of
from bgsub.numerics.threads import bands_for, copied, in_bands
from bgsub.parameters import SegmenterParameters
from bgsub.scene import _cast_shadow_kernels, _match_kernels, _segment_kernels, _shadow_kernels
from bgsub.scene._cast_shadow_kernels import STEPS
from bgsub.scene._frame_kernels import CHUNK, LearnParams
from bgsub.scene._match_kernels import TILE, MatchLimits, Samples
from bgsub.scene._shadow_kernels import FACTORS
from bgsub.separation import BACKGROUND, SHADOW

_WORK = 150_000  # pixels per band, see `bands_for`
_NEVER_STORED = 65535  # age that known foreground is given: the sample memory leaves out pixels with an age
_RATE = 0.02  # weight of a frame in the noise scale, and in other running means of this file
_CLIP = 0.2  # of full scale: larger residuals count as this in the noise scale, so that one object changes it little
_FLOOR = np.float32(1e-6)  # least noise scale
_ROUNDING = 1e-5  # residual of a frame that equals its background
_CALMEST = 0.1  # quantile of the residuals that is the initial noise scale: most of the frame may move
_NOISY = 2.4  # least initial noise scale, in units of the sensor noise of one value: about sqrt(6), the RMS difference
_FIRST = 0.1  # largest initial noise scale, share of full scale

_SAMPLES = 16  # per pixel
_EVERY = 2, 8  # learned frames between two samples of a pixel: at first, and after `_SETTLED` frames
_SETTLED = 512
_LONGEST = 0.08, 0.32  # seconds between two samples, at first and later; the shorter of both intervals counts
_PRIOR = 0.3  # initial share of matching candidates: below the limits, so that some must match before one is cleared
_SHARE_RATE = 0.1  # weight of the newest candidate in that share
_SAMPLE_SHARE = 0.7  # limit of the share above which candidates that match a sample are background
_AROUND = 0.1  # side of the square in which matching candidates are outvoted by others, relative to the shorter side
_FILLED = np.float32(0.3)  # share of that square that these others must fill
_FULL = 255  # uint8 value of a share of 1
_COLOURED = 0.8  # factor of the threshold in a scene with colours
_LEVELS = 255  # of byte frames, whose background is rounded
_TOLERANCE = 0.75  # power of the exposure by which the limits of shadows are multiplied
_BINS = 17  # of the histogram of tints, along both axes
_UNKNOWN_OUTLINE = 5.0  # length, in frame sides, of the initial outline of each side, half of it lit
_LABELS = {"merged": -1, "off": BACKGROUND, "on": SHADOW}
_MOST_SIDE = 31  # of the majority filter
_AREAS = 32  # numbers about new regions: their count for 30 powers of two of the area, and two more, see `count_new`
_FLYING = 0.01  # of the frame: largest area of snow, rain, insects ...
_NEAR = 0.1  # ... if frames are at most these seconds apart, in which no object moves farther than its own size
_SPECKLE = 7  # pixels, side of the majority filter of cast shadows, see `walk_in`


class SceneLook(NamedTuple):
    """Exposure and colours of a scene; a brightness of 1 is full scale."""

    exposure: float = 1.0  # factor of the threshold, below 1 in a dark or pale scene
    is_coloured: bool = True
    black: float = 0.0  # brightness of black: of a veil of haze or stray light


class NoiseScale:
    """Running mean of the clipped residual of every pixel, `sigma` (h, w) float32, except at solid regions."""

    # solid regions are an opening of the residuals (J. Serra, Image Analysis and Mathematical Morphology, 1982)
    # the mask has no influence, so that errors do not sustain themselves

    def __init__(self, shape: tuple[int, int], joint: float) -> None:
        self._joint, self.exposure = joint, 1.0  # unit of joint residuals, see `FrameFormat.joint`; see `SceneLook`
        self.sigma = np.zeros(shape, np.float32)
        self.is_empty = True  # until the first frame that differs from its background
        self._set_learned(1)

    def begin(self, residual: np.ndarray, noise: Callable[[], float]) -> None:
        """Start from the calmest pixels of the first residual, (h, w) float32, or from the `noise` of a value."""
        # most of the frame may be objects, and a noisy camera must not be all foreground
        if self._learned > 1 / _RATE:  # frames without any noise so far: what changes now is an object
            self.is_empty = False
        elif residual.max() > _ROUNDING:
            self.is_empty = False
            least = max(float(np.quantile(residual, _CALMEST)), _NOISY * self._joint * noise())
            self.sigma[:] = np.clip(least, _FLOOR, _FIRST * self._joint * self.exposure)

    def _set_learned(self, learned: int) -> None:
        """Set the number of learned frames, and whether samples and shadows learn from the next one."""
        # the Thue-Morse sequence chooses every other frame, so that periodic changes are sampled in all phases
        self._learned = learned
        self.rate = max(1 / (learned + 1), _RATE)  # weight of the newest frame: at first the plain mean
        self.is_sampled = learned <= 1 / _RATE or learned.bit_count() % 2 == 1

    def rates(self, period: int) -> LearnParams:
        """Count a frame; return the rates for pixels that learn every `period` frames."""
        self._set_learned(self._learned + 1)
        rate = np.float32(min(period * self.rate, 1))
        return LearnParams(rate, np.float32(_CLIP * self._joint * self.exposure), _FLOOR)

    def state(self) -> State:
        """Return the scale and the number of learned frames, copied."""
        return {"sigma": copied(self.sigma), "numbers": np.array([float(self._learned), float(self.is_empty)])}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        self.sigma[:] = array_of(state, "sigma", self.sigma.shape, "float32")
        learned, is_empty = numbers_of(state, "numbers", 2)
        self.is_empty = bool(is_empty)
        self._set_learned(max(int(learned), 1))


class SampleMemory:
    """Earlier deviations of restless pixels from the background, and how often candidates match them or neighbours."""

    # share (h, w) uint8: running share of matching candidates, 255 is 1; samples (h * w, c, 16) int8, 127 is full scale

    def __init__(self, shape: tuple[int, int], channels: int) -> None:
        self.share = np.empty(shape, np.uint8)
        self.samples = lazy_zeros((shape[0] * shape[1], channels, _SAMPLES), np.int8)
        self._used = np.zeros(len(self.samples), np.uint8)  # 1 where a pixel has samples
        self._remember = TypedKernel(_match_kernels.remember)
        self.rewind()

    def rewind(self) -> None:
        """Prepare for the first frame of the same stream: keep the samples, but replace them as fast as new ones."""
        self.share[:], self._frame = round(_PRIOR * _FULL), 0

    def learn(
        self,
        x: np.ndarray,
        background: np.ndarray,
        limits: MatchLimits,
        solid: np.ndarray,
        age: np.ndarray,
        seconds: float,
    ) -> None:
        """Store samples of restless pixels, `seconds` after the frame before."""
        # rarely at `solid` pixels, (h, w) uint8, and never if they stand still
        self._frame += 1
        per_second = 1 / max(seconds, 1e-3)
        first = max(min(_EVERY[0], round(_LONGEST[0] * per_second)), 1)
        later = max(min(_EVERY[1], round(_LONGEST[1] * per_second)), 1)
        every = max(min(_EVERY[1] * self._frame // _SETTLED, later), first)
        self._remember.call(self._frame, every, x, background, limits, solid, age, self.samples, self._used)

    def move(self, places: np.ndarray) -> None:
        """Move pixel ``places[i]``, (h * w,) indices, to pixel i."""
        self.share, self._used = self.share.take(places).reshape(self.share.shape), self._used.take(places)
        before, used = self.samples, np.flatnonzero(self._used)
        self.samples = lazy_zeros(before.shape, before.dtype)
        self.samples[used] = before[places[used]]

    def state(self) -> State:
        """Return shares, samples of the pixels that have some, their places and the number of frames, copied."""
        samples, numbers = self.samples.take(np.flatnonzero(self._used), axis=0), np.array([float(self._frame)])
        return {"share": copied(self.share), "samples": samples, "used": np.packbits(self._used), "frame": numbers}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        pixels, *sample = self.samples.shape
        self.share = array_of(state, "share", self.share.shape, "uint8")
        self._used = np.unpackbits(array_of(state, "used", (-(-pixels // 8),), "uint8"), count=pixels)
        saved = array_of(state, "samples", (int(np.count_nonzero(self._used)), *sample), "int8")
        self.samples = lazy_zeros(self.samples.shape, saved.dtype)
        self.samples[self._used.view(bool)] = saved
        self._frame = max(int(numbers_of(state, "frame", 1)[0]), 0)


class Segmenter:
    """Turn candidates into masks, see "From residual to mask" in docs/method.md, and learn the noise of the pixels."""

    # without the removal of small regions F falls by .004 on average over 16 labelled sequences

    def __init__(
        self,
        shape: tuple[int, int],
        parameters: SegmenterParameters | None = None,
        threads: int | None = 1,
        channels: int = 3,
        scale: float = 1.0,
        fps: float = 25.0,
    ) -> None:
        self.shape, self._joint, self._scale = shape, math.sqrt(channels / 3), np.float32(scale)
        h, w = shape
        self._bands = bands_for(h * w, _WORK, threads)
        self._lanes, self._places = constant(channels), np.empty((self._bands, CHUNK), np.uint64)
        self._far = np.empty((self._bands, CHUNK * channels), np.uint8)
        self._find_matching = TypedKernel(_match_kernels.find_matching)
        self._finish = TypedKernel(_segment_kernels.finish)
        self._clear_matching = TypedKernel(_match_kernels.clear_matching)
        self._shadow_kernel = TypedKernel(_shadow_kernels.find_shadows)
        self._learn_shadows = TypedKernel(_cast_shadow_kernels.learn_shadows)
        self.noise = NoiseScale(shape, self._joint)
        self.sample_memory = SampleMemory(shape, channels)
        self.outline = np.full((len(STEPS), 2), (0.5 * _UNKNOWN_OUTLINE, _UNKNOWN_OUTLINE))  # lit and total
        chunks = -(-h * w // CHUNK)
        self._masks = [(np.zeros(shape, np.uint8), np.zeros(chunks, np.uint8)) for _ in range(2)]
        self.filled = self._masks[0][1]  # chunks of the newest mask, 0 where one is empty
        self._previous, self._new_regions = np.zeros(shape, np.uint8), np.zeros((2, _AREAS))  # see `finish`
        self._largest_flying = round(_FLYING * h * w * min(1, _NEAR * fps) ** 2)
        self._skip, self._lines = np.zeros(shape, np.uint8), np.empty((2, w + 10), np.uint8)
        widest = max(w, CHUNK) + _MOST_SIDE
        self._columns, self._counts = np.empty((2, 2, widest), np.uint16)
        runs = np.empty((5, h * w + 1), np.int32)  # uses memory only as far as there are regions
        self._runs = runs, np.empty(h + 1, np.int64), np.empty(-(-w // 8) * 8, np.uint8)
        # shadows of the newest mask, `LIGHT` where they are light
        self.dark, self._weight, self._cast = np.zeros((3, *shape), np.uint8)
        self._shaded, self._cast_filled = np.zeros((2, chunks), np.uint8)
        sums = self._columns.view(np.int16), self._counts.view(np.int16)
        self._shadow_work = self.dark, self._weight.view(np.int8), self._shaded, *sums
        self._new_outline = np.empty_like(self.outline)
        self._votes = np.zeros((2, 2, _BINS, _BINS))  # `votes` and `new_votes` of `learn_shadows`
        self._tint = np.empty(channels, np.float32)  # see `learn_shadows`
        self._factors = np.zeros((2, FACTORS))  # see `find_shadows`
        self._factors_work = np.empty((3, FACTORS)), np.empty((2, FACTORS), np.int8)
        tiles = -(-h // TILE), -(-w // TILE)
        regions = np.zeros((3, tiles[0] * tiles[1]), np.int32)
        self._tiles = np.zeros((3, tiles[0] + 1, tiles[1] + 1), np.int32), regions, np.zeros(w, np.uint8)
        self._reach = max(round(_AROUND * min(shape) / TILE / 2), 1)  # tiles
        self.darkest = np.empty(shape, np.float32)
        self.scene = SceneLook()
        self.tune(parameters or SegmenterParameters())

    def tune(self, parameters: SegmenterParameters) -> None:
        """Replace the parameters; the learned state is kept."""
        self._given_limits = parameters.threshold * self._joint, parameters.noise_factor
        self.set_scene(self.scene)
        self.side = parameters.median | 1
        self._least_area = round(parameters.min_area * self.shape[0] * self.shape[1])
        self._shadows = _LABELS[str(parameters.shadows)]
        if self._shadows < 0:
            self.dark[:] = 0  # no shadows are found from now on
        self._radius = parameters.neighbours

    def set_scene(self, scene: SceneLook) -> None:
        """Adapt the limits to a scene."""
        # dark objects differ less from the background; without colours, weak shadows look like objects
        if scene.is_coloured != self.scene.is_coloured:
            self._factors[:] = 0.0
        self.scene, self.noise.exposure, (threshold, factor) = scene, scene.exposure, self._given_limits
        restless = np.float32(scene.exposure * threshold)
        threshold *= scene.exposure * (_COLOURED if scene.is_coloured else 1)
        levels = threshold * _LEVELS
        if len(self._lanes) == 1 and levels > 1:
            threshold = (math.ceil(levels) - 0.5) / _LEVELS  # between two levels of byte frames, for all types
        self.limits = np.float32(threshold), np.float32(factor)
        limits = self.limits[0], restless, self.limits[1], np.float32(scene.exposure**_TOLERANCE), scene.is_coloured
        black = np.float32(scene.black / self._scale)
        self._match = MatchLimits(self.noise.sigma, self._scale, *limits, black, self._lanes)

    def state(self) -> State:
        """Return what was learned of noise, samples, shadows and new regions, copied."""
        shadows: State = {"outline": self.outline.copy(), "votes": self._votes[0].copy()}
        shadows["factors"] = self._factors.copy()
        return {
            "new": self._new_regions[0].copy(),
            "before": np.packbits(self._previous != 0),
            "noise": self.noise.state(),
            "sample_memory": self.sample_memory.state(),
            "shadows": shadows,
        }

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        self._new_regions[0] = array_of(state, "new", (_AREAS,), "float64", 0, LARGEST)
        before = array_of(state, "before", (-(-self._previous.size // 8),), "uint8")
        self._previous[:] = np.unpackbits(before, count=self._previous.size).reshape(self.shape)
        self.noise.set_state(part_of(state, "noise"))
        self.sample_memory.set_state(part_of(state, "sample_memory"))
        shadows = part_of(state, "shadows")
        outline = array_of(shadows, "outline", self.outline.shape, "float64")
        votes = array_of(shadows, "votes", self._votes[0].shape, "float64", 0, LARGEST)
        factors = array_of(shadows, "factors", self._factors.shape, "float64")
        if not ((outline[:, 0] >= 0) & (outline[:, 0] <= outline[:, 1]) & (outline[:, 1] > 0)).all():
            raise ParameterError(f"outline must be pairs of lit and total outline, got {outline.tolist()}")
        if factors[1].min() < 0:
            raise ParameterError(f"factors must have no negative number in the second row, got {factors[1].tolist()}")
        self.outline, self._votes[0], self._factors = outline, votes, factors

    def segment(
        self,
        candidates: np.ndarray,
        filled: np.ndarray,
        x: np.ndarray,
        background: np.ndarray,
        frozen: bool = False,
        still: tuple[np.ndarray, np.ndarray, np.ndarray, int] | None = None,
    ) -> np.ndarray:
        """Return the mask, (h, w) uint8, of a frame, (h, w, c): a buffer that is overwritten two calls later."""
        # 0 background, 127 shadow, 255 foreground; changes `candidates`; learns nothing if `frozen`; `filled`
        # (chunks,) uint8: 0 where a chunk of 64 pixels has no candidates; `still`: see `keep_still`
        self._masks.reverse()
        mask, memory, limits = self._masks[0], self.sample_memory, self._match
        self.filled = mask[1]
        if self._radius:
            rate = np.float32(0 if frozen else _SHARE_RATE)
            samples = Samples(memory.samples, memory.share, self._radius, rate, np.float32(_SAMPLE_SHARE))
            inputs = x, background, limits, samples, candidates, filled
            if self._bands == 1:
                self._find_matching.call(0, mask[0].size, *inputs, self._places[0], self._far[0])
            else:

                def find(begin: int, end: int, band: int) -> None:
                    self._find_matching.call(begin, end, *inputs, self._places[band], self._far[band])

                in_bands(find, mask[0].size, self._bands, CHUNK)
            self._clear_matching.call(x, background, limits, candidates, filled, self._reach, _FILLED, *self._tiles)
        _segment_kernels.majority(candidates, filled, self.side, self._columns[0], self._counts[0], *mask)
        if still is not None:
            _segment_kernels.keep_still(*still, *mask)
        if self._shadows >= 0:
            self._find_shadows(x, background, limits, mask, not frozen and self.noise.is_sampled)
        flying = self._previous, self._new_regions, 0.0 if frozen else self.noise.rate, self._largest_flying
        self._finish.call(x, background, *mask, self.dark, self._shadows, self._least_area, *flying, *self._runs)
        return mask[0]

    def _find_shadows(
        self, x: np.ndarray, background: np.ndarray, limits: MatchLimits, mask: tuple[np.ndarray, ...], learns: bool
    ) -> None:
        """Set `_dark` where the foreground of a mask is shadow; `mask`: (h, w) uint8 and its filled chunks."""
        learned = self.outline, self._new_outline, *self._votes, self._tint
        side = self._learn_shadows.call(x, background, limits, *mask, learns, *learned)
        factors = self._tint, learns, self._factors, *self._factors_work
        self._shadow_kernel.call(x, background, limits, *factors, *mask, *self._shadow_work)
        if side >= 0:
            self._walk_in(side, x, background, limits, mask)

    def _walk_in(
        self, side: int, x: np.ndarray, background: np.ndarray, limits: MatchLimits, mask: tuple[np.ndarray, ...]
    ) -> None:
        """Add cast shadows to `_dark`: the foreground that gets darker from a side inwards, see `walk_in`."""
        inputs, cast = (x, background, limits.scale, limits.black, mask[0]), (self._cast, self._cast_filled)
        _cast_shadow_kernels.walk_in(limits.lanes, *STEPS[side], *inputs, self._weight, self.darkest)
        _segment_kernels.majority(self._weight, mask[1], _SPECKLE, self._columns[0], self._counts[0], *cast)
        cv2.bitwise_and(self._cast, mask[0], self._cast)  # the majority has all bits set
        cv2.bitwise_or(self.dark, self._cast, self.dark)

    def move(self, places: np.ndarray) -> None:
        """Move pixel ``places[i]``, (h * w,) indices, to pixel i."""
        self.noise.sigma[:] = self.noise.sigma.take(places).reshape(self.shape)
        self.sample_memory.move(places)
        self._previous[:] = self._previous.take(places).reshape(self.shape)

    def rewind(self) -> None:
        """Prepare for the first frame of the same stream."""
        self.sample_memory.rewind()
        self._previous[:] = 0

    def empty(self) -> np.ndarray:
        """Return an empty mask, a buffer as that of `segment`."""
        self._masks.reverse()
        mask, self.filled = self._masks[0]
        mask[:], self.filled[:], self._previous[:] = BACKGROUND, 0, 0
        return mask

    def unlearned(
        self,
        strong: np.ndarray,
        filled: np.ndarray,
        known: np.ndarray | None,
        age: np.ndarray,
        returns: np.ndarray,
        x: np.ndarray,
        background: np.ndarray,
        seconds: float,
    ) -> np.ndarray:
        """Learn samples; return where the noise scale must not learn, (h, w) uint8: 1 at solid and `known` pixels."""
        skip = self._skip
        _segment_kernels.find_solid(strong, filled, returns, self._lines, skip)
        if known is not None:
            skip[known] = 1
            age = np.where(known, age.dtype.type(_NEVER_STORED), age)
        if self._radius and self.noise.is_sampled:
            self.sample_memory.learn(x, background, self._match, skip, age, seconds)
        return skip
