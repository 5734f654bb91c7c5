"""Cameras, local by OpenCV or on the network by PyAV: a thread reads them and keeps the newest frame."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from bgsub._opencv import cv2, quiet
from bgsub.errors import ParameterError, SourceError
from bgsub.numerics import memory
from bgsub.video._pyav import av
from bgsub.video.concurrency import Channel, in_background
from bgsub.video.sources.av_container import FORMATS, PLAYLISTS, Container, Converter
from bgsub.video.sources.base import Frame, FrameSource, logger, number_name, rate_as_fraction
from bgsub.video.sources.camera_address import insecure_mark, parse_camera, without_password
from bgsub.video.sources.network_streams import HttpStream, RefusedError, RtspRelay

_MAX_PIXELS = 1 << 26  # the highest levels of H.264 and H.265 have 36 million pixels
_STOP_PATIENCE = 0.5  # how long `close` waits for a read that is under way: longer than the pause between two frames

_RETRIES = 5  # a webcam loses single frames; a lost connection fails at once, each time

# Seconds before the first new attempt; each further wait is twice as long, up to the longest.
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0

_NETWORK_OPTIONS = {
    "rtsp_flags": "prefer_tcp",
    "protocol_whitelist": "crypto,data,http,httpproxy,https,rtmp,rtmps,rtmpt,rtp,rtsp,srt,srtp,tcp,tls,udp",
}


class LocalCapture:
    """A camera of this computer."""

    excess = ""
    length = None
    live = True

    def __init__(self, device: int) -> None:
        with quiet():
            self._capture = cv2.VideoCapture(device)
        if not self._capture.isOpened():
            raise OSError("no camera")
        width, height = (self._capture.get(key) for key in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
        self.size = int(width), int(height)
        self.fps = rate_as_fraction(self._capture.get(cv2.CAP_PROP_FPS))

    def read(self) -> tuple[np.ndarray | None, int]:
        """Return the next frame, (h, w, 3) uint8, or None if the camera sends none; and 0, as `NetworkCapture`."""
        with quiet():
            good, image = self._capture.read()
        return image if good else None, 0

    def release(self) -> None:
        self._capture.release()


class NetworkCapture:
    """A camera, or a video, behind an address."""

    def __init__(self, address: str, open_timeout: float, read_timeout: float, insecure: bool = False) -> None:
        self._read_timeout = read_timeout
        scheme, _, path = address.partition("?")[0].partition("://")
        scheme, options = scheme.lower(), dict(_NETWORK_OPTIONS)
        source: HttpStream | str = address
        self._connection: HttpStream | RtspRelay | None = None
        if not path.lower().endswith(PLAYLISTS):  # a playlist leads to other addresses
            options["format_whitelist"] = FORMATS
            if scheme in ("http", "https"):
                source = self._connection = HttpStream(address, open_timeout, insecure)
        elif scheme == "https" and not insecure:
            raise RefusedError("FFmpeg does not verify the certificates of a playlist; --insecure opens it")
        if scheme in ("rtsp", "rtsps"):
            self._connection = relay = RtspRelay(address, open_timeout, insecure)
            source = relay.address
            options |= {"rtsp_transport": "tcp"} if scheme == "rtsps" else {}
        try:
            timeout = (open_timeout, read_timeout)
            self._container = Container(source, threads=False, options=options, timeout=timeout)
        except BaseException:
            self._disconnect()
            if self._connection is not None and self._connection.refused:
                raise RefusedError(self._connection.refused) from None
            raise
        if isinstance(self._connection, RtspRelay):
            self._connection.is_open = True
        video = self._container.stream
        video.codec_context.thread_count = 1  # each further thread delays H.264 and H.265 by one frame
        self.size = video.codec_context.width, video.codec_context.height
        self.fps = rate_as_fraction(float(video.guessed_rate or 0))
        seconds = self._container.seconds
        self.length = video.frames or (round(seconds * self.fps) or None if seconds and self.fps else None)
        # Of a recording in MPEG-TS only the number of bytes is known; the number that motion JPEG states may be wrong.
        is_file = self._connection is not None and self._connection.has_end and self._container.is_file
        self.live = self.length is None and not is_file
        self._packets = self._container.packets()
        self._frames: list[Any] = []
        self._begun = False
        self._convert = Converter(colour=True)

    @property
    def excess(self) -> str:
        """Why the camera was cut off, if it sent too much; otherwise empty."""
        return self._connection.excess if self._connection is not None else ""

    def read(self) -> tuple[np.ndarray | None, int]:
        """Return the next frame, (h, w, 3) uint8, or None if none came in time; and the undecodable ones before it."""
        if self._connection is not None:
            self._connection.renew(self._read_timeout)
        end, failures = time.monotonic() + self._read_timeout, 0
        while True:
            while not self._frames:
                packet = next(self._packets, None)
                if packet is None or time.monotonic() > end:
                    return None, failures
                self._frames = self._container.decode(packet)
            frame = self._frames.pop(0)
            image = None if frame is None else self._convert(frame)
            if image is not None:
                self._begun = True
                return image, failures
            failures += self._begun  # before the first keyframe, nothing can be decoded

    def release(self) -> None:
        self._container.close()
        self._disconnect()
        memory.release_unused()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()


Capture = LocalCapture | NetworkCapture


def growing_waits(end: float) -> Iterator[float]:
    """Yield the seconds before each new attempt, until `end` on the clock `time.monotonic`."""
    wait = FIRST_WAIT
    while (left := end - time.monotonic()) > 0:
        wait = min(wait, LONGEST_WAIT, left)
        yield wait
        wait *= 2


def read_image(capture: Capture, stopping: Callable[[], bool]) -> tuple[np.ndarray | None, int]:
    """Return the next image, (h, w, 3) uint8, and the failed frames before it; None once no more comes."""
    failures = 0
    for attempt in range(_RETRIES + 1):
        begin = time.monotonic()
        image, undecodable = capture.read()
        failures += undecodable
        if image is not None:
            return image, failures + attempt
        # A read that fails after a wait has timed out: another wait would only delay the end.
        if stopping() or time.monotonic() - begin > 1:
            break
    return None, 0


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
        """End the iteration, from any thread, also during a wait for the camera."""
        self._closed = True
        self._stopping.set()
        self._pictures.cancel()

    def close(self) -> None:
        """Release the camera; may be called from any thread."""
        self.cancel()
        if self._grabber is None:  # only the grabber thread may use the camera while it runs; it releases the camera
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
                start = frame.received  # the camera may have reported another size, such as before a rotation
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
