"""Where the background of a frame comes from: the median of the first frames, then the tracked subspace."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from bgsub.numerics.threads import bands_for, in_bands
from bgsub.parameters import TRACKER
from bgsub.scene import _pixel_kernels, _sweep_kernels
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.provisional import StartBuffer
from bgsub.tracking.basis import Sweep
from bgsub.tracking.tracker import SubspaceTracker

_NOTHING = np.empty(0, np.uint8)
_EVERYTHING = np.empty(0, np.float32)
_WORTH_A_THREAD = 60_000  # pixels per band of the sweep
_PERIOD = 2  # frames in which every block of the basis is visited once
_CALM = 0.003  # root mean square change of the background up to which it is kept where it is not visited
_BLOCK_BYTES = 147_456  # of basis and workspaces; larger than the first-level cache, for fewer and longer loops


class Canvas:
    """What is made of one frame, in the coordinates of the background; everything is overwritten by a later frame.

    Attributes
    ----------
    residual : ndarray, (h, w), float32
        Joint colour residual.
    over : ndarray, (h, w), uint8
        Candidates, 0 or 1.
    count : int
        Frames so far.
    picture, before : ndarray, (h, w, c), uint8 or float32
        Background of the newest frame and of the frame before; None while there was none.
    """

    def __init__(self, frames: FrameFormat) -> None:
        h, w, _ = frames.cube
        self.residual = np.zeros((h, w), np.float32)
        self.over = np.zeros((h, w), np.uint8)
        self._pictures = [np.zeros(frames.cube, frames.pixels_dtype) for _ in range(2)]
        self.count = 0

    def turn(self) -> None:
        """Begin a new frame: the picture becomes the one before."""
        self._pictures.reverse()
        self.count += 1

    @property
    def picture(self) -> np.ndarray:
        """Background of the newest frame."""
        return self._pictures[0]

    @property
    def before(self) -> np.ndarray | None:
        """Background of the frame before."""
        return self._pictures[1] if self.count > 1 else None


class Background(Protocol):
    """A background model: the median of the first frames, or the tracked subspace."""

    def separate(self, pixels: np.ndarray, hidden: np.ndarray | None, sigma: np.ndarray, canvas: Canvas) -> int:
        """Fill the canvas from a frame; return the number of candidates."""

    def low_rank(self) -> np.ndarray:
        """Return the background of the newest frame, (m,), float32 in [0, 1]."""

    def set_limits(self, limits: tuple[np.float32, np.float32]) -> None:
        """Change threshold and noise factor of a candidate."""


class _Comparison:
    """What the passes over a frame share: format, limits, workspaces, threads."""

    def __init__(self, frames: FrameFormat, limits: tuple[np.float32, np.float32], rows: int, threads: int | None):
        channels = frames.channels
        self.bands = bands_for(frames.size // channels, _WORTH_A_THREAD, threads)
        self.block = max(_BLOCK_BYTES // (4 * channels * (rows + 3)) // 16, 2) * 16
        full = frames.pixels_full
        top = np.iinfo(frames.pixels_dtype).max if frames.pixels_dtype == "uint8" else 0
        self.scale = np.float32(1 / full)
        self.look = self.scale, channels, np.float32(full), np.float32(top)
        self.limits = limits
        self.work = np.empty((self.bands, 2, channels * self.block), np.float32)
        self.products = np.zeros((-(-frames.size // (channels * self.block)), rows + 3))

    def compare(self, low_rank: np.ndarray, pixels: np.ndarray, sigma: np.ndarray, canvas: Canvas) -> int:
        """Fill the canvas by a frame and its background, (m,) float32; return the number of candidates."""
        return _sweep_kernels.compare(
            0, sigma.size, low_rank, pixels.reshape(-1), *self.look, sigma.reshape(-1), *self.limits,
            canvas.residual.reshape(-1), canvas.picture.reshape(-1), canvas.over.reshape(-1), self.work[0],
        )  # fmt: skip


class StartBackground:
    """The median of the frames so far, until there are enough of them to fit a subspace.

    Parameters
    ----------
    frames : FrameFormat
        What the frames look like.
    limits : tuple of float32
        Threshold and noise factor of a candidate.
    capacity : int
        Number of frames of the batch start.
    """

    def __init__(self, frames: FrameFormat, limits: tuple[np.float32, np.float32], capacity: int) -> None:
        self.buffer = StartBuffer(capacity, frames.size, frames.pixels_dtype)
        self._comparison = _Comparison(frames, limits, 1, 1)
        self._low_rank = np.empty(frames.size, np.float32)

    def see(self, pixels: np.ndarray, known: np.ndarray | None, frozen: bool) -> None:
        """Put a frame, (h, w, c), into the buffer, the background in the place of known foreground, (h, w) bool."""
        buffer = self.buffer
        if buffer.count and known is not None:
            pixels = pixels.copy()
            pixels[known] = buffer.median.reshape(pixels.shape)[known]
        if not buffer.is_full and (not frozen or buffer.count == 0):
            buffer.add(pixels.reshape(-1))

    def separate(self, pixels: np.ndarray, hidden: np.ndarray | None, sigma: np.ndarray, canvas: Canvas) -> int:
        """Fill the canvas from a frame; return the number of candidates."""
        _pixel_kernels.to_unit(self.buffer.median, self._comparison.scale, self._low_rank)
        return self._comparison.compare(self._low_rank, pixels, sigma, canvas)

    def low_rank(self) -> np.ndarray:
        """Return the background of the newest frame, (m,), float32 in [0, 1]."""
        return self._low_rank

    def set_limits(self, limits: tuple[np.float32, np.float32]) -> None:
        """Change threshold and noise factor of a candidate."""
        self._comparison.limits = limits


class TrackedBackground:
    """The tracked subspace: one pass over the model per frame.

    Parameters
    ----------
    frames : FrameFormat
        What the frames look like.
    limits : tuple of float32
        Threshold and noise factor of a candidate.
    parameters : dict
        All parameters of the subtractor, checked.
    """

    def __init__(self, frames: FrameFormat, limits: tuple[np.float32, np.float32], parameters: dict[str, Any]) -> None:
        values = {name: parameters[name] for name in TRACKER}
        values["rank"] = min(values["rank"], frames.size)
        self._frames = frames
        self.tracker = SubspaceTracker(**values)
        self._index = self.tracker.subset_of(frames.size)
        self._values, self._seen = np.empty((2, self._index.size), np.float32)
        self._comparison = _Comparison(frames, limits, values["rank"], parameters["threads"])
        blocks = self._index // frames.channels // self._comparison.block
        self._weights = [_PERIOD * (blocks % _PERIOD == turn).astype(np.float32) for turn in range(_PERIOD)]
        self.one_pass = True  # False: every frame by the plain passes of the tracker, for comparison

    def separate(self, pixels: np.ndarray, hidden: np.ndarray | None, sigma: np.ndarray, canvas: Canvas) -> int:
        """Fill the canvas from a frame; return the number of candidates."""
        flat, channels = pixels.reshape(-1), self._frames.channels
        _pixel_kernels.values_at(flat, self._index, self._comparison.scale, self._values)
        seen = _EVERYTHING
        if hidden is not None:
            seen = self._seen
            _pixel_kernels.seen_at(hidden.reshape(-1), self._index, channels, seen)
        entries = self._comparison.block * channels
        begun = self.tracker.begin_sweep(self._values, seen, _PERIOD, entries) if self.one_pass else None
        if begun is None:
            return self._separate_plainly(flat, hidden, sigma, canvas)
        return self._sweep(begun, flat, _NOTHING if hidden is None else hidden.reshape(-1), sigma, canvas)

    def _sweep(
        self,
        begun: Sweep,
        flat: np.ndarray,
        hidden: np.ndarray,
        sigma: np.ndarray,
        canvas: Canvas,
    ) -> int:
        comparison, surrogate = self._comparison, self.tracker.surrogate_
        cost = surrogate.code, np.float32(surrogate.mu), np.float32(surrogate.p)
        outputs = canvas.residual.reshape(-1), canvas.picture.reshape(-1), canvas.over.reshape(-1)
        kept = canvas.before is not None and self.tracker.change() < _CALM
        before = canvas.picture if canvas.before is None else canvas.before

        def sweep(begin: int, end: int, band: int) -> None:
            """Sweep one band of blocks."""
            _sweep_kernels.sweep(
                begin, end, *begun, kept, before.reshape(-1), hidden, *cost, flat, *comparison.look, sigma.reshape(-1),
                *comparison.limits, *outputs, comparison.work[band], comparison.products,
            )  # fmt: skip

        in_bands(sweep, sigma.size, comparison.bands, comparison.block)
        products = comparison.products.sum(axis=0)
        self.tracker.end_sweep(products[:-2], float(products[-2]), self._weights[begun.turn])
        return int(products[-1])

    def _separate_plainly(self, flat: np.ndarray, hidden: np.ndarray | None, sigma: np.ndarray, canvas: Canvas) -> int:
        x = np.empty(flat.size, np.float32)
        _pixel_kernels.to_unit(flat, self._comparison.scale, x)
        weights = _EVERYTHING
        if hidden is not None:
            weights = np.repeat(hidden.reshape(-1) == 0, self._frames.channels).astype(np.float32)
        return self._comparison.compare(self.tracker.separate(x, weights), flat, sigma, canvas)

    def low_rank(self) -> np.ndarray:
        """Return the background of the newest frame, (m,), float32 in [0, 1]."""
        return self.tracker.low_rank_

    def set_limits(self, limits: tuple[np.float32, np.float32]) -> None:
        """Change threshold and noise factor of a candidate."""
        self._comparison.limits = limits

    def absorb(self, pixels: np.ndarray, due: np.ndarray) -> None:
        """Make a frame, (h, w, c), the background where `due`, (h, w) bool."""
        rows = np.flatnonzero(due.any(axis=1))
        part = np.s_[rows[0] : rows[-1] + 1]
        chosen = np.ascontiguousarray(pixels[part])
        target = np.empty(chosen.size, np.float32)
        _pixel_kernels.to_unit(chosen.reshape(-1), self._comparison.scale, target)
        entries = np.repeat(due[part].reshape(-1), self._frames.channels).view(np.uint8)
        self.tracker.retarget(target, entries, rows[0] * pixels[0].size)
