"""Compensate camera movement: map frames to the coordinates of the background, and results back."""

import math

import numpy as np

from bgsub._opencv import cv2
from bgsub.numerics.state import State, array_of, numbers_of, part_of
from bgsub.scene.registration import Movement, Registration

_REFRESH = 150  # frames after which the reference of the registration is renewed
_RESTS = 4.0, 50  # least seconds and frames that a camera must stay at a new place for this to be permanent
_SAME = 0.15  # pixels, largest displacement of a corner in that time
_AT_REST = Movement()


class Stabiliser:
    """Keep a stream in the coordinates of its background."""

    def __init__(self, fps: float = 25.0) -> None:
        self._registration = Registration()
        self._age = _REFRESH  # frames since the reference was renewed
        self._aligned: np.ndarray | None = None  # buffer of aligned frames
        self._settles_after = max(round(_RESTS[0] * fps), _RESTS[1])
        self._place, self._stays = _AT_REST, 0  # and the number of frames that the camera has been there
        self.is_lost = False  # whether the camera was moved before, and its movement was not found in the newest frame
        self.has_new_place = False  # whether the camera has stayed at one place for `_RESTS`

    def align(
        self, frame: np.ndarray, background: np.ndarray, scale: float = 1.0
    ) -> tuple[np.ndarray, Movement | None]:
        """Estimate the camera movement and undo it; return the frame (a buffer if moved) and the movement or None."""
        # both pictures are (h, w) or (h, w, c), and times `scale` in [0, 1]
        # the background fills what lies outside of a moved frame, so that it is neither foreground nor learned
        part = self._age - _REFRESH
        if part >= 0 and self._registration.set_reference(background, scale, part):
            self._age = 0
        self._age += 1
        movement = self._registration.estimate(frame if frame.ndim == 3 else frame[..., None], scale)
        self._stays += 1
        there = movement or _AT_REST
        self.is_lost = movement is None and self._place != _AT_REST
        if there != self._place and Movement(*np.subtract(there, self._place)).reach(frame.shape) > _SAME:
            self._place, self._stays = there, 0
        self.has_new_place = self._stays >= self._settles_after
        if movement is None:
            return frame, None
        kept = self._aligned
        if kept is None or kept.shape != frame.shape or kept.dtype != frame.dtype:
            kept = self._aligned = np.empty(frame.shape, frame.dtype)
        return _mapped(movement, frame, background, kept, undo=True, smooth=True), movement

    def settle(self, background: np.ndarray, scale: float) -> None:
        """Make the new place the place at rest; `background`, (h, w, c), must be in its coordinates."""
        self._registration.set_reference(background, scale)
        self._age, self._place, self._stays = 0, _AT_REST, 0

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        place, counts = np.array(self._place), np.array([self._age, self._stays], np.float64)
        return {"place": place, "counts": counts, "registration": self._registration.state()}

    def set_state(self, state: State, shape: tuple[int, int, int]) -> None:
        """Restore a state on frames of a shape; ParameterError if the arrays do not fit."""
        self._registration.set_state(part_of(state, "registration"), shape)
        self._place = Movement(*array_of(state, "place", (4,), "float64").tolist())
        self._age, self._stays = (int(count) for count in numbers_of(state, "counts", 2))


def to_background(movement: Movement | None, known: np.ndarray) -> np.ndarray:
    """Map a boolean image, (h, w), from the coordinates of the frame to those of the background."""
    if movement is None:
        return known
    image = known.view(np.uint8)
    return _mapped(movement, image, None, np.empty_like(image), undo=True, smooth=False).view(np.bool_)


def to_frame(
    movement: Movement | None,
    image: np.ndarray,
    outside: np.ndarray | None,
    *,
    smooth: bool,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Map an image from the coordinates of the background to those of the frame; itself without movement."""
    if movement is None:
        return image
    out = np.empty_like(image) if out is None else out
    return _mapped(movement, image, outside, out, undo=False, smooth=smooth)


def _mapped(
    movement: Movement, image: np.ndarray, outside: np.ndarray | None, out: np.ndarray, *, undo: bool, smooth: bool
) -> np.ndarray:
    """Write `image`, moved or with `undo` moved back, into `out`; `outside` (or 0) where it shows nothing."""
    if movement.angle == movement.zoom == 0:  # faster than OpenCV
        sign = 1 if undo else -1
        rows, columns = _shift(image, sign * movement.dx, sign * movement.dy, out, smooth)
        beside = np.s_[rows, : columns.start], np.s_[rows, columns.stop :]
        for part in (np.s_[: rows.start], np.s_[rows.stop :], *beside):
            out[part] = 0 if outside is None else outside[part]
        return out
    out[...] = 0 if outside is None else outside
    flags = (cv2.INTER_LINEAR if smooth else cv2.INTER_NEAREST) | (cv2.WARP_INVERSE_MAP if undo else 0)
    matrix = movement.matrix(image.shape)
    cv2.warpAffine(image, matrix, image.shape[1::-1], dst=out, flags=flags, borderMode=cv2.BORDER_TRANSPARENT)
    return out


def _shift(image: np.ndarray, dx: float, dy: float, out: np.ndarray, smooth: bool) -> tuple[slice, slice]:
    """Write `image` at (x + dx, y + dy) into `out`, bilinear or nearest; return the rows and columns written."""
    if not smooth:
        dx, dy = math.floor(dx + 0.5), math.floor(dy + 0.5)
    row, column = math.floor(dy), math.floor(dx)
    rows, columns = _overlap(image.shape[0], row, smooth), _overlap(image.shape[1], column, smooth)
    seen = image[rows.start + row : rows.stop + row + smooth, columns.start + column : columns.stop + column + smooth]
    if rows.stop > rows.start and columns.stop > columns.start:
        if smooth:
            weights = np.outer([1 - dy + row, dy - row], [1 - dx + column, dx - column])
            seen = cv2.filter2D(seen, -1, weights, anchor=(0, 0))[:-1, :-1].reshape(out[rows, columns].shape)
        out[rows, columns] = seen
    return rows, columns


def _overlap(length: int, shift: int, beyond: int) -> slice:
    """Return the i in ``range(length)`` for which ``i + shift`` and ``i + shift + beyond`` are in it too."""
    begin = min(max(0, -shift), length)
    return slice(begin, max(min(length, length - shift - beyond), begin))
