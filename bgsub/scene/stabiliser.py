"""The moving camera undone: frames into the coordinates of the background, results back into those of the frame."""

from __future__ import annotations

import math

import numpy as np

from bgsub._opencv import cv2
from bgsub.numerics.state import State, numbers_of, part_of
from bgsub.scene import _registration_kernels
from bgsub.scene.registration import Movement, Registration, channelled

_REFRESH = 50  # frames between two looks at the background


class Stabiliser:
    """Keep a stream in the coordinates of its background picture.

    A still camera costs one Gauss-Newton step on a few hundred points per frame. What a moved frame does not show of
    the background is filled from it, so that it neither is foreground nor is learned.
    """

    def __init__(self) -> None:
        self._registration = Registration()
        self._age = 0
        self._aligned: np.ndarray | None = None

    def needs_reference(self) -> bool:
        """Return whether the background should be given to `set_reference` again."""
        return self._age <= 0

    def set_reference(self, background: np.ndarray, scale: float = 1.0) -> None:
        """Take the background, (h, w) or (h, w, c) with ``scale * background`` in [0, 1]."""
        self._registration.set_reference(_plain(background), scale)
        self._age = _REFRESH

    def align(
        self, frame: np.ndarray, background: np.ndarray, scale: float = 1.0
    ) -> tuple[np.ndarray, Movement | None]:
        """Find how the camera moved, and undo it.

        Parameters
        ----------
        frame : ndarray, (h, w) or (h, w, c)
            The frame.
        background : ndarray, like `frame`
            Its background, for what the frame does not show.
        scale : float, default 1
            ``scale * frame`` lies in [0, 1].

        Returns
        -------
        aligned : ndarray, like `frame`
            The frame in the coordinates of the background, valid until the next call; `frame` itself when the camera
            did not move.
        movement : Movement or None
            Of the camera, None where it stood still.
        """
        self._age -= 1
        movement = self._registration.estimate(_plain(frame), scale)
        if movement is None:
            return frame, None
        kept = self._aligned
        if kept is None or kept.shape != frame.shape or kept.dtype != frame.dtype:
            kept = self._aligned = np.empty(frame.shape, frame.dtype)
        return _mapped(movement, frame, background, kept, forth=True, smooth=True), movement

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        return {"age": np.array([float(self._age)]), "registration": self._registration.state()}

    def set_state(self, state: State, shape: tuple[int, int, int], dtype: np.dtype) -> None:
        """Go on where another one stood, on frames of a shape and type; ParameterError when the arrays do not fit."""
        self._registration.set_state(part_of(state, "registration"), shape, dtype)
        self._age = int(numbers_of(state, "age", 1)[0])


def to_background(movement: Movement | None, known: np.ndarray) -> np.ndarray:
    """Return a boolean image, (h, w), of a frame's coordinates in those of the background."""
    if movement is None:
        return known
    image = known.view(np.uint8)
    return _mapped(movement, image, None, np.empty_like(image), forth=True, smooth=False).view(np.bool_)


def to_frame(
    movement: Movement | None,
    image: np.ndarray,
    outside: np.ndarray | None,
    *,
    smooth: bool,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return an image of the background's coordinates in those of a frame.

    Parameters
    ----------
    movement : Movement or None
        Of the camera in that frame.
    image : ndarray, (h, w) or (h, w, c)
        Mask, residual or background.
    outside : ndarray, like `image`, or None
        What stands where the background's picture does not reach; None for zeros.
    smooth : bool
        Whether values in between make sense, as they do not in a mask.
    out : ndarray, like `image`, optional
        Receives the result when the camera moved; a new one by default.

    Returns
    -------
    image : ndarray, like `image`
        `image` itself when the camera did not move.
    """
    if movement is None:
        return image
    out = np.empty_like(image) if out is None else out
    return _mapped(movement, image, outside, out, forth=False, smooth=smooth)


def _mapped(
    movement: Movement, image: np.ndarray, outside: np.ndarray | None, out: np.ndarray, *, forth: bool, smooth: bool
) -> np.ndarray:
    """Write `image` as the movement maps it, on top of `outside`, into `out`."""
    if image.dtype == np.float16:  # which neither kernels nor OpenCV take
        filled = np.zeros_like(image) if outside is None else outside
        target = np.empty(image.shape, np.float32)
        out[...] = _mapped(movement, _plain(image), _plain(filled), target, forth=forth, smooth=smooth)
        return out
    if movement.angle == 0:  # no turn that matters: faster than OpenCV
        sign = 1 if forth else -1
        shift = _shift if smooth else _shift_nearest
        inside = shift(image, sign * movement.dx, sign * movement.dy, out)
        rows, columns = inside
        for part in (
            np.s_[: rows.start],
            np.s_[rows.stop :],
            np.s_[rows, : columns.start],
            np.s_[rows, columns.stop :],
        ):
            out[part] = 0 if outside is None else outside[part]
        return out
    out[...] = 0 if outside is None else outside
    flags = (cv2.INTER_LINEAR if smooth else cv2.INTER_NEAREST) | (cv2.WARP_INVERSE_MAP if forth else 0)
    matrix = movement.matrix(image.shape)
    cv2.warpAffine(image, matrix, image.shape[1::-1], dst=out, flags=flags, borderMode=cv2.BORDER_TRANSPARENT)
    return out


def _shift(image: np.ndarray, dx: float, dy: float, out: np.ndarray) -> tuple[slice, slice]:
    """Write `image` at (x + dx, y + dy), bilinear, into `out`; return the rows and columns that are written."""
    h, w = image.shape[:2]
    line = np.empty(image[0].size, np.float32)
    rounding = 0.5 if image.dtype.kind == "u" else 0.0
    _registration_kernels.shift(channelled(image), dx, dy, rounding, line, channelled(out))
    return _overlap(h, math.floor(dy), 1), _overlap(w, math.floor(dx), 1)


def _shift_nearest(image: np.ndarray, dx: float, dy: float, out: np.ndarray) -> tuple[slice, slice]:
    """Write `image` at (x + dx, y + dy), the nearest pixel, into `out`; return the rows and columns written."""
    row, column = math.floor(dy + 0.5), math.floor(dx + 0.5)
    rows, columns = _overlap(image.shape[0], row, 0), _overlap(image.shape[1], column, 0)
    out[rows, columns] = image[rows.start + row : rows.stop + row, columns.start + column : columns.stop + column]
    return rows, columns


def _overlap(length: int, shift: int, beyond: int) -> slice:
    """Return the i in ``range(length)`` for which ``i + shift`` and ``i + shift + beyond`` are in it too."""
    begin = min(max(0, -shift), length)
    return slice(begin, max(min(length, length - shift - beyond), begin))


def _plain(image: np.ndarray) -> np.ndarray:
    """Return an image in a type that kernels take: float16 widened."""
    return image.astype(np.float32) if image.dtype == np.float16 else image
