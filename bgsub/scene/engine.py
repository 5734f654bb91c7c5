"""The pass over the model and a frame: `SweepEngine`, with its inputs, buffers and results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bgsub.numerics.jit import constant
from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.numerics.threads import bands_for, copied, in_bands
from bgsub.scene import _engine_kernels
from bgsub.scene._engine_kernels import CompareParams, FrameArrays, Outputs
from bgsub.scene.frame_format import FrameFormat
from bgsub.tracking.basis import Sweep

_NOTHING, _ANY = np.empty(0, np.uint16), np.empty(0, np.float32)
_WORTH_A_THREAD = 60_000  # pixels per band
_BLOCK_BYTES = 73_728  # basis and workspaces; exceeds the first-level cache for fewer and longer loops


class FrameBuffers:
    """Residual and `over` (candidates), (h, w), and backgrounds, (h, w, c), in the coordinates of the background."""

    def __init__(self, frames: FrameFormat) -> None:
        h, w, _ = frames.cube
        self.residual = np.zeros((h, w), np.float32)
        self.over = np.zeros((h, w), np.uint8)
        self._pictures = [np.zeros(frames.cube, frames.pixels_dtype) for _ in range(2)]
        residual, over = self.residual.reshape(-1), self.over.reshape(-1)
        self._flat = [Outputs(residual, picture.reshape(-1), over) for picture in self._pictures]
        self.count = 0

    def turn(self) -> None:
        """Begin a new frame: the current picture becomes the previous one."""
        self._pictures.reverse()
        self._flat.reverse()
        self.count += 1

    def flat(self) -> tuple[Outputs, np.ndarray]:
        """Return the outputs of the newest frame and the previous background, as vectors."""
        return self._flat[0], self._flat[min(self.count - 1, 1)].picture

    def state(self) -> State:
        """Return the two backgrounds, copied; nothing before the first frame."""
        if not self.count:
            return {}
        before = {} if self.before is None else {"before": copied(self.before)}
        return {"picture": copied(self.picture), **before, "count": np.array([float(self.count)])}

    def set_state(self, state: State) -> None:
        """Restore the two backgrounds; ParameterError if they do not fit."""
        if not state:
            return
        shape, dtype = self.picture.shape, self.picture.dtype.name
        self.count = int(numbers_of(state, "count", 1)[0])
        self.picture[:] = array_of(state, "picture", shape, dtype)
        if self.before is not None:
            self.before[:] = array_of(state, "before", shape, dtype)

    @property
    def picture(self) -> np.ndarray:
        """Background of the newest frame."""
        return self._pictures[0]

    @property
    def before(self) -> np.ndarray | None:
        """Background of the previous frame."""
        return self._pictures[1] if self.count > 1 else None


class FrameInput(NamedTuple):
    """A frame and the limits of its candidates."""

    pixels: np.ndarray  # (h, w, c), uint8 or float32
    hidden: np.ndarray | None  # (h, w) uint16, not 0 at known foreground and standing objects
    sigma: np.ndarray  # (h, w) float32, noise scale
    threshold: np.float32  # a pixel is a candidate if its joint residual exceeds ``max(threshold, factor * sigma)``
    factor: np.float32


class SweepResult(NamedTuple):
    """Result of a sweep, besides the buffers."""

    products: np.ndarray  # (k + 1,) float64, inner products of the new influence e with the rows of V' and with itself
    cost: float  # ``h(A(x - U y))`` on the visited blocks, times the period
    candidates: int


class SweepEngine:
    """The passes over a frame, in blocks that fit into the cache and in bands on several threads."""

    def __init__(self, frames: FrameFormat, rank: int, threads: int | None) -> None:
        channels = frames.channels
        self.block = max(_BLOCK_BYTES // (4 * channels * (rank + 3)) // 16, 2) * 16
        self._bands = bands_for(frames.size // channels, _WORTH_A_THREAD, threads)
        full = frames.pixels_full
        top = np.iinfo(frames.pixels_dtype).max if frames.pixels_dtype == "uint8" else 0
        self._unit = np.float32(1 / full), constant(channels), np.float32(full), np.float32(top)
        self._work = np.empty((self._bands, 3, channels * self.block), np.float32)
        self._products = np.zeros((-(-frames.size // (channels * self.block)), rank + 3))

    def sweep(
        self, sweep: Sweep, frame_input: FrameInput, scale: np.ndarray, kept: bool, buffers: FrameBuffers
    ) -> SweepResult:
        """Step the due blocks of the basis, compare a frame with its background, and compute its influence.  O(m k)."""
        # `scale` (h, w): scales of the costs; `kept`: the blocks that are not visited keep the previous background
        frame, look, out = self._arrays(frame_input, scale, kept, buffers)

        def in_band(begin: int, end: int, band: int) -> None:
            work = self._work[band], self._products
            _engine_kernels.sweep(begin, end, sweep.visit, sweep.cost, frame, look, out, *work)

        in_bands(in_band, frame_input.sigma.size, self._bands, self.block)
        products = np.add.reduce(self._products)
        return SweepResult(products[:-2], float(products[-2]), int(products[-1]))

    def compare(self, low_rank: np.ndarray, frame_input: FrameInput, buffers: FrameBuffers) -> int:
        """Fill the buffers from a frame and its background, (m,) float32; return the number of candidates.  O(m)."""
        frame = self._arrays(frame_input, _ANY, False, buffers)
        return _engine_kernels.compare(0, frame_input.sigma.size, low_rank, *frame, self._work[0])

    def _arrays(
        self, frame_input: FrameInput, scale: np.ndarray, kept: bool, buffers: FrameBuffers
    ) -> tuple[FrameArrays, CompareParams, Outputs]:
        """Return the arguments of the kernels."""
        out, before = buffers.flat()
        hidden = _NOTHING if frame_input.hidden is None else frame_input.hidden.reshape(-1)
        scales = frame_input.sigma.reshape(-1), scale.reshape(-1)
        frame = FrameArrays(frame_input.pixels.reshape(-1), *scales, hidden, before, kept)
        look = CompareParams(*self._unit, frame_input.threshold, frame_input.factor)
        return frame, look, out
