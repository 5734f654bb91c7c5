"""A sheet of the worst frames, as a web page in one file or as one picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.evaluation.worst import PARTS, WorstFrame
from bgsub.storage.atomic import write_whole
from bgsub.video.web_page import jpeg_of, page, picture, shrunk

SUFFIXES = (".html", ".png")
PICTURE_LIMIT = 200
"""Most frames in one PNG; its height, and the memory to make it, grow with them."""

_WIDTH = 1292  # most pixels that a strip is wide: four pictures of 320 and three bars
_QUALITY = 90
_LEGEND = "errors: false alarms red, misses blue, hits green"


@dataclass(frozen=True)
class Strip:
    """One frame on the sheet: a line of text, and a picture as a JPEG file in memory."""

    caption: str
    jpeg: bytes


class Sheet:
    """Collects the worst frames of run after run and writes them at the end.

    Only compressed pictures are kept, those of frames more than 320 pixels wide made smaller.

    Parameters
    ----------
    path : path
        The file, ``.html`` or ``.png``; a web page holds its pictures in itself.

    Raises
    ------
    ParameterError
        If the suffix is another one.

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
        self.path = Path(path)
        if self.path.suffix.lower() not in SUFFIXES:
            raise ParameterError(f"a sheet is a file {' or '.join(SUFFIXES)}, got '{self.path}'")
        self._sections: list[tuple[str, list[Strip]]] = []

    def add(self, title: str, frames: list[WorstFrame]) -> None:
        """Add a section, by default one sequence and method, with its worst frames, as `compare` finds them."""
        strips = [Strip(_caption(frame), jpeg_of(shrunk(frame.strip, _WIDTH), _QUALITY)) for frame in frames]
        self._sections.append((title, strips))

    def check(self, frames: int) -> None:
        """Raise ParameterError where a PNG is wanted and `frames` are more than 200."""
        if self.path.suffix.lower() == ".png" and frames > PICTURE_LIMIT:
            raise ParameterError(
                f"a PNG sheet holds at most {PICTURE_LIMIT} frames, wanted are {frames}; use .html or fewer frames"
            )

    def write(self) -> None:
        """Write the file, whole or not at all.

        Raises
        ------
        ParameterError
            If there are more than 200 frames for a PNG.
        SinkError
            If it cannot be written.
        """
        if self.path.suffix.lower() == ".html":
            write_whole(self.path, self._page())
            return
        self.check(sum(len(strips) for _, strips in self._sections))
        write_whole(self.path, self._picture())

    def _page(self) -> bytes:
        body = [f"<p>From left to right: {', '.join(PARTS)}. {_LEGEND.capitalize()}.</p>\n"]
        for title, strips in self._sections:
            body.append(f"<h2>{escape(title)}</h2>\n" + ("" if strips else "<p>No wrong pixel.</p>\n"))
            body += [_figure(strip) for strip in strips]
        return page("Worst frames", "".join(body))

    def _picture(self) -> bytes:
        decoded = [(title, [(s.caption, _decoded(s.jpeg)) for s in strips]) for title, strips in self._sections]
        width = max((image.shape[1] for _, strips in decoded for _, image in strips), default=_WIDTH)
        rows = [_line(f"{', '.join(PARTS)}; {_LEGEND}", width, 0.45)]
        for title, strips in decoded:
            rows.append(_line(title if strips else f"{title}: no wrong pixel", width, 0.6))
            for caption, image in strips:
                right = width - image.shape[1]
                rows += [_line(caption, width, 0.45), np.pad(image, ((0, 0), (0, right), (0, 0)))]
        return cv2.imencode(".png", np.vstack(rows))[1].tobytes()


def _caption(frame: WorstFrame) -> str:
    counts = frame.confusion
    f_measure = "undefined" if math.isnan(counts.f_measure) else f"{counts.f_measure:.3f}"
    return f"frame {frame.number}: F {f_measure}, {counts.fp} false alarms, {counts.fn} misses, {counts.tp} hits"


def _decoded(jpeg: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None  # it was encoded here
    return image


def _figure(strip: Strip) -> str:
    image = picture(strip.jpeg, strip.caption)
    return f"<figure><figcaption>{escape(strip.caption)}</figcaption>{image}</figure>\n"


def _line(text: str, width: int, scale: float) -> np.ndarray:
    """Return a line of text, white on black; it shrinks until it fits."""
    plain = text.encode("ascii", "replace").decode("ascii")  # OpenCV's fonts know no other letters
    font = cv2.FONT_HERSHEY_SIMPLEX
    (wide, _), _ = cv2.getTextSize(plain, font, scale, 1)
    scale *= min(1.0, (width - 8) / max(wide, 1))
    (_, high), below = cv2.getTextSize(plain, font, scale, 1)
    image = np.zeros((high + below + 8, width, 3), np.uint8)
    cv2.putText(image, plain, (4, high + 4), font, scale, (255,) * 3, 1, cv2.LINE_AA)
    return image
