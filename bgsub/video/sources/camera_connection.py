"""The connection to a camera: opened without holding up Ctrl-C, read until it is lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.video._quiet import quiet
from bgsub.video.in_background import in_background

logger = logging.getLogger("bgsub")

# A webcam loses a frame now and then; a connection that is gone fails at once, each time.
_RETRIES = 5

# Seconds before the first new attempt; each further one waits twice as long.
FIRST_WAIT = 0.5


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

    def connect(self) -> Any:
        """Return an opened `cv2.VideoCapture` within `open_timeout`; SourceError where the camera does not answer."""
        begin = time.monotonic()
        with quiet():
            if self.local:
                capture = cv2.VideoCapture(self.device)
            else:
                limits = [
                    *(cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, int(self.open_timeout * 1000)),
                    *(cv2.CAP_PROP_READ_TIMEOUT_MSEC, int(self.read_timeout * 1000)),
                ]
                if hasattr(cv2, "CAP_PROP_N_THREADS"):
                    limits += [cv2.CAP_PROP_N_THREADS, self.threads]
                capture = cv2.VideoCapture(self.device, cv2.CAP_FFMPEG, limits)
        if capture.isOpened():
            return capture
        if self.local:
            raise SourceError(f"{self.name} cannot be opened: it is not there, in use or not permitted")
        if time.monotonic() - begin < 0.9 * self.open_timeout:
            raise SourceError(f"{self.name} cannot be opened: nobody answers there, no access, or no video")
        raise SourceError(f"{self.name} does not answer within {self.open_timeout:g} s or sends no video")

    def connect_patiently(self, patience: float, max_wait: float) -> Any:
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

    def connect_interruptibly(self) -> Any:
        """Return what `connect` does, so that Ctrl-C works while an address on the network is waited for."""
        # macOS asks for the permission to use a local camera in the main thread only.
        return self.connect() if self.local else in_background(self.connect, lambda capture: capture.release())


def read_image(capture: Any, stopping: Callable[[], bool]) -> tuple[np.ndarray | None, int]:
    """Return the next image, (h, w, 3) uint8, and the failed reads before it; None once no more comes."""
    for failures in range(_RETRIES + 1):
        begin = time.monotonic()
        with quiet():
            good, image = capture.read()
        if good:
            return image, failures
        # A read that fails after a wait has timed out: waiting again would only hold up the end.
        if stopping() or time.monotonic() - begin > 1:
            break
    return None, 0
