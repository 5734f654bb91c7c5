"""The worst frames of a run, as a web page in one file."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bgsub.errors import ParameterError
from bgsub.evaluation.metrics import MOVING, OUTSIDE, SHADOW, STATIC, Confusion, confusion
from bgsub.storage.durable_io import write_whole
from bgsub.video.sinks.base import path_with_ending
from bgsub.video.views import to_bgr8
from bgsub.video.web_page import jpeg_of, render, shrunk

_PARTS = ("input", "truth", "mask", "errors")  # of a strip, from left to right
_BAR = 4  # pixels between the parts of a strip
_WIDTH = 1292  # maximum pixels of a strip: four pictures of 320 and three bars
_QUALITY = 90
_FALSE_ALARM, _MISS, _HIT = (40, 40, 230), (240, 110, 30), (70, 190, 70)


def error_image(frame: np.ndarray, mask: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Colour a frame by the errors of a mask: false positives red, false negatives blue, true positives green.

    Parameters
    ----------
    frame : ndarray, (h, w) or (h, w, 3), uint8
        The frame, grey or BGR.
    mask : ndarray, (h, w), uint8
        The result, positive above 127.
    truth : ndarray, (h, w), uint8
        The true mask in the codes of changedetection.net; pixels that are not scored keep their colour.

    Returns
    -------
    ndarray, (h, w, 3), uint8
        BGR: the frame at half brightness with coloured errors and hits.

    Raises
    ------
    ParameterError
        If the shapes differ or the frame is not uint8.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub.evaluation import error_image
    >>> frame, mask = np.zeros((48, 64), np.uint8), np.full((48, 64), 255, np.uint8)
    >>> blue, green, red = error_image(frame, mask, truth=np.zeros((48, 64), np.uint8))[0, 0]
    >>> bool(red > max(blue, green))  # a false alarm
    True
    """
    if frame.dtype != np.uint8 or frame.ndim not in (2, 3):
        raise ParameterError(f"frame must be (h, w) or (h, w, 3) of uint8, got {frame.shape} of {frame.dtype}")
    if not frame.shape[:2] == mask.shape == truth.shape:
        raise ParameterError(
            f"frame, mask and truth must have one size, got {frame.shape[:2]}, {mask.shape}, {truth.shape}"
        )
    grey = frame[..., np.newaxis] if frame.ndim == 2 else frame
    image = np.broadcast_to(grey // 2, (*mask.shape, 3)).copy()
    found = mask > 127
    moving, negative = truth == MOVING, (truth == STATIC) | (truth == SHADOW)
    places = found & negative, ~found & moving, found & moving
    for where, colour in zip(places, (_FALSE_ALARM, _MISS, _HIT), strict=True):
        image[where] = image[where] // 2 + np.array(colour, np.uint8) // 4 * 3
    return image


@dataclass(frozen=True, eq=False)
class WorstFrame:
    """One frame of a run."""

    number: int
    confusion: Confusion
    frame: np.ndarray  # (h, w) or (h, w, 3), uint8 or uint16: the input
    mask: np.ndarray  # (h, w), uint8 or bool: the result
    truth: np.ndarray  # (h, w), uint8: the true mask, 85 outside the region of interest

    @property
    def wrong(self) -> int:
        return self.confusion.fp + self.confusion.fn

    @property
    def strip(self) -> np.ndarray:
        """Input, truth, mask and errors (`error_image`) side by side with bars between, (h, 4 w + 12, 3), BGR."""
        image = to_bgr8(self.frame)
        mask = self.mask.astype(np.uint8) * 255 if self.mask.dtype == np.bool_ else self.mask
        bar = np.full((len(image), _BAR, 3), 128, np.uint8)  # two dark masks would run into one another
        errors = error_image(image, mask, self.truth)
        return np.hstack([image, bar, to_bgr8(self.truth), bar, to_bgr8(mask), bar, errors])


class WorstFrames:
    """Keeps the `count` frames with the most wrong pixels, `gap` numbers apart; an ``on_frame`` of `evaluate`."""

    def __init__(self, count: int, roi: np.ndarray | None = None, gap: int = 1) -> None:
        self._count, self._roi, self._gap = count, roi, gap
        self._kept: list[WorstFrame] = []

    def __call__(self, number: int, frame: np.ndarray, mask: np.ndarray, truth: np.ndarray | None) -> None:
        """Rate one frame; ignore a frame without a true mask."""
        if truth is None:
            return
        counts = confusion(mask, truth, self._roi)
        near = next((kept for kept in self._kept if abs(kept.number - number) < self._gap), None)
        full = len(self._kept) == self._count
        rival = near or (min(self._kept, key=lambda kept: kept.wrong) if full else None)
        if counts.fp + counts.fn <= (0 if rival is None else rival.wrong):
            return
        if rival is not None:
            self._kept.remove(rival)
        inside = truth if self._roi is None else np.where(self._roi, truth, np.uint8(OUTSIDE))
        # The method may reuse its arrays.
        self._kept.append(WorstFrame(number, counts, frame.copy(), mask.copy(), inside.copy()))

    def frames(self) -> list[WorstFrame]:
        """Return the frames, the worst first, without frames that have no wrong pixel."""
        return sorted(self._kept, key=lambda kept: (-kept.wrong, kept.number))


class Sheet:
    """Collect the worst frames of several runs and write them to a web page in one file.

    The frames are kept as JPEG, reduced to a width of 320 pixels.

    Parameters
    ----------
    path : path
        The file, ``.html``.

    Raises
    ------
    ParameterError
        If the file name does not end in ``.html``.

    Examples
    --------
    >>> from functools import partial
    >>> from bgsub.evaluation import Sequence, Sheet, compare, make_method
    >>> sheet = Sheet("worst.html")
    >>> methods = {"mog2": partial(make_method, "mog2")}
    >>> scores = list(compare([Sequence("sequence")], methods, sheet=sheet, worst=2))
    >>> sheet.write()
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path_with_ending(path, "a sheet", (".html",))
        self._sections: list[tuple[str, list[tuple[int, Confusion, bytes]]]] = []  # titles; numbers, scores, JPEGs

    def add(self, title: str, frames: list[WorstFrame]) -> None:
        """Add a section with the worst frames of one run."""
        strips = [(one.number, one.confusion, jpeg_of(shrunk(one.strip, _WIDTH), _QUALITY)) for one in frames]
        self._sections.append((title, strips))

    def write(self) -> None:
        """Write the file, whole or not at all; SinkError if that fails."""
        page = render(
            "worst_frames.html",
            title="Worst frames",
            parts=_PARTS,
            legend="False positives red, false negatives blue, true positives green",
            sections=self._sections,
        )
        write_whole(self.path, page)
