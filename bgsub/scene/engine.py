"""The pass over the model and a frame: `SweepEngine`, with its inputs, maps and results."""

import math
from typing import NamedTuple

import numpy as np

from bgsub.errors import import_optional
from bgsub.numerics.jit import TypedKernel, constant
from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.numerics.threads import bands_for, copied, in_bands
from bgsub.scene import _frame_kernels
from bgsub.scene._frame_kernels import CompareParams, Images, LearnParams
from bgsub.scene.frame_format import FrameFormat
from bgsub.tracking.subspace import Sweep

_ALL_OBSERVED, _SAME_PICTURE = np.empty(0, np.uint16), np.empty(0, np.float32)
_WORTH_A_THREAD = 60_000  # pixels per band, see `bands_for`
_BLOCK_BYTES = 73_728  # of a block: basis, influence, work; larger than the first-level cache, for longer loops
_CHUNK = _frame_kernels.CHUNK
PERIOD = 5  # every frame updates one fifth of the blocks of the basis


class SweepResult(NamedTuple):
    """Result of a sweep, besides the maps."""

    products: np.ndarray  # (k + 1,) float64, inner products of the new influence e with the rows of V' and with itself
    cost: float  # ``h(A(x - U y))`` on the visited blocks, times the period
    candidates: int


class SweepEngine:
    """The passes over a frame, in blocks that fit into the cache and in bands on several threads.

    `picture` (h, w, c) is the background in the type of the frames; `over` and `strong` (h, w) uint8 are the candidates
    and the residuals above the threshold, both 0 in the chunks of 64 pixels where `filled` (chunks,) uint8 is 0. All
    are in the coordinates of the background. `sigma` (h, w) float32 is the noise scale.
    """

    def __init__(self, frames: FrameFormat, rank: int, threads: int | None, sigma: np.ndarray) -> None:
        h, w, channels = frames.cube
        most = _BLOCK_BYTES // (4 * channels * (rank + 3))
        if h * w <= most:  # a frame of one block would be updated in every fifth frame only
            most = h * w // PERIOD
        self.block = max(most // _CHUNK, 1) * _CHUNK
        self._bands = bands_for(h * w, _WORTH_A_THREAD, threads)
        full = frames.pixels_full
        top = np.iinfo(frames.pixels_dtype).max if frames.pixels_dtype == "uint8" else 0
        self._unit = np.float32(1 / full), constant(channels), np.float32(full), np.float32(top)
        self._work = np.empty((self._bands, 2, channels * self.block), np.float32)
        self._products = np.zeros((-(-h * w // self.block), rank + 3))
        self.picture = np.zeros(frames.cube, frames.pixels_dtype)
        self._previous = np.empty(frames.cube, frames.pixels_dtype)  # uses no memory until it is written
        self.has_changed = False  # whether `picture` was replaced in the newest frame; `_previous` is the old one
        self.over, self.strong = np.zeros((h, w), np.uint8), np.zeros((h, w), np.uint8)
        self.filled = np.zeros(-(-h * w // _CHUNK), np.uint8)
        self._maps = tuple(image.reshape(-1) for image in (self.picture, sigma, self.over, self.strong, self.filled))
        self.images = Images(self._maps[0], *self._maps)
        self._sweep, self._learn_pixels = TypedKernel(_frame_kernels.sweep), TypedKernel(_frame_kernels.learn_pixels)
        self.count = 0  # frames

    @staticmethod
    def of(device: str) -> "type[SweepEngine]":
        """Return the engine for a device, "cpu" or "cuda"; DependencyError without a GPU."""
        if device == "cpu":
            return SweepEngine
        message = "device 'cuda' needs the package numba-cuda: pip install 'bgsub[cuda]'"
        module = import_optional("bgsub.scene.cuda_engine", message)
        module.check_gpu()
        engine: type[SweepEngine] = module.CudaSweepEngine
        return engine

    def set_limits(self, threshold: np.float32, factor: np.float32) -> None:
        """Set the limits: a pixel is a candidate if its joint residual exceeds ``hypot(threshold, factor * sigma)``."""
        self._params = CompareParams(*self._unit, threshold, factor)

    @property
    def before(self) -> np.ndarray | None:
        """Background of the previous frame; None at the first one."""
        return None if self.count < 2 else self._previous if self.has_changed else self.picture

    def begin(self, pixels: np.ndarray) -> None:
        """Begin with a new frame, (h, w, c), uint8 or float32."""
        self.images = Images(pixels.reshape(-1), *self._maps)
        self.count += 1
        self.has_changed = False

    def _keep_previous(self) -> None:
        if not self.has_changed:
            np.copyto(self._previous, self.picture)
            self.has_changed = True

    def sweep(self, sweep: Sweep, hidden: np.ndarray | None, everywhere: bool) -> SweepResult:
        """Step the visited blocks of the basis, compare the frame with its background, and compute its influence."""
        # `hidden` (h, w) uint16: not 0 where a pixel is not observed; `everywhere`: update `picture` in all blocks
        if everywhere:
            self._keep_previous()
        flags = _ALL_OBSERVED if hidden is None else hidden.reshape(-1)
        inputs = sweep.visit, sweep.cost, self.images, flags, everywhere, self._params
        if self._bands == 1:
            self._sweep.call(0, self.over.size, *inputs, self._work[0], self._products)
        else:

            def in_band(begin: int, end: int, band: int) -> None:
                self._sweep.call(begin, end, *inputs, self._work[band], self._products)

            in_bands(in_band, self.over.size, self._bands, self.block)
        products = np.add.reduce(self._products)
        return SweepResult(products[:-2], float(products[-2]), int(products[-1]))

    def compare(self, low_rank: np.ndarray = _SAME_PICTURE) -> int:
        """Compare with a new background, (m,) float32, or if empty with `picture`; return the number of candidates."""
        if low_rank.size:
            self._keep_previous()
        return _frame_kernels.compare(0, self.over.size, low_rank, self.images, self._params)

    def learn(self, skip: np.ndarray, learn: LearnParams, due: tuple[int, int]) -> None:
        """Learn the noise scale in the `due` blocks (period, turn), except where `skip`, (h, w) uint8, is 1."""
        inputs = self.block, *due, self.images, self._params, skip.reshape(-1), learn
        if self._bands == 1:
            self._learn_pixels.call(0, self.over.size, *inputs, self._work[0, 0])
        else:

            def in_band(begin: int, end: int, band: int) -> None:
                self._learn_pixels.call(begin, end, *inputs, self._work[band, 0])

            in_bands(in_band, self.over.size, self._bands, self.block)

    def residual(self) -> np.ndarray:
        """Return the joint colour residual of the newest frame, (h, w) float32.  O(m)."""
        scale, lanes, *_ = self._unit
        d = self.images.pixels.astype(np.float32) - self.images.picture
        d = d.reshape(*self.over.shape, len(lanes))
        return scale * np.sqrt(np.einsum("ijc,ijc->ij", d, d))

    def limit(self) -> float:
        """Return the limit of a candidate at the median noise scale: a joint residual in [0, 1]."""
        return math.hypot(self._params.threshold, self._params.factor * float(np.median(self._maps[1])))

    def noise(self) -> float:
        """Return the usual noise of the brightness (the mean of the channels), in the unit of the frames."""
        scale, lanes, *_ = self._unit
        return float(np.median(self._maps[1])) / (float(scale) * len(lanes))

    def state(self) -> State:
        """Return the backgrounds, copied; nothing before the first frame."""
        if not self.count:
            return {}
        before = {"before": copied(self._previous)} if self.has_changed else {}
        return {"picture": copied(self.picture), **before, "counts": np.array([float(self.count), self.has_changed])}

    def set_state(self, state: State) -> None:
        """Restore the backgrounds; ParameterError if they do not fit."""
        shape, dtype = self.picture.shape, self.picture.dtype.name
        if not state:
            return
        count, has_before = numbers_of(state, "counts", 2)
        self.count, self.has_changed = int(count), bool(has_before)
        self.picture[:] = array_of(state, "picture", shape, dtype)
        if self.has_changed:
            self._previous[:] = array_of(state, "before", shape, dtype)
