"""Raw frames from a pipe or a file, such as FFmpeg writes with ``-f rawvideo``."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import CutShortError, SourceError
from bgsub.video.raw_format import PIXELS, RawFormat
from bgsub.video.sources.base import Frame
from bgsub.video.sources.part import Part
from bgsub.video.sources.pipe import Pipe, PipeSource


class RawSource(PipeSource):
    """The frames of a stream without a header: (h, w) or (h, w, 3) uint8, (h, w) uint16 for ``gray16le``.

    Parameters
    ----------
    pipe : Pipe
        Where the bytes come from; closed together with the source.
    format : RawFormat
        Size, pixel format and rate; nothing in the stream tells whether they are right.
    fps : float or Fraction, optional
        Frames per second, in the place of that of the format.

    Raises
    ------
    SourceError
        While iterating, if nothing comes at all.
    CutShortError
        After the last whole frame, if there are bytes left.
    """

    def __init__(self, pipe: Pipe, format: RawFormat, *, fps: float | Fraction | None = None) -> None:
        super().__init__(pipe, "stop", fps if fps is not None else format.fps)
        self._format = format

    @property
    def size(self) -> tuple[int, int]:
        return self._format.width, self._format.height

    def _frames(self) -> Iterator[Frame]:
        return self._part(Part())

    def _part(self, part: Part) -> Iterator[Frame]:
        for index, image in enumerate(self._images()):
            time = self._time(index)
            wanted = part.wants(index, time)
            if wanted is None:
                return
            if wanted:
                yield self._frame(index, time, self._in_bgr(image))

    def _images(self) -> Iterator[np.ndarray]:
        channels, depth = PIXELS[self._format.pixels]
        shape = (self._format.height, self._format.width, *([channels] if channels > 1 else []))
        index = 0
        while True:
            image = np.empty(shape, "<u2" if depth == 2 else np.uint8)
            filled = self._pipe.fill(image.data.cast("B"))
            if filled < image.nbytes:
                self._check_end(index, filled)
                return
            yield image
            index += 1

    def _in_bgr(self, image: np.ndarray) -> np.ndarray:
        return cv2.cvtColor(image, cv2.COLOR_RGB2BGR) if self._format.pixels == "rgb24" else image

    def _check_end(self, index: int, rest: int) -> None:
        if self._pipe.cancelled or (index and not rest):
            return
        if not rest:
            raise SourceError(f"{self.name} is empty")
        raise CutShortError(
            f"{self.name} ends within frame {index}, after {rest} of {self._format.frame_bytes} bytes: "
            f"it broke off, or its frames are not {self._format}"
        )
