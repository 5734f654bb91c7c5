"""Process reduced frames and return results in full size."""

from dataclasses import replace

import numpy as np

from bgsub._opencv import cv2
from bgsub.numerics.jit import constant
from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.numerics.threads import bands_for, copied, in_bands
from bgsub.scene import _reduction_kernels
from bgsub.scene._reduction_kernels import REACH, SPREAD
from bgsub.scene.frame_format import MAX_CHANNELS, FrameFormat, in_type, plain
from bgsub.scene.registration import Movement
from bgsub.scene.stabiliser import to_frame
from bgsub.separation import BACKGROUND, FOREGROUND

_WORK = 150_000  # full-size pixels per band, see `bands_for`
_STRIPS, _EVERY = 32, 8  # strips of the detail; one of them is renewed every eighth frame
_FIRST = 2 * _STRIPS  # first frames, each of which renews one: objects of the first frame are outlined in the detail
_MARGIN = 3  # pixels around foreground in which no detail is taken
_LONGEST = 32767  # side of a picture that OpenCV warps
_SQUARE = np.ones((2 * _MARGIN + 1, 2 * _MARGIN + 1), np.uint8)


class Reduction:
    """Reduce frames and enlarge results; masks and backgrounds keep the sharp edges of full-size frames."""

    def __init__(self, full: FrameFormat, scale: float, threads: int | None = None) -> None:
        height, width = full.shape[:2]
        h, w = max(round(scale * height), 1), max(round(scale * width), 1)
        self.full = full
        dtype = "float32" if full.dtype == "float16" else full.dtype  # OpenCV cannot resize half precision
        self.frames = replace(full, shape=(h, w, *full.shape[2:]), dtype=dtype)
        self._levels, size = list[np.ndarray](), (height, width)
        while not self._levels or size != (h, w):  # a bilinear step below a half would skip pixels
            size = max(-(-size[0] // 2), h), max(-(-size[1] // 2), w)
            self._levels.append(np.empty((*size, *full.shape[2:]), self.frames.dtype))
        self._small = self._levels[-1]
        (self._rows, row_taper), (self._columns, column_taper) = _places(height, h), _places(width, w)
        self._places = self._rows, self._columns, row_taper, column_taper
        self._scales = np.float32(full.scale), np.float32(1 / self.frames.pixels_full)
        self._lanes = constant(full.channels)
        self._bands = bands_for(height * width, _WORK, threads)
        self._work = [
            (np.empty((2, MAX_CHANNELS), np.float32), *np.empty((2, 3, 3), np.float32), np.empty(w, np.uint8))
            for _ in range(self._bands)
        ]
        self._trimmed = np.empty((h, w), np.uint8)
        self._outline = np.empty(-(-w // 8) * 8, np.uint8), np.empty(w + 1, np.int64)
        shape = full.cube if full.channels > 1 else full.shape[:2]
        self._depth = cv2.CV_8S if full.dtype == "uint8" else cv2.CV_32F
        self._detail, self._detail_frames = np.empty(shape, np.int8 if full.dtype == "uint8" else np.float32), -1

    def reduce(self, frame: np.ndarray) -> np.ndarray:
        """Return a checked full-size frame in the reduced format, bilinear after halving; a buffer."""
        image = frame if frame.dtype == self._small.dtype else frame.astype(self._small.dtype)
        for reduced in self._levels:
            image = _resized(image, reduced)
        return image

    def reduce_known(self, known: np.ndarray) -> np.ndarray:
        """Return which reduced pixels, (h, w) bool, contain any pixel of `known`, (H, W) bool."""
        rows = np.logical_or.reduceat(known, self._rows[:-1], axis=0)
        return np.logical_or.reduceat(rows, self._columns[:-1], axis=1)

    def enlarge(
        self, mask: np.ndarray, frame: np.ndarray, small: np.ndarray, picture: np.ndarray, out: np.ndarray
    ) -> np.ndarray:
        """Return the mask, (h, w) uint8, in full size, in `out`, with the edges of the `plain` full-size frame."""
        if not cv2.countNonZero(mask):
            out[:] = BACKGROUND
            return out
        full, scales, trimmed = frame.reshape(self.full.cube), self._scales, self._trimmed
        _reduction_kernels.trim(self._lanes, small, picture, mask, *self._outline, trimmed)
        images = self._lanes, full, scales[0], small, picture, scales[1], trimmed, *self._places, out
        if self._bands == 1:
            _reduction_kernels.enlarge(0, len(mask), *images, *self._work[0])
        else:

            def enlarge(begin: int, end: int, band: int) -> None:
                _reduction_kernels.enlarge(begin, end, *images, *self._work[band])

            in_bands(enlarge, len(mask), self._bands)
        return out

    def forget_detail(self) -> None:
        """Let `begin_detail` start again with the next frame."""
        self._detail_frames = -1

    @property
    def has_detail(self) -> bool:
        """Whether there is detail of this scene."""
        return self._detail_frames >= 0

    def begin_detail(self, mask: np.ndarray, frame: np.ndarray) -> None:
        """Set the detail: newest frame, `plain` in full size, minus its enlarged reduction, except at foreground."""
        full, small = frame.reshape(self._detail.shape), plain(self._small)
        cv2.subtract(full, _resized(small, np.empty_like(full)), dst=self._detail, dtype=self._depth)
        self._detail[cv2.dilate(mask, _SQUARE) != 0] = 0
        self._detail_frames = 0

    def renew_detail(self, mask: np.ndarray, frame: np.ndarray, movement: Movement | None) -> None:
        """Renew a strip of the detail, if it is time, by the newest frame, `plain` in full size."""
        # `movement` is that of the reduced frame
        full, height = frame.reshape(self._detail.shape), len(frame)
        self._detail_frames = self._detail_frames + 1 if self._detail_frames + 1 < _FIRST + _STRIPS * _EVERY else _FIRST
        every = 1 if self._detail_frames < _FIRST else _EVERY
        number = self._detail_frames // every % _STRIPS
        first, last = number * height // _STRIPS, (number + 1) * height // _STRIPS
        if self._detail_frames % every == 0 and first < last and self._can_move(movement):
            top, end = max(first - _MARGIN, 0), min(last + _MARGIN, height)
            matrix = (Movement() if movement is None else self._enlarged(movement)).matrix(full.shape)
            matrix[:, 2] += top * matrix[:, 1]  # of the strip
            size = full.shape[1], end - top
            smooth, nearest = cv2.WARP_INVERSE_MAP | cv2.INTER_LINEAR, cv2.WARP_INVERSE_MAP | cv2.INTER_NEAREST
            if movement is not None:
                full = cv2.warpAffine(full, matrix, size, flags=smooth, borderMode=cv2.BORDER_REPLICATE)
                mask = cv2.warpAffine(mask, matrix, size, flags=nearest, borderValue=FOREGROUND)
            else:
                full, mask = full[top:end], mask[top:end]
            scale = np.divide(self.frames.shape[1::-1], self.full.shape[1::-1])[:, np.newaxis]
            matrix = scale * matrix + np.hstack([np.zeros((2, 2)), (scale - 1) / 2])  # pixels are at their centres
            small = cv2.warpAffine(plain(self._small), matrix, size, flags=smooth, borderMode=cv2.BORDER_REPLICATE)
            detail = cv2.subtract(full, small.reshape(full.shape), dtype=self._depth)
            unseen = cv2.dilate(mask, _SQUARE)[first - top : last - top]
            cv2.copyTo(detail[first - top : last - top], (unseen == 0).view(np.uint8), self._detail[first:last])

    def _can_move(self, movement: Movement | None) -> bool:
        """Return whether the detail can be moved, or need not be."""
        return movement is None or max(self.full.shape[:2]) < _LONGEST

    def _enlarged(self, movement: Movement) -> Movement:
        """Return the movement of the full-size frame."""
        rows, columns = (n / m for n, m in zip(self.full.shape[:2], self.frames.shape[:2], strict=True))
        return movement._replace(dx=columns * movement.dx, dy=rows * movement.dy)

    def enlarge_background(self, background: np.ndarray, movement: Movement | None) -> np.ndarray:
        """Return a background of the reduced format in full size, with the detail of full-size frames if any."""
        large = _resized(background, np.empty(self.full.shape, background.dtype))
        if self.has_detail and self._can_move(movement):
            detail = self._detail
            if movement is not None:
                detail = detail.astype(np.int16) if self._depth == cv2.CV_8S else detail
                detail = to_frame(self._enlarged(movement), detail, None, smooth=True)
            kind = cv2.CV_8U if self.full.dtype == "uint8" else cv2.CV_32F
            large = cv2.add(large.reshape(detail.shape), detail, dtype=kind)
        if large.dtype != self.full.dtype and self.full.dtype == "uint16":
            large = np.rint(large.clip(0, np.iinfo(np.uint16).max)).astype(np.uint16)
        large = large.reshape(self.full.shape)
        return large if large.dtype == self.full.dtype else in_type(large, self.full.dtype)

    def enlarge_residual(self, residual: np.ndarray) -> np.ndarray:
        """Return the residual of the reduced frame, (h, w) float32, in full size; bilinear."""
        # a residual computed in full size would include fine detail that the reduced background does not have
        return _resized(residual, np.empty(self.full.shape[:2], np.float32))

    def state(self) -> State:
        """Return the detail of the background, copied."""
        return {"detail": copied(self._detail), "strip": np.array([self._detail_frames + 1.0])}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        self._detail[...] = array_of(state, "detail", self._detail.shape, self._detail.dtype.name)
        self._detail_frames = int(numbers_of(state, "strip", 1)[0]) % (_FIRST + _STRIPS * _EVERY + 1) - 1


def _resized(image: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write `image`, (h, w) or (h, w, c), in the size of `out` into it, bilinear, and return it."""
    if image.ndim == 3 and image.shape[2] == 1:  # OpenCV drops this axis
        _resized(image.reshape(image.shape[:2]), out.reshape(out.shape[:2]))
    else:
        cv2.resize(image, out.shape[1::-1], dst=out, interpolation=cv2.INTER_LINEAR)
    return out


def _places(full: int, reduced: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first full-size line of each reduced one, (n + 1,), and the weights of the reduced lines, (N, 3)."""
    lines = np.arange(full)
    inside = (2 * lines + 1) * reduced // (2 * full)
    first = np.searchsorted(inside, np.arange(reduced + 1))
    middles = (lines + 0.5) * reduced / full - 0.5
    distances = inside[:, None] + np.arange(-REACH, REACH + 1) - middles[:, None]
    taper = np.exp(-(distances**2) / (2 * SPREAD**2))
    return first.astype(np.int64), (taper / taper.sum(axis=1, keepdims=True)).astype(np.float32)
