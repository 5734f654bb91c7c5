"""Cameras, by index or network address."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.video._quiet import quiet
from bgsub.video.sources.base import Frame, FrameSource, logger, number_name, rate_as_fraction

SCHEMES = ("rtsp", "rtsps", "rtmp", "rtp", "http", "https", "udp", "tcp", "srt")

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
# A webcam loses a frame now and then; a connection that is gone fails at once, each time.
_RETRIES = 5


def is_camera(spec: str) -> bool:
    """Whether a text names a camera: its index in digits, or an address with a scheme."""
    return (spec.isascii() and spec.isdigit()) or bool(_ADDRESS.match(spec))


def _without_password(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//", address)


class CameraSource(FrameSource):
    """A local camera, or a camera or video on the network.

    A stream that stops delivering ends the iteration with a warning in the log, so that what was recorded is
    kept; `SourceError` is raised if it never delivered a frame.

    Parameters
    ----------
    camera : int or str
        Index of a local camera, or an address (``rtsp://``, ``http://``, ...). A user name and password in it
        appear in no message.
    open_timeout, read_timeout : float
        Seconds to wait for a network address to answer, and for its next frame. Local cameras follow their
        driver (10 s on Linux).
    on_error : {"stop", "skip"}
        What a frame that cannot be read does while later ones can.
    rate : float or Fraction, optional
        Frames per second, if the camera is wrong about it.

    Raises
    ------
    SourceError
        If the camera is not there or does not answer.
    """

    live = True

    def __init__(
        self,
        camera: int | str,
        *,
        open_timeout: float = 10.0,
        read_timeout: float = 10.0,
        on_error: str = "stop",
        rate: float | Fraction | None = None,
    ) -> None:
        self._device = _device(camera)
        local = isinstance(self._device, int)
        name = f"camera {self._device}" if local else f"stream '{_without_password(str(self._device))}'"
        super().__init__(name, on_error, rate)
        for label, seconds in (("open_timeout", open_timeout), ("read_timeout", read_timeout)):
            if not 0 < seconds < 1e6:
                raise ParameterError(f"{label} must be a positive number of seconds, got {seconds!r}")
        self._open_timeout, self._read_timeout = open_timeout, read_timeout
        self._capture = self._open()
        self._size = (
            int(self._capture.get(cv2.CAP_PROP_FRAME_WIDTH)),
            int(self._capture.get(cv2.CAP_PROP_FRAME_HEIGHT)),
        )
        self._camera_rate = rate_as_fraction(self._capture.get(cv2.CAP_PROP_FPS))
        count = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        self._length = int(count) if not local and 0 < count < 1e12 else None
        # A recorded video behind an address waits until it is read, and no frame of it needs to be dropped.
        self.live = self._length is None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the frames in pixels."""
        return self._size

    @property
    def rate(self) -> Fraction | None:
        """Frames per second that the camera announces (FFmpeg guesses it for MJPEG); None if unknown."""
        return self._given_rate or self._camera_rate

    @property
    def length(self) -> int | None:
        """None, or the number of frames that a recorded video on the network announces."""
        return self._length

    def close(self) -> None:
        """Release the camera."""
        super().close()
        self._capture.release()

    def _open(self) -> Any:
        with quiet():
            if isinstance(self._device, int):
                capture = cv2.VideoCapture(self._device)
            else:
                limits = [
                    *(cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, int(self._open_timeout * 1000)),
                    *(cv2.CAP_PROP_READ_TIMEOUT_MSEC, int(self._read_timeout * 1000)),
                ]
                capture = cv2.VideoCapture(self._device, cv2.CAP_FFMPEG, limits)
        if capture.isOpened():
            return capture
        if isinstance(self._device, int):
            raise SourceError(f"{self.name} cannot be opened: it is not there, in use or not permitted")
        raise SourceError(f"{self.name} does not answer within {self._open_timeout:g} s or sends no video")

    def _frames(self) -> Iterator[Frame]:
        index = 0
        start: float | None = None
        while True:
            image, failures = self._next_image()
            if image is None:
                break
            if failures:
                self._unreadable(f"frame {index + 1} of {self.name} cannot be read", failures)
                index += failures
            now = time.monotonic()
            start = now if start is None else start
            yield Frame(index, number_name(index), now - start if self.live else self._time(index), image)
            index += 1
        if start is None:
            raise SourceError(f"{self.name} sends no frame")
        if self.live:
            logger.warning("%s ended after frame %d", self.name, index)

    def _next_image(self) -> tuple[np.ndarray | None, int]:
        """Return the next image and the failed reads before it; None once the camera sends no more."""
        for failures in range(_RETRIES + 1):
            begin = time.monotonic()
            with quiet():
                good, image = self._capture.read()
            if good:
                return image, failures
            # A read that fails after a wait has timed out: waiting again would only hold up the end.
            if self._closed or time.monotonic() - begin > 1:
                break
        return None, 0


def _device(camera: int | str) -> int | str:
    if isinstance(camera, str) and not (camera.isascii() and camera.isdigit()):
        address = _ADDRESS.match(camera)
        if address is None or address[1].lower() not in SCHEMES:
            allowed = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            given = _without_password(camera)
            raise SourceError(f"a camera is an index or an address with one of {allowed}; got '{given}'")
        return camera
    index = int(camera)
    if index < 0:
        raise ParameterError(f"the index of a camera must be 0 or more, got {index}")
    return index
