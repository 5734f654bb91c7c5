"""The connection to a camera, local by OpenCV or on the network by PyAV."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bgsub._opencv import cv2, quiet
from bgsub.numerics import memory
from bgsub.video.sources.av_container import FORMATS, Container, Converter
from bgsub.video.sources.base import rate_as_fraction
from bgsub.video.sources.network_streams import HttpStream, RefusedError, RtspRelay

# A webcam loses single frames; a lost connection fails at once, each time.
_RETRIES = 5

# Seconds before the first new attempt; each further wait is twice as long, up to the longest.
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0

# A playlist leads to other addresses; it is opened only where the address of the camera ends like this.
_PLAYLISTS = (".m3u8", ".mpd")
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
        """End the connection; may be called more than once."""
        self._capture.release()


class NetworkCapture:
    """A camera, or a video, behind an address."""

    def __init__(self, address: str, open_timeout: float, read_timeout: float, insecure: bool = False) -> None:
        self._read_timeout = read_timeout
        scheme, _, path = address.partition("?")[0].partition("://")
        scheme, options = scheme.lower(), dict(_NETWORK_OPTIONS)
        source: HttpStream | str = address
        self._connection: HttpStream | RtspRelay | None = None
        if not path.lower().endswith(_PLAYLISTS):
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
            if isinstance(self._connection, RtspRelay) and self._connection.refused:
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
            # Before the first keyframe, nothing can be decoded.
            failures += self._begun

    def release(self) -> None:
        """End the connection; may be called more than once."""
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
