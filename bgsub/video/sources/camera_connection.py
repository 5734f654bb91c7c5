"""The connection to a camera: opened without holding up Ctrl-C, read until it is lost."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.video._quiet import quiet
from bgsub.video.containment import contained
from bgsub.video.in_background import in_background
from bgsub.video.sources.http_stream import HttpStream

logger = logging.getLogger("bgsub")

# A webcam loses a frame now and then; a connection that is gone fails at once, each time.
_RETRIES = 5

# Seconds before the first new attempt; each further one waits twice as long.
FIRST_WAIT = 0.5


# The largest levels of H.264 and H.265 have 36 million.
_MOST_PIXELS = 1 << 26

# What FFmpeg takes for a list of files and addresses to be opened, only where its name says so.
_PLAYLISTS = (".m3u8", ".mpd")


@dataclass(frozen=True)
class Capture:
    """An opened camera: OpenCV's, and the stream below it where that is our own."""

    opencv: Any
    stream: HttpStream | None = None
    read_timeout: float = math.inf

    def is_opened(self) -> bool:
        """Whether there is video."""
        return bool(self.opencv.isOpened())

    @property
    def size(self) -> tuple[int, int]:
        """Width and height that the camera announces."""
        return int(self.get(cv2.CAP_PROP_FRAME_WIDTH)), int(self.get(cv2.CAP_PROP_FRAME_HEIGHT))

    def get(self, property_: int) -> float:
        """Return what OpenCV knows of the camera, by its CAP_PROP."""
        return float(self.opencv.get(property_))

    @property
    def excess(self) -> str:
        """What the camera sent too much of, so that it was cut off; empty if nothing."""
        return self.stream.excess if self.stream is not None else ""

    def read(self) -> tuple[bool, np.ndarray]:
        """Return whether there was a frame in time, and the frame."""
        if self.stream is not None:
            self.stream.renew(self.read_timeout)
        with quiet():
            good, image = self.opencv.read()
        return good, image

    def release(self) -> None:
        """End the connection; may be called more than once."""
        self.opencv.release()
        if self.stream is not None:
            self.stream.close()


@dataclass(frozen=True)
class Camera:
    """What is needed to open a camera, again and again."""

    device: int | str  # index or network address
    name: str  # what messages call it; without a password
    open_timeout: float  # seconds that a network address may take to answer, and to send its next frame
    read_timeout: float
    threads: int = 1  # threads that decode a network stream

    @property
    def local(self) -> bool:
        """Whether the camera belongs to this computer."""
        return isinstance(self.device, int)

    def connect(self) -> Capture:
        """Return the camera, opened within `open_timeout`; SourceError where it does not answer."""
        begin = time.monotonic()
        try:
            capture = self._open()
        except (OSError, ValueError):  # the latter for an address that is none
            capture = None
        if capture is not None and capture.is_opened():
            width, height = capture.size
            if width * height <= _MOST_PIXELS:
                return capture
            capture.release()
            raise SourceError(f"{self.name} sends frames of {width}x{height}: there may be {_MOST_PIXELS} pixels")
        if self.local:
            raise SourceError(f"{self.name} cannot be opened: it is not there, in use or not permitted")
        if time.monotonic() - begin < 0.9 * self.open_timeout:
            raise SourceError(f"{self.name} cannot be opened: nobody answers there, no access, or no video")
        raise SourceError(f"{self.name} does not answer within {self.open_timeout:g} s or sends no video")

    def _open(self) -> Capture:
        if isinstance(self.device, int):
            with quiet():
                return Capture(cv2.VideoCapture(self.device))
        limits = [
            *(cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, int(self.open_timeout * 1000)),
            *(cv2.CAP_PROP_READ_TIMEOUT_MSEC, int(self.read_timeout * 1000)),
        ]
        if hasattr(cv2, "CAP_PROP_N_THREADS"):
            limits += [cv2.CAP_PROP_N_THREADS, self.threads]
        scheme, _, path = self.device.partition("?")[0].partition("://")
        if path.lower().endswith(_PLAYLISTS):  # whoever names one wants to be led elsewhere
            with quiet():
                return Capture(cv2.VideoCapture(self.device, cv2.CAP_FFMPEG, limits))
        own = scheme.lower() in ("http", "https") and hasattr(cv2, "IStreamReader")  # from OpenCV 4.11 on
        stream = HttpStream(self.device, self.open_timeout) if own else None
        source: Any = self.device if stream is None else stream
        with quiet(), contained():
            return Capture(cv2.VideoCapture(source, cv2.CAP_FFMPEG, limits), stream, self.read_timeout)

    def connect_patiently(self, patience: float, max_wait: float) -> Capture:
        """Return what `connect` does, tried again with growing pauses for so many seconds; Ctrl-C ends it."""
        begin, wait = time.monotonic(), FIRST_WAIT
        while True:
            try:
                return self.connect_interruptibly()
            except SourceError as error:
                left = begin + patience - time.monotonic()
                if left <= 0:
                    raise
                wait = min(wait, max_wait, left)
                logger.warning("%s; trying again in %.2g s", error, wait)
            time.sleep(wait)
            wait *= 2

    def connect_interruptibly(self) -> Capture:
        """Return what `connect` does, so that Ctrl-C works while an address on the network is waited for."""
        # macOS asks for the permission to use a local camera in the main thread only.
        return self.connect() if self.local else in_background(self.connect, Capture.release)


def read_image(capture: Capture, stopping: Callable[[], bool]) -> tuple[np.ndarray | None, int]:
    """Return the next image, (h, w, 3) uint8, and the failed reads before it; None once no more comes."""
    for failures in range(_RETRIES + 1):
        begin = time.monotonic()
        good, image = capture.read()
        if good:
            return image, failures
        # A read that fails after a wait has timed out: waiting again would only hold up the end.
        if stopping() or time.monotonic() - begin > 1:
            break
    return None, 0
