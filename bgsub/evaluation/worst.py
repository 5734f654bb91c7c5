"""The worst frames of a run: few are kept, however long it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgsub.evaluation.metrics import OUTSIDE, Confusion, confusion
from bgsub.evaluation.overlay import error_image
from bgsub.video.views import to_bgr8

PARTS = ("input", "truth", "mask", "errors")
"""What the strip of a frame shows, from left to right."""

_BAR = 4


@dataclass(frozen=True, eq=False)
class WorstFrame:
    """One frame of a run."""

    number: int
    confusion: Confusion
    frame: np.ndarray  # (h, w) or (h, w, 3), uint8 or uint16: the input
    mask: np.ndarray  # (h, w), uint8 or bool: the answer
    truth: np.ndarray  # (h, w), uint8: the true mask, 85 outside the region of interest

    @property
    def wrong(self) -> int:
        """Number of wrong pixels."""
        return _wrong(self.confusion)

    @property
    def strip(self) -> np.ndarray:
        """Input, truth, mask and errors (`error_image`) side by side with bars between, (h, 4 w + 12, 3), BGR."""
        image = to_bgr8(self.frame)
        mask = self.mask.astype(np.uint8) * 255 if self.mask.dtype == np.bool_ else self.mask
        bar = np.full((len(image), _BAR, 3), 128, np.uint8)  # two dark masks would run into one another
        errors = error_image(image, mask, self.truth)
        return np.hstack([image, bar, to_bgr8(self.truth), bar, to_bgr8(mask), bar, errors])


class WorstFrames:
    """Keeps the scored frames with the most wrong pixels; pass it to `evaluate` as ``on_frame``.

    Wrong pixels are what the score of a sequence adds up; the F-measure of single frames would favour those in
    which hardly anything moves. Of frames less than `gap` numbers apart only the worst is kept, so that one
    event does not fill the sheet. Memory: `count` frames with their masks.

    Parameters
    ----------
    count : int
        How many frames to keep.
    roi : ndarray, (h, w), bool, optional
        Where frames are scored.
    gap : int, default 1
        Least distance of the numbers of two frames.
    """

    def __init__(self, count: int, roi: np.ndarray | None = None, gap: int = 1) -> None:
        self._count, self._roi, self._gap = count, roi, gap
        self._kept: list[WorstFrame] = []

    def __call__(self, number: int, frame: np.ndarray, mask: np.ndarray, truth: np.ndarray | None) -> None:
        """Take one frame into account; one without a true mask is passed over."""
        if truth is None:
            return
        counts = confusion(mask, truth, self._roi)
        near = next((kept for kept in self._kept if abs(kept.number - number) < self._gap), None)
        full = len(self._kept) == self._count
        rival = near or (min(self._kept, key=lambda kept: kept.wrong) if full else None)
        if _wrong(counts) <= (0 if rival is None else rival.wrong):
            return
        if rival is not None:
            self._kept.remove(rival)
        inside = truth if self._roi is None else np.where(self._roi, truth, np.uint8(OUTSIDE))
        # Copies, since whoever runs the method may use its arrays again.
        self._kept.append(WorstFrame(number, counts, frame.copy(), mask.copy(), inside.copy()))

    def frames(self) -> list[WorstFrame]:
        """Return the frames kept, the worst first; frames without a wrong pixel are never among them."""
        return sorted(self._kept, key=lambda kept: (-kept.wrong, kept.number))


def _wrong(counts: Confusion) -> int:
    return counts.fp + counts.fn
