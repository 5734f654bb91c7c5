"""Cameras: a thread reads them and keeps the newest frame."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.video.concurrency import Channel
from bgsub.video.sources.base import Frame, FrameSource, logger, number_name
from bgsub.video.sources.camera_address import is_camera, parse_camera, without_password
from bgsub.video.sources.camera_connection import FIRST_WAIT, Camera, Capture, read_image

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


__all__ = ["CameraSource", "is_camera"]


class CameraSource(FrameSource):
    """A local camera, or a camera or video on the network.

    While it is iterated, a thread reads every frame as it arrives and keeps the newest one only, so that the
    latency stays at one frame however slow the receiver is; frames that were overtaken are counted in `dropped`
    and leave a gap in the numbers. `Frame.time` is the time of arrival since the first frame. A video of known
    length behind an address is no camera: all its frames are read, one after the other.

    A camera that is lost is connected to again after 0.5, 1, 2, ... seconds. If it does not come back, the
    iteration ends with a warning in the log, so that what was recorded is kept; `SourceError` is raised if it
    never delivered a frame. Where it comes back with frames of another size, they are brought to the size of the first
    one, and a warning says so.

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
    fps : float or Fraction, optional
        Frames per second, if the camera is wrong about it.
    reconnect : bool or float, optional
        Whether to connect again when the camera is lost, or for how many seconds to try; also the first time, when it
        is not there yet. By default lost network addresses are tried for ever, lost local cameras not at all (True
        helps where one is unplugged at times), and the first time only once.
    max_wait : float
        Seconds between two attempts at most.
    threads : int
        Threads that decode a network stream. Each beyond the first delays H.264 and H.265 by one frame; 4K may
        need some.

    Attributes
    ----------
    reconnections : int
        How often the camera was lost and came back.

    Raises
    ------
    SourceError
        If the camera is not there or does not answer. While iterating: if the size of the frames changes, as
        after a camera came back with other settings; a model of one size is of no use for another.

    Notes
    -----
    `close` returns within a second, also while the camera is silent. OpenCV cannot be interrupted, though: the
    thread that reads then ends by itself within `open_timeout` or `read_timeout`.

    A camera is not trusted. One that speaks HTTP may send 64 MB for a frame and lead to other addresses of its own host
    only (with OpenCV 4.11 or newer); a frame may have 67 million pixels; a playlist, which leads anywhere, is followed
    where the address ends with ``.m3u8`` or ``.mpd``. One that goes beyond that is lost, and tried again.

    Examples
    --------
    >>> from bgsub.live import LoopbackCamera  # in the place of a camera
    >>> from bgsub.video import CameraSource
    >>> with LoopbackCamera() as camera, CameraSource(camera.address, fps=25) as source:
    ...     frame = next(iter(source))
    >>> frame.image.shape, frame.arrived is not None
    ((240, 320, 3), True)
    """

    def __init__(
        self,
        camera: int | str,
        *,
        open_timeout: float = 10.0,
        read_timeout: float = 10.0,
        on_error: str = "skip",
        fps: float | Fraction | None = None,
        reconnect: bool | float | None = None,
        max_wait: float = 30.0,
        threads: int = 1,
    ) -> None:
        device = parse_camera(camera)
        local = isinstance(device, int)
        name = f"camera {device}" if local else f"stream '{without_password(str(device))}'"
        super().__init__(name, on_error, fps)
        for label, seconds in (("open_timeout", open_timeout), ("read_timeout", read_timeout), ("max_wait", max_wait)):
            if not 0 < seconds < 1e6:
                raise ParameterError(f"{label} must be a positive number of seconds, got {seconds!r}")
        self._patience = patience_in_seconds(not local if reconnect is None else reconnect)
        if not self._patience >= 0:
            raise ParameterError(f"reconnect must be True, False or a number of seconds, 0 or more, got {reconnect!r}")
        if threads < 1:
            raise ParameterError(f"threads must be at least 1, got {threads!r}")
        self._max_wait = max_wait
        self._camera = Camera(device, name, open_timeout, read_timeout, threads)
        # Unless it was asked for, a wrong address should show at once.
        self._capture = self._camera.connect_patiently(0.0 if reconnect is None else self._patience, max_wait)
        self._grabber: Grabber | None = None
        self._size, self._camera_fps, self._length = self._capture.size, self._capture.fps, self._capture.length
        # A recorded video behind an address waits until it is read, and no frame of it needs to be dropped.
        self.live = self.length is None

    @property
    def size(self) -> tuple[int, int]:
        return self._size

    @property
    def fps(self) -> Fraction | None:
        """Frames per second that the camera announces (FFmpeg guesses it for MJPEG); None if unknown."""
        return self._given_fps or self._camera_fps

    @property
    def length(self) -> int | None:
        """None, or the number of frames that a recorded video on the network announces."""
        return self._length

    @property
    def dropped(self) -> int:
        return self._grabber.pictures.dropped if self._grabber else 0

    @property
    def reconnections(self) -> int:
        """How often the camera was lost and came back."""
        return self._grabber.reconnections if self._grabber else 0

    def cancel(self) -> None:
        """End the iteration, from any thread, also while it waits for the camera."""
        self._closed = True
        if self._grabber is not None:
            self._grabber.stop()

    def close(self) -> None:
        """Release the camera; may be called from any thread."""
        self.cancel()
        # While the grabbing thread is in the camera it alone may touch it, and it releases the camera in the end.
        if self._grabber is None:
            self._capture.release()
        else:
            self._grabber.join()

    def _frames(self) -> Iterator[Frame]:
        return self._live_frames() if self.live else self._recorded_frames()

    def _live_frames(self) -> Iterator[Frame]:
        if self._grabber is None:
            self._grabber = Grabber(self._camera, self._capture, self._patience, self._max_wait)
            self._grabber.start()
        grabber, start, failures = self._grabber, None, 0
        seen = self._size
        for picture in grabber.pictures:
            lost, failures = picture.failures - failures, picture.failures
            if start is None:
                # What the camera announces may be its full size or the one before a rotation.
                start = picture.received
                seen = self._size = picture.image.shape[1::-1]
            if lost:
                self._unreadable(f"frame {picture.index - lost} of {self.name} cannot be read", lost)
            came, image = picture.image.shape[1::-1], picture.image
            if came != seen:
                what = f"the frames of {self.name} are {came[0]}x{came[1]} now"
                logger.warning("%s; they are brought to %dx%d, as they were at first", what, *self._size)
            if came != self._size:
                image = cv2.resize(image, self._size, interpolation=cv2.INTER_AREA)
            seen = came
            yield Frame(picture.index, number_name(picture.index), picture.received - start, image, picture.received)
        if start is None and not self._closed:
            raise SourceError(f"{self.name} sends no frame")
        if not self._closed:
            logger.warning("%s ended after %d frames", self.name, grabber.count)

    def _recorded_frames(self) -> Iterator[Frame]:
        index = 0
        while True:
            image, failures = read_image(self._capture, lambda: self._closed)
            if image is None:
                break
            if failures:
                self._unreadable(f"frame {index} of {self.name} cannot be read", failures)
                index += failures
            yield Frame(index, number_name(index), self._time(index), image)
            index += 1
        if index == 0:
            raise SourceError(f"{self.name} sends no frame")
