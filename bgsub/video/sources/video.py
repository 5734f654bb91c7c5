"""Video files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.video._quiet import quiet
from bgsub.video.sources.base import Frame, FrameSource, logger, number_name, rate_as_fraction

# Damage of some hundred kilobytes costs a dozen reads in a row; after the end of a file a read costs nothing.
_RETRIES = 100
# The announced number of frames is the duration times the rate, rounded, or what an editor left there.
_SLACK_FRAMES, _SLACK_SHARE = 2, 0.02
# FFmpeg films text files (.txt, .nfo): 640 x 400 pixels of letters are never what was meant.
_TEXT_ART = cv2.VideoWriter.fourcc(*"ansi")


class VideoFileSource(FrameSource):
    """The frames of a video file, as (h, w, 3) uint8.

    A frame that cannot be decoded while later ones can is unreadable (see `on_error`); a file that ends well
    before its announced end, by the clock and by the count, is reported in the log as cut short.

    Parameters
    ----------
    path : str or path
        The file.
    on_error : {"stop", "skip"}
        What a frame that cannot be decoded does.
    rate : float or Fraction, optional
        Frames per second, if the file is wrong about it; times then follow it too.

    Raises
    ------
    SourceError
        If the file is missing, empty or no video.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, on_error: str = "stop", rate: float | Fraction | None = None
    ) -> None:
        super().__init__(f"video '{os.fspath(path)}'", on_error, rate)
        self.path: Path = Path(path)
        self._capture = _open(self.name, self.path)
        self._fresh = True
        self._size = (
            int(self._capture.get(cv2.CAP_PROP_FRAME_WIDTH)),
            int(self._capture.get(cv2.CAP_PROP_FRAME_HEIGHT)),
        )
        self._file_rate = rate_as_fraction(self._capture.get(cv2.CAP_PROP_FPS))
        count = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        self._length = int(count) if 0 < count < 1e12 else None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the frames in pixels."""
        return self._size

    @property
    def rate(self) -> Fraction | None:
        """Frames per second; None if unknown."""
        return self._given_rate or self._file_rate

    @property
    def length(self) -> int | None:
        """Number of frames that the header announces: an estimate, far too high at a variable rate."""
        return self._length

    def close(self) -> None:
        """Release the file."""
        super().close()
        self._capture.release()

    def _frames(self) -> Iterator[Frame]:
        if not self._fresh:
            self._capture.release()
            self._capture = _open(self.name, self.path)
        self._fresh = False
        for index, seconds, image in self._decoded():
            given = self._given_rate is not None or (index > 0 and seconds <= 0)
            yield Frame(index, number_name(index), self._time(index) if given else seconds, image)

    def _decoded(self) -> Iterator[tuple[int, float, np.ndarray]]:
        """Yield index, time stamp in seconds and image of each frame that can be decoded."""
        index, seconds, failures, decoded = 0, 0.0, 0, 0
        while failures <= _RETRIES:
            with quiet():
                good, image = self._capture.read()
            if good:
                if failures:
                    self._unreadable(f"frame {index + 1} of {self.name} cannot be decoded", failures)
                    index, failures = index + failures, 0
                seconds = self._capture.get(cv2.CAP_PROP_POS_MSEC) / 1000
                yield index, seconds, image
                index, decoded = index + 1, decoded + 1
            elif decoded and self._at_end(index, seconds):
                return
            else:
                failures += 1
        if not decoded:
            raise SourceError(f"no frame of {self.name} can be decoded")
        self._warn_cut_short(index, seconds)

    def _warn_cut_short(self, count: int, seconds: float) -> None:
        announced = (self._length or 0) / float(self._file_rate or 1)
        logger.warning(
            "%s is cut short: it ends at %.1f s of %.1f s, after frame %d",
            self.name,
            seconds,
            announced,
            count,
        )

    def _at_end(self, count: int, seconds: float) -> bool:
        """Whether `count` frames, the last at `seconds`, are about what the file announces."""
        if self._length is None or self._file_rate is None:
            return True
        # At a variable rate the count falls short by far, so that the clock has a say as well.
        reached = max(count, seconds * float(self._file_rate) + 1)
        return self._length - reached <= max(_SLACK_FRAMES, _SLACK_SHARE * self._length)


def _open(name: str, path: Path) -> Any:
    if not path.is_file():
        raise SourceError(f"no such file: '{path}'")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise SourceError(f"{name} cannot be read: {error.strerror or error}") from None
    if empty:
        raise SourceError(f"{name} is empty")
    with quiet():
        # FFmpeg takes "take1:2.avi" for a network protocol, but never a path that starts with a slash.
        capture = cv2.VideoCapture(str(path.absolute()))
    if not capture.isOpened() or int(capture.get(cv2.CAP_PROP_FOURCC)) == _TEXT_ART:
        raise SourceError(f"'{path}' is not a video that OpenCV can read, or it is damaged")
    return capture
