"""The thread that drains a camera and keeps its newest frame."""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass

import numpy as np

from bgsub.errors import SourceError
from bgsub.video.channel import Channel
from bgsub.video.sources.camera_connection import FIRST_WAIT, Camera, Capture, read_image

logger = logging.getLogger("bgsub")

# How long `join` waits for a read that is under way: longer than the pause between two frames.
_STOP_PATIENCE = 0.5


@dataclass(frozen=True, eq=False)
class Picture:
    """One frame of a camera."""

    index: int  # number of the frame, from 0; failed reads count
    received: float  # time of arrival on the clock `time.monotonic`, in seconds
    image: np.ndarray  # (h, w, 3), uint8: blue first
    failures: int  # failed reads so far


class Grabber:
    """Reads a camera in a thread of its own, as fast as it sends, and connects again when it is lost.

    Nothing piles up in the buffers of the driver, of FFmpeg or of the network, however slow the receiver is. `capture`
    is the first connection, released at the end. A lost camera is tried again for `patience` seconds, infinity for
    ever, with at most `max_wait` between two attempts.

    Attributes
    ----------
    pictures : Channel of Picture
        Holds the newest one; ends with the camera.
    reconnections : int
        How often the camera was lost and came back.
    count : int
        Frames so far, unreadable ones included.
    """

    def __init__(self, camera: Camera, capture: Capture, patience: float, max_wait: float) -> None:
        self._camera, self._capture = camera, capture
        self._patience, self._max_wait = patience, max_wait
        self.pictures: Channel[Picture] = Channel(1, drop_oldest=True)
        self.reconnections = 0
        self.count = 0
        self._failures = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bgsub-grab", daemon=True)
        self._last = time.monotonic()

    def start(self) -> None:
        """Begin to read."""
        self._last = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End the reading, from any thread; a receiver that waits is woken."""
        self._stopping.set()
        self.pictures.cancel()

    def join(self) -> None:
        """Wait for the end of the thread after `stop`, for half a second at most.

        OpenCV cannot be interrupted while it waits for the network: where the camera is silent, the thread ends
        by itself within the timeouts, and releases the camera then.
        """
        self._thread.join(_STOP_PATIENCE)

    def _run(self) -> None:
        try:
            while True:
                reason = self._read_until_lost()
                self._capture.release()
                if self._stopping.is_set() or not self._connect_again(reason):
                    break
        except BaseException as error:
            self.pictures.fail(error)
        else:
            self.pictures.close()
        finally:
            self._capture.release()

    def _read_until_lost(self) -> str:
        """Pass on the pictures of one connection; return why no more come."""
        while not self._stopping.is_set() and self._read_one(self._capture):
            pass
        silence = time.monotonic() - self._last
        if self._capture.excess:
            return f"it sends {self._capture.excess}"
        if self._camera.local or silence < 0.9 * self._camera.read_timeout:
            return "it sends no more frames"
        return f"no frame for {silence:.2g} s" if silence < 9.5 else f"no frame for {silence:.0f} s"

    def _read_one(self, capture: Capture) -> bool:
        """Pass on one picture; False if none came."""
        image, failures = read_image(capture, self._stopping.is_set)
        if image is None:
            return False
        self._last = time.monotonic()
        self._failures += failures
        self.count += failures + 1
        self.pictures.put(Picture(self.count - 1, self._last, image, self._failures))
        return True

    def _connect_again(self, reason: str) -> bool:
        """Try to reach the lost camera until it sends a frame; False when the patience is at its end."""
        lost, last_frame, wait = time.monotonic(), self._last, FIRST_WAIT
        attempt = 0
        while True:
            attempt += 1
            left = lost + self._patience - time.monotonic()
            if left <= 0:
                return False
            wait = min(wait, self._max_wait, left)
            message = "%s lost: %s; trying again in %s s (attempt %d)"
            logger.warning(message, self._camera.name, reason, f"{wait:.2g}", attempt)
            if self._stopping.wait(wait):
                return False
            found = self._try_once()
            if self._stopping.is_set():
                return False
            if found:
                self.reconnections += 1
                logger.warning("%s is back after %.1f s", self._camera.name, self._last - last_frame)
                return True
            reason, wait = "no answer", 2 * wait

    def _try_once(self) -> bool:
        try:
            self._capture = self._camera.connect()
        except SourceError:
            return False
        if self._read_one(self._capture):
            return True
        self._capture.release()
        return False


def patience_in_seconds(reconnect: bool | float) -> float:
    """Return for how many seconds a lost camera is tried again: True stands for ever, False for not at all."""
    if isinstance(reconnect, bool):
        return math.inf if reconnect else 0.0
    return float(reconnect)
