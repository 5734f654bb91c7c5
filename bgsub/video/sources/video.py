"""Video files by OpenCV."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.video._quiet import quiet
from bgsub.video.containment import contained
from bgsub.video.sources.base import Frame, number_name, rate_as_fraction
from bgsub.video.sources.file import FileSource
from bgsub.video.sources.part import Part

# Damage of some hundred kilobytes costs a dozen reads in a row; after the end of a file a read costs nothing.
_RETRIES = 100


class VideoFileSource(FileSource):
    """The frames of a video file, as (h, w, 3) uint8, decoded by OpenCV.

    A frame that cannot be decoded while later ones can is unreadable (see `on_error`), and so is the rest of a file
    that ends well before its announced end, by the clock and by the count, or lacks bytes; where the end is an
    estimate, it is logged only. At a variable rate the announced `length` is far too high.

    Parameters
    ----------
    path : str or path
        The file.
    on_error : {"stop", "skip"}
        What a frame that cannot be decoded does.
    fps : float or Fraction, optional
        Frames per second, if the file is wrong about it; times then follow it too.

    Raises
    ------
    SourceError
        If the file is missing, empty or no video.

    Examples
    --------
    >>> from bgsub.video import VideoFileSource
    >>> with VideoFileSource("video.mp4") as source:
    ...     print(source.size, float(source.fps), sum(1 for frame in source))
    (64, 48) 25.0 60
    """

    def __init__(
        self, path: str | os.PathLike[str], *, on_error: str = "stop", fps: float | Fraction | None = None
    ) -> None:
        super().__init__(path, on_error, fps)
        self._capture = _open(self.path)
        self._fresh = True
        self._size = (
            int(self._capture.get(cv2.CAP_PROP_FRAME_WIDTH)),
            int(self._capture.get(cv2.CAP_PROP_FRAME_HEIGHT)),
        )
        self._file_fps = rate_as_fraction(self._capture.get(cv2.CAP_PROP_FPS))
        count = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        self._length = int(count) if 0 < count < 1e12 else None

    def close(self) -> None:
        super().close()
        self._capture.release()

    def _frames(self) -> Iterator[Frame]:
        return self._part(Part())

    def _part(self, part: Part) -> Iterator[Frame]:
        if not self._fresh:
            self._capture.release()
            self._capture = _open(self.path)
        self._fresh = False
        for index, seconds in self._decoded():
            given = self._given_fps is not None or (index > 0 and seconds <= 0)
            time = self._time(index) if given else seconds
            wanted = part.wants(index, time)
            if wanted is None:
                return
            if wanted:
                with quiet():
                    image = self._capture.retrieve()[1]
                yield Frame(index, number_name(index), time, image)

    def _decoded(self) -> Iterator[tuple[int, float]]:
        """Yield index and time stamp in seconds of each frame that can be decoded, while it can be retrieved."""
        index, seconds, failures, decoded = 0, 0.0, 0, 0
        while failures <= _RETRIES:
            with quiet():
                good = self._capture.grab()
            if good:
                if failures:
                    self._unreadable(f"frame {index} of {self.name} cannot be decoded", failures)
                    index, failures = index + failures, 0
                seconds = self._capture.get(cv2.CAP_PROP_POS_MSEC) / 1000
                yield index, seconds
                index, decoded = index + 1, decoded + 1
            elif decoded and self._at_end(index, seconds):
                break
            else:
                failures += 1
        if not decoded:
            raise SourceError(f"no frame of {self.name} can be decoded")
        self._check_end(index, seconds)


def _open(path: Path) -> Any:
    with quiet(), contained():
        # FFmpeg takes "take1:2.avi" for a network protocol, but never a path that starts with a slash.
        capture = cv2.VideoCapture(str(path.absolute()))
    if not capture.isOpened():
        raise SourceError(f"'{path}' is not a video that can be read, or it is damaged")
    return capture
