"""Video files as outputs."""

from __future__ import annotations

import os
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.separation import Separation
from bgsub.storage.durable_io import as_sink_error, playable_name, rename, unlink
from bgsub.video._quiet import quiet
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources.base import Frame
from bgsub.video.views import get_view, to_bgr8

DEFAULT_RATE = Fraction(25)

_CODECS = {".avi": "MJPG", ".mkv": "MJPG", ".mp4": "mp4v", ".m4v": "mp4v", ".mov": "mp4v"}
_LOSSLESS = "FFV1"
_LOSSLESS_SUFFIXES = (".avi", ".mkv")

# OpenCV's writer reports no error of the disk, so that the room on it is watched: every so many frames.
_ROOM_INTERVAL, _ROOM_BYTES = 32, 1 << 20


class VideoSink(Sink):
    """Writes one view into a video file.

    Masks go into ``.mkv`` and ``.avi`` without loss (FFV1), so that 0, 127 and 255 come back; everything else
    is MJPEG there and MPEG-4 in ``.mp4``, ``.m4v`` and ``.mov``. The codecs want an even width and height:
    the last column or row of an odd frame is repeated once. There is one frame of video for each frame of
    the source, also where its rate varies.

    The file grows as ``NAME.partial.EXT`` beside its final name, and is renamed when it is complete.

    Parameters
    ----------
    path : str or path
        The file; its extension chooses the container. Missing folders are created.
    view : str
        One of `VIEWS`.
    fps : float or Fraction, optional
        Frames per second; 25 if unknown.

    Raises
    ------
    ParameterError
        If the extension or the view is none of the allowed.
    SinkError
        If the file cannot be written, or turns out incomplete, as on a full disk.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.video import VideoSink
    >>> summary = bgsub.process_video("video.mp4", VideoSink("overlay.mp4", "overlay", fps=25))
    >>> bgsub.open_source("overlay.mp4").size
    (64, 48)
    """

    def __init__(self, path: str | os.PathLike[str], view: str = "mask", fps: float | Fraction | None = None) -> None:
        self.path = Path(path)
        self.partial_path = playable_name(self.path)
        suffix = self.path.suffix.lower()
        if suffix not in _CODECS:
            raise ParameterError(f"a video file must end in {', '.join(_CODECS)}, got '{self.path}'")
        lossless = view == "mask" and suffix in _LOSSLESS_SUFFIXES
        self._codec = _LOSSLESS if lossless else _CODECS[suffix]
        self._view = get_view(view)
        self._fps = float(fps or DEFAULT_RATE)
        self._writer: Any = None
        self._shape: tuple[int, ...] = ()
        self._count = 0
        prepare_folder(self.path.parent)

    def write(self, frame: Frame, separation: Separation) -> None:
        image = self._view(separation)
        if self._codec != _LOSSLESS:
            image = to_bgr8(image)
        if self._writer is None:
            self._open(image)
        if image.shape != self._shape:
            raise SinkError(f"'{self.path}' holds images of shape {self._shape}, frame {frame.name} has {image.shape}")
        if self._count % _ROOM_INTERVAL == 0:
            self._check_room()
        with quiet():
            self._writer.write(padded_to_even(image))
        self._count += 1

    def close(self) -> None:
        if self._writer is None:
            return
        self.abort()
        if not self._is_complete():
            raise SinkError(f"'{self.path}' is incomplete (is the disk full?); see '{self.partial_path}'")
        with as_sink_error(self.path):
            rename(self.partial_path, self.path)

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.release()
            self._writer = None

    def checkpoint(self) -> dict[str, Any]:
        """Raise `SinkError`: OpenCV cannot go on with a file."""
        raise SinkError(f"'{self.path}' can be continued only with the package av: pip install 'bgsub[av]'")

    def _open(self, image: np.ndarray) -> None:
        height, width = padded_to_even(image).shape[:2]
        unlink(self.partial_path)  # a link of somebody else would lead to another file
        with quiet():
            # An absolute path, as FFmpeg takes "take1:2.avi" for a network protocol.
            writer = cv2.VideoWriter(
                str(self.partial_path.absolute()),
                cv2.VideoWriter.fourcc(*self._codec),
                self._fps,
                (width, height),
                image.ndim == 3,
            )
        if not writer.isOpened():
            raise SinkError(
                f"'{self.path}' cannot be written: OpenCV opens no {self._codec} video of {width}x{height} "
                f"at {self._fps:g} frames per second there"
            )
        self._writer, self._shape = writer, image.shape

    def _check_room(self) -> None:
        with as_sink_error(self.path):
            room = shutil.disk_usage(self.path.parent).free
        if room < _ROOM_BYTES:
            raise SinkError(f"'{self.path}' cannot be written: no space left on the disk")

    def _is_complete(self) -> bool:
        """Whether the end of the finished file can be read: a full disk leaves a header that lies."""
        # Containers round the rate: the very last frame of a long file may seem to lie behind its end.
        last = self._count - 1 - self._count // 1000
        with quiet():
            capture = cv2.VideoCapture(str(self.partial_path.absolute()))
            capture.set(cv2.CAP_PROP_POS_FRAMES, last)
            good = capture.read()[0]
            reached = capture.get(cv2.CAP_PROP_POS_MSEC) / 1000 * self._fps
            capture.release()
        return bool(good and reached >= 0.98 * last - 2)


def padded_to_even(image: np.ndarray) -> np.ndarray:
    """Repeat the last row and column where the height and width are odd."""
    bottom, right = image.shape[0] % 2, image.shape[1] % 2
    if not bottom and not right:
        return image
    return np.pad(image, ((0, bottom), (0, right), (0, 0))[: image.ndim], mode="edge")
