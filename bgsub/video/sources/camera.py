"""Cameras: a thread reads them and keeps the newest frame."""

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.video._pyav import av
from bgsub.video.concurrency import Channel, in_background
from bgsub.video.sources.base import Frame, FrameSource, logger, number_name
from bgsub.video.sources.camera_address import insecure_mark, parse_camera, without_password
from bgsub.video.sources.camera_connection import Capture, LocalCapture, NetworkCapture, growing_waits, read_image
from bgsub.video.sources.network_streams import RefusedError

# The highest levels of H.264 and H.265 have 36 million pixels.
_MAX_PIXELS = 1 << 26
# How long `close` waits for a read that is under way: longer than the pause between two frames.
_STOP_PATIENCE = 0.5


class CameraSource(FrameSource):
    """A local camera, or a camera or video on the network.

    During iteration, a thread reads every frame on arrival and keeps only the newest one, so that the latency stays at
    one frame. Replaced frames are counted in `dropped` and leave a gap in the numbers. `Frame.time` is the arrival time
    since the first frame. For a recorded video on the network, whose duration or number of bytes is known, no frames
    are dropped; over HTTP it must be readable from front to back (of MP4, one whose index is in front).

    After a lost connection the source reconnects after 0.5, 1, 2, ... seconds, at most 30. If the camera does not come
    back, the iteration ends with a warning; `SourceError` is raised if it never sent a frame. If it comes back with
    another frame size, frames are resized to the first size, with a warning.

    Parameters
    ----------
    camera : int or str
        Index of a local camera, or an address (``rtsp://``, ``http://``, ...). Messages leave out user name and
        password.
    open_timeout, read_timeout : float
        Seconds to wait for a network camera to answer, and for its next frame. The driver sets the timeout of local
        cameras (10 s on Linux).
    on_error, fps : optional
        As for `FrameSource`; by default frames that cannot be read are skipped.
    reconnect : bool or float, optional
        Whether to connect again when the camera is lost or missing at the start, or for how many seconds. By default
        a lost network camera is tried for ever, a lost local camera not at all, and a missing camera once.
    insecure : bool
        Whether to skip the verification of certificates (``https://``, ``rtsps://``), for cameras that have their own.

    Raises
    ------
    SourceError
        If the camera is missing or does not answer, or sends no frame; if its certificate cannot be verified, or it
        redirects to another host.

    Notes
    -----
    `close` returns within a second, also while a camera is silent; its thread ends after the timeout.

    Limits for untrusted cameras: 64 MB for a frame over HTTP, redirects only over HTTP within the same host (with a
    password, also the same scheme and port), 67 million pixels, and playlists only if the address ends with ``.m3u8``
    or ``.mpd``; over ``https://`` only with `insecure`. A camera beyond a limit counts as lost.

    Examples
    --------
    >>> from bgsub.video import CameraSource
    >>> with CameraSource("rtsp://gate/stream") as source:  # doctest: +SKIP
    ...     frame = next(iter(source))
    """

    size: tuple[int, int] = (0, 0)
    length: int | None = None  # known for a recorded video on the network

    def __init__(
        self,
        camera: int | str,
        *,
        open_timeout: float = 10.0,
        read_timeout: float = 10.0,
        on_error: str = "skip",
        fps: float | Fraction | None = None,
        reconnect: bool | float | None = None,
        insecure: bool = False,
    ) -> None:
        device = parse_camera(camera)
        local = isinstance(device, int)
        address = str(device)
        name = f"stream '{without_password(address)}'{insecure_mark(address, insecure)}"
        name = f"camera {device}" if local else name
        super().__init__(name, on_error, fps)
        for label, seconds in (("open_timeout", open_timeout), ("read_timeout", read_timeout)):
            if not 0 < seconds < 1e6:
                raise ParameterError(f"{label} must be a positive number of seconds, got {seconds!r}")
        patience = not local if reconnect is None else reconnect
        self._patience = float(patience) if not isinstance(patience, bool) else math.inf if patience else 0.0
        if not self._patience >= 0:
            raise ParameterError(f"reconnect must be True, False or a number of seconds, 0 or more, got {reconnect!r}")
        self._device, self._insecure = device, insecure
        self._open_timeout, self._read_timeout = open_timeout, read_timeout
        # By default, a wrong address is an error at once.
        self._capture = self._connect_patiently(0.0 if reconnect is None else self._patience)
        self._grabber: threading.Thread | None = None
        self._stopping = threading.Event()
        # Frames, each with the failed reads so far; ends with the camera.
        self._pictures: Channel[tuple[Frame, int]] = Channel(1, drop_oldest=True)
        #: Number of times the camera was lost and came back.
        self.reconnections = 0
        self._count = self._failures = 0  # frames so far, with unreadable ones; the latter
        self._last = 0.0  # when the newest one came
        self.size, self._own_fps, self.length = self._capture.size, self._capture.fps, self._capture.length
        self.live = self._capture.live

    def _connect(self) -> Capture:
        """Return the camera, opened within the time limit; SourceError where it does not answer."""
        begin, limit = time.monotonic(), self._open_timeout
        capture: Capture
        try:
            if isinstance(self._device, int):
                capture = LocalCapture(self._device)
            else:
                capture = NetworkCapture(self._device, limit, self._read_timeout, self._insecure)
        except RefusedError as error:
            raise SourceError(f"{self.name} cannot be opened: {error}") from None
        except (OSError, ValueError, SourceError, cv2.error, av.error.FFmpegError):  # ValueError: no valid address
            if isinstance(self._device, int):
                raise SourceError(f"{self.name} cannot be opened: it is not there, in use or not permitted") from None
            if time.monotonic() - begin < 0.9 * limit:
                raise SourceError(f"{self.name} cannot be opened: no answer, no access, or no video") from None
            raise SourceError(f"{self.name} does not answer within {limit:g} s or sends no video") from None
        width, height = capture.size
        if width * height > _MAX_PIXELS:
            capture.release()
            raise SourceError(f"{self.name} sends frames of {width}x{height}: more than {_MAX_PIXELS} pixels")
        return capture

    def _connect_patiently(self, patience: float) -> Capture:
        """Connect, again with growing pauses for up to `patience` seconds; Ctrl-C ends it."""
        waits = growing_waits(time.monotonic() + patience)
        is_local = isinstance(self._device, int)
        while True:
            try:
                # macOS asks for the permission to use a local camera in the main thread only.
                return self._connect() if is_local else in_background(self._connect, lambda capture: capture.release())
            except SourceError as error:
                wait = next(waits, None)
                if wait is None:
                    raise
                logger.warning("%s; trying again in %.2g s", error, wait)
            time.sleep(wait)

    @property
    def dropped(self) -> int:
        return self._pictures.dropped

    def cancel(self) -> None:
        self._closed = True
        self._stopping.set()
        self._pictures.cancel()

    def close(self) -> None:
        self.cancel()
        # Only the grabber thread may use the camera while it runs; it releases the camera.
        if self._grabber is None:
            self._capture.release()
        else:
            self._grabber.join(_STOP_PATIENCE)  # a read ends only with a frame or its timeout

    def _frames(self) -> Iterator[Frame]:
        return self._live_frames() if self.live else self._recorded_frames()

    def _live_frames(self) -> Iterator[Frame]:
        if self._grabber is None:
            self._last = time.monotonic()
            self._grabber = threading.Thread(target=self._grab, name="bgsub-grab", daemon=True)
            self._grabber.start()
        start, failures, seen = None, 0, self.size
        for frame, failed in self._pictures:
            lost, failures = failed - failures, failed
            assert frame.received is not None
            if start is None:
                # The camera may have reported another size, such as before a rotation.
                start = frame.received
                seen = self.size = frame.image.shape[1::-1]
            if lost:
                self._unreadable(f"frame {frame.index - lost} of {self.name} cannot be read", lost)
            came, image = frame.image.shape[1::-1], frame.image
            if came != seen:
                resized = f"now; they are resized to {self.size[0]}x{self.size[1]}, the size at the start"
                change = "again" if came == self.size else resized
                logger.warning("the frames of %s are %dx%d %s", self.name, *came, change)
            if came != self.size:
                image = cv2.resize(image, self.size, interpolation=cv2.INTER_AREA)
            seen = came
            yield replace(frame, time=frame.received - start, image=image)
        if start is None and not self._closed:
            raise SourceError(f"{self.name} sends no frame")
        if not self._closed:
            logger.warning("%s ended after %d frames", self.name, self._count)

    def _recorded_frames(self) -> Iterator[Frame]:
        index = 0
        while True:
            image, failures = read_image(self._capture, self._stopping.is_set)
            if image is None:
                break
            if failures:
                self._unreadable(f"frame {index} of {self.name} cannot be read", failures)
                index += failures
            yield Frame(index, number_name(index), self._time(index), image)
            index += 1
        if index == 0:
            raise SourceError(f"{self.name} sends no frame")

    def _grab(self) -> None:
        """Read the camera as fast as it sends, in a thread, so that no frames queue; reconnect when it is lost."""
        try:
            while True:
                reason = self._read_until_lost()
                self._capture.release()
                if self._stopping.is_set() or not self._connect_again(reason):
                    break
        except BaseException as error:
            self._pictures.close(error)
        else:
            self._pictures.close()
        finally:
            self._capture.release()

    def _read_until_lost(self) -> str:
        """Pass on the pictures of one connection; return why it ended."""
        while not self._stopping.is_set() and self._read_one():
            pass
        silence = time.monotonic() - self._last
        if self._capture.excess:
            return f"it sends {self._capture.excess}"
        if isinstance(self._device, int) or silence < 0.9 * self._read_timeout:
            return "it sends no more frames"
        return f"no frame for {silence:.2g} s" if silence < 9.5 else f"no frame for {silence:.0f} s"

    def _read_one(self) -> bool:
        """Pass on one picture; return False if none came."""
        image, failures = read_image(self._capture, self._stopping.is_set)
        if image is None:
            return False
        self._last = time.monotonic()
        self._failures += failures
        self._count += failures + 1
        index = self._count - 1
        self._pictures.put((Frame(index, number_name(index), None, image, self._last), self._failures))
        return True

    def _connect_again(self, reason: str) -> bool:
        """Reconnect until the camera sends a frame; return False after the time limit."""
        last_frame = self._last
        waits = growing_waits(time.monotonic() + self._patience)
        for attempt, wait in enumerate(waits, 1):
            message = "%s lost: %s; trying again in %s s (attempt %d)"
            logger.warning(message, self.name, reason, f"{wait:.2g}", attempt)
            if self._stopping.wait(wait):
                return False
            reason = self._try_once()
            if self._stopping.is_set():
                return False
            if not reason:
                self.reconnections += 1
                logger.warning("%s is back after %.1f s", self.name, self._last - last_frame)
                return True
        return False

    def _try_once(self) -> str:
        """Connect and pass on one picture; return the reason of a failure, or an empty text."""
        try:
            self._capture = self._connect()
        except SourceError as error:
            return str(error).removeprefix(f"{self.name} ")
        if self._read_one():
            return ""
        self._capture.release()
        return "it sends no frame"
