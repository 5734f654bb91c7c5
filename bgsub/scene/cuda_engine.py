"""The passes over a frame on an NVIDIA GPU: `CudaSweepEngine`, for ``device="cuda"``.

Basis, background and frame stay in the memory of the GPU. Its kernels read and write the maps of the engine where the
CPU has them, in pinned memory; the basis is copied back when the CPU uses it. One frame is one wait.
"""

import math
import warnings
from functools import cache
from typing import Any

import numpy as np
from numba import config, cuda

from bgsub.errors import DependencyError
from bgsub.numerics.state import State
from bgsub.scene._frame_kernels import CHUNK, LearnParams
from bgsub.scene.engine import PERIOD, SweepEngine, SweepResult
from bgsub.scene.frame_format import FrameFormat
from bgsub.tracking.subspace import Sweep

_CHUNKS = 4  # chunks of `CHUNK` pixels that a block of threads compares at once
_THREADS = _CHUNKS * CHUNK
_FIXED = 6  # numbers for the kernel besides the coefficients and the pending step: scale, full, mu, three limits
F, ZERO, ONE = np.float32, np.float32(0), np.float32(1)
warnings.filterwarnings("ignore", ".*Grid size")  # of small frames


@cache
def kernels_for(rank: int, channels: int, is_bytes: bool) -> tuple[Any, Any]:  # noqa: PLR0915 - of these constants
    """Return `sweep` and `learn_pixels` of `bgsub.scene._frame_kernels` with a block of threads per block."""
    given_count, sum_count = 2 * rank + _FIXED, rank + 3

    @cuda.jit(device=True)
    def differences(x, l, i):  # type: ignore[no-untyped-def]
        """Return the largest difference of a channel of pixel i, and the sum of their squares."""
        most = total = ZERO
        for j in range(channels * i, channels * i + channels):
            d = abs(F(x[j]) - F(l[j]))
            most, total = max(most, d), total + d * d
        return most, total

    @cuda.jit(device=True)
    def background_at(rows, i, is_visited, given):  # type: ignore[no-untyped-def]
        """Step entry i of the basis, if it is visited, and return the background there."""
        low_rank = ZERO
        for j in range(rank):
            if is_visited:
                rows[j, i] += given[rank + j] * rows[rank, i]
            low_rank += given[j] * rows[j, i]
        return low_rank

    @cuda.jit(device=True)
    def add_influence(rows, i, r, mu, sums):  # type: ignore[no-untyped-def]
        """Write the influence of a residual; add its inner products with all rows, and the cost."""
        z = mu * F(math.atan(r / mu))
        e = F(PERIOD) * z / (ONE + (r / mu) * (r / mu))
        rows[rank, i] = e
        for j in range(rank + 1):
            sums[j] += rows[j, i] * e
        sums[rank + 1] += F(0.5 * PERIOD) * z * z

    @cuda.jit(device=True)
    def count_candidates(x, l, a, b, limits, was, sigma, over, strong, filled):  # type: ignore[no-untyped-def]
        """Write the candidates and strong residuals of the pixels a to b; return how many this thread found."""
        flags, t, count = cuda.shared.array(_CHUNKS, np.uint8), cuda.threadIdx.x, ZERO
        calm, least, factor = limits
        for first in range(a, b, _THREADS):
            i, total = first + t, ZERO
            if t < _CHUNKS:
                flags[t] = 0
            cuda.syncthreads()  # the background is complete, too
            if i < b:
                most, total = differences(x, l, i)
                if most > calm:
                    flags[t // CHUNK] = 1
            cuda.syncthreads()
            is_filled = flags[t // CHUNK]
            is_due = i < b and (is_filled != 0 or was[i // CHUNK] != 0)
            cuda.syncthreads()
            if is_due:
                strong[i] = total > least
                over[i] = total > least + factor * sigma[i] * sigma[i]
                count += F(over[i])
                if t % CHUNK == 0:
                    was[i // CHUNK] = filled[i // CHUNK] = is_filled
        return count

    @cuda.jit(device=True)
    def total_of(value, part):  # type: ignore[no-untyped-def]
        """Return the sum over the threads of a block, to the first of them; `part` (_THREADS,) is shared."""
        t, half = cuda.threadIdx.x, _THREADS // 2
        cuda.syncthreads()
        part[t] = value
        while half > 0:
            cuda.syncthreads()
            if t < half:
                part[t] += part[t + half]
            half //= 2
        return part[0]

    @cuda.jit(fastmath=True)
    def sweep(rows, x, l, was, shown, sigma, over, strong, filled, numbers, products, hidden, sizes):  # type: ignore[no-untyped-def]
        block, turn, everywhere, hides = sizes
        number, t = cuda.blockIdx.x, cuda.threadIdx.x
        a, b, is_visited = number * block, min(number * block + block, over.size), number % PERIOD == turn
        given = cuda.shared.array(given_count, np.float32)
        part = cuda.shared.array(_THREADS, np.float32)
        sums = cuda.local.array(sum_count, np.float32)
        if t < given_count:
            given[t] = numbers[t]
        for j in range(sum_count):
            sums[j] = ZERO
        cuda.syncthreads()
        scale, full, mu = given[2 * rank], given[2 * rank + 1], given[2 * rank + 2]
        if is_visited or everywhere:
            for i in range(a * channels + t, b * channels, _THREADS):
                low_rank = background_at(rows, i, is_visited, given)
                if is_bytes:
                    l[i] = shown[i] = min(max(low_rank * full, ZERO), full) + F(0.5)
                else:
                    l[i] = shown[i] = low_rank * full
                if is_visited:
                    is_hidden = hides and hidden[i // channels] != 0
                    add_influence(rows, i, ZERO if is_hidden else F(x[i]) * scale - low_rank, mu, sums)
        limits = given[given_count - 3], given[given_count - 2], given[given_count - 1]
        sums[sum_count - 1] = count_candidates(x, l, a, b, limits, was, sigma, over, strong, filled)
        for j in range(sum_count):
            total = total_of(sums[j], part) if is_visited or j == sum_count - 1 else ZERO
            if t == 0:
                products[number, j] = total

    @cuda.jit(fastmath=True)
    def learn(x, l, sigma, skip, sizes, rate, clip, floor, scale):  # type: ignore[no-untyped-def]
        block, turn = sizes
        a = (cuda.blockIdx.x * PERIOD + turn) * block
        for i in range(a + cuda.threadIdx.x, min(a + block, sigma.size), _THREADS):
            d = min(scale * F(math.sqrt(differences(x, l, i)[1])), clip)
            sigma[i] = max(sigma[i] + (rate if skip[i] == 0 else ZERO) * (d - sigma[i]), floor)

    return sweep, learn


def check_gpu() -> None:
    """Raise DependencyError unless there is a GPU that Numba can use."""
    if not cuda.is_available():
        raise DependencyError("device 'cuda' needs an NVIDIA GPU with its driver, and pip install 'bgsub[cuda]'")


def _pinned(array: np.ndarray) -> Any:
    """Return a view for kernels of the GPU of an array in memory of the CPU, which is pinned while the view lives."""
    if config.ENABLE_CUDASIM:
        return array
    from numba.cuda.cudadrv import devicearray  # noqa: PLC0415 - the simulator has none

    memory = cuda.current_context().mempin(array, array.ctypes.data, array.nbytes, mapped=True)
    return devicearray.from_array_like(array, gpu_data=memory)


class _Mirror:
    """The rows V' and e' of a `Basis` on the GPU, which may be newer than those on the CPU."""

    def __init__(self, rows: np.ndarray, stream: Any) -> None:
        self._rows, self._stream = cuda.device_array(rows.shape, np.float32), stream
        self._pinned = _pinned(rows)  # for faster copies
        self._is_current = False  # whether the GPU has the newest values; those of the CPU may be older

    def bring_back(self, rows: np.ndarray) -> None:
        """Copy the newest values to `rows` of the CPU, which may change them: the GPU is out of date then."""
        if self._is_current:
            self._rows.copy_to_host(rows[: len(self._rows)], self._stream)
            self._stream.synchronize()
        self._is_current = False

    def newest(self, rows: np.ndarray) -> Any:
        """Return the newest values on the GPU, where a kernel may change them."""
        if not self._is_current:
            self._rows.copy_to_device(rows[: len(self._rows)], self._stream)
        self._is_current = True
        return self._rows


class CudaSweepEngine(SweepEngine):
    """`SweepEngine` on a GPU."""

    def __init__(self, frames: FrameFormat, rank: int, threads: int | None, sigma: np.ndarray) -> None:
        super().__init__(frames, rank, threads, sigma)
        self._rank, kernels = rank, kernels_for(rank, frames.channels, frames.pixels_dtype == "uint8")
        self._sweep_kernel, self._learn_kernel = kernels
        self._numbers = np.zeros(2 * rank + _FIXED, F)
        self._stream, self._launchers = cuda.stream(), {}  # type: Any, dict[Any, Any]
        self._x, self._l = (cuda.device_array(frames.size, frames.pixels_dtype) for _ in range(2))
        self._was = cuda.device_array(self.filled.size, np.uint8)
        self._shared = [_pinned(array) for array in (*self._maps, self._numbers, self._products)]
        self._lent: dict[str, tuple[np.ndarray, Any]] = {}
        self._nothing = np.zeros(1, np.uint16)
        self._is_current = self._is_sent = False  # whether background and frame on the GPU are those of the CPU

    def _launch(self, kernel: Any, blocks: int, *args: Any) -> None:
        """Run a kernel, without Numba's search for the types of its arguments."""
        if (kernel, blocks) not in self._launchers:
            self._launchers[kernel, blocks] = kernel.specialize(*args)[blocks, _THREADS, self._stream]
        self._launchers[kernel, blocks](*args)
        self._stream.synchronize()

    def _given(self, name: str, array: np.ndarray) -> Any:
        """Return a view for the GPU of an array of the caller, cached by `name`: most are the same in all frames."""
        if name not in self._lent or self._lent[name][0] is not array:
            self._lent[name] = array, _pinned(array.reshape(-1))
        return self._lent[name][1]

    def begin(self, pixels: np.ndarray) -> None:
        """Begin with a new frame, (h, w, c), uint8 or float32."""
        super().begin(pixels)
        self._is_sent = False

    def _send(self) -> None:
        if not self._is_current:
            self._l.copy_to_device(self._maps[0], self._stream)
            self._was.copy_to_device(self.filled, self._stream)
        if not self._is_sent:
            self._x.copy_to_device(self.images.pixels, self._stream)
        self._is_current = self._is_sent = True

    def sweep(self, sweep: Sweep, hidden: np.ndarray | None, everywhere: bool) -> SweepResult:
        """Step the visited blocks of the basis, compare the frame with its background, and compute its influence."""
        visit, params, basis = sweep.visit, self._params, sweep.basis
        if everywhere:
            self._keep_previous()
        self._send()
        if basis.mirror is None:
            basis.mirror = _Mirror(visit.stack[: self._rank + 1], self._stream)
        channels, scale = len(params.lanes), float(params.scale)
        calm = float(params.threshold) / scale / math.sqrt(channels)
        limits = int(calm) if params.top else calm, (params.threshold / scale) ** 2, (params.factor / scale) ** 2
        self._numbers[:] = *visit.c, *visit.G[visit.turn], params.scale, params.full, sweep.cost.mu, *limits
        flags = self._given("nothing", self._nothing) if hidden is None else self._given("hidden", hidden)
        resident = basis.mirror.newest(visit.stack), self._x, self._l, self._was
        sizes = self.block, visit.turn, int(everywhere), int(hidden is not None)
        self._launch(self._sweep_kernel, len(self._products), *resident, *self._shared, flags, sizes)
        products = np.add.reduce(self._products)
        return SweepResult(products[:-2], float(products[-2]), int(products[-1]))

    def compare(self, *low_rank: np.ndarray) -> int:
        """Compare on the CPU, as `SweepEngine.compare`; the background on the GPU is out of date then."""
        self._is_current = False
        return super().compare(*low_rank)

    def learn(self, skip: np.ndarray, learn: LearnParams, due: tuple[int, int]) -> None:
        """Learn the noise scale in the `due` blocks (period, turn), except where `skip`, (h, w) uint8, is 1."""
        blocks = -(-(len(self._products) - due[1]) // PERIOD)
        if not self._is_current or due[0] != PERIOD:
            super().learn(skip, learn, due)
        elif blocks > 0:
            inputs = self._x, self._l, self._shared[1], self._given("skip", skip), (self.block, due[1])
            self._launch(self._learn_kernel, blocks, *inputs, *learn, self._params.scale)

    def set_state(self, state: State) -> None:
        """Restore the backgrounds; ParameterError if they do not fit."""
        super().set_state(state)
        self._is_current = False
