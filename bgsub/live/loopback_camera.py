"""A network camera without a camera: Motion JPEG over HTTP, with the accidents of a bad line on demand."""

from __future__ import annotations

import http.server
import itertools
import logging
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np

from bgsub import synthetic
from bgsub._opencv import cv2
from bgsub.errors import BgsubError, ParameterError, SourceError
from bgsub.live.mjpeg import LatestFrame, encode_part, multipart_headers
from bgsub.live.stamp import milliseconds, stamp
from bgsub.video.sources.base import Frame
from bgsub.video.views import to_bgr8

logger = logging.getLogger("bgsub")

_ENDLESS = 10**9
_JPEG_QUALITY = 90


class LoopbackCamera:
    """Serves pictures at their own pace to any number of clients, until it is stopped.

    A context manager that starts and stops.

    Parameters
    ----------
    frames : str or iterable of ndarray or Frame
        A scene of `bgsub.synthetic.SCENES`, without end; or pictures, such as a `FrameSource`, which are sent again and
        again.
    fps : float
        Frames per second.
    port : int
        Port to listen at; 0 for any free one.
    host : str
        Address to listen at; the default can be reached from this computer only.
    size : (int, int)
        Width and height of a scene.
    stamped : bool
        Write number and time into the upper left corner of each picture, for programs that measure the latency.

    Attributes
    ----------
    address : str
        What `CameraSource` takes.
    clients : int
        Connections at this moment.
    silent_until : float
        End of a stall, on the clock `time.monotonic`.

    Raises
    ------
    ParameterError
        If the scene or the rate is none of the allowed.
    SourceError
        If the port is not free.

    Examples
    --------
    >>> from bgsub.live import LoopbackCamera
    >>> from bgsub.video import CameraSource
    >>> with LoopbackCamera("street", fps=50, size=(64, 48)) as camera, CameraSource(camera.address) as source:
    ...     print(source.size)
    (64, 48)
    """

    def __init__(
        self,
        frames: str | Iterable[np.ndarray | Frame] = "lobby",
        fps: float = 25.0,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        size: tuple[int, int] = (320, 240),
        stamped: bool = False,
    ) -> None:
        if not 0 < fps < 1e4:
            raise ParameterError(f"fps must be a positive number of frames per second, got {fps!r}")
        self._pictures = _scene(frames, size) if isinstance(frames, str) else _again_and_again(frames)
        self._fps, self._stamped = fps, stamped
        self._latest = LatestFrame()
        self._stopping = threading.Event()
        self.silent_until = 0.0
        try:
            self._server = _Server((host, port), self._latest)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SourceError(f"no camera can be served at {host}:{port}: {reason}") from None
        self.address = f"http://{host}:{self._server.server_address[1]}/"
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.02,), name="bgsub-camera-server"),
            threading.Thread(target=self._produce, name="bgsub-camera"),
        ]

    @property
    def clients(self) -> int:
        """Connections at this moment."""
        return len(self._server.connections)

    @property
    def produced(self) -> int:
        """Pictures made so far."""
        return self._latest.sequence

    def start(self) -> None:
        """Begin to serve; once."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all connections and threads."""
        self._stopping.set()
        self._latest.close()
        if self._threads[0].is_alive():
            self._server.shutdown()
        self.cut()
        self._server.server_close()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def cut(self) -> None:
        """Drop all connections, as when a cable is pulled and put back."""
        self._server.cut()

    def refuse(self, seconds: float) -> None:
        """Hang up on whoever connects during that time; connections that exist stay."""
        self._server.refusing_until = time.monotonic() + seconds

    def stall(self, seconds: float) -> None:
        """Send nothing during that time, with the connections kept."""
        self.silent_until = time.monotonic() + seconds

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def _produce(self) -> None:
        try:
            self._produce_in_time()
        except BgsubError as error:
            logger.warning("the camera at %s ends: %s", self.address, error)
        finally:
            self._latest.close()

    def _produce_in_time(self) -> None:
        due = time.monotonic()
        for number, picture in enumerate(self._pictures):
            due = max(due + 1 / self._fps, time.monotonic() - 1)  # what is late for long is not made up for
            now = time.monotonic()
            if self._stopping.wait(max(0.0, due - now, self.silent_until - now)):
                return
            self._latest.put(self._encoded(picture, number))

    def _encoded(self, picture: np.ndarray, number: int) -> bytes:
        if self._stamped:
            picture = picture.copy()
            stamp(picture, number, milliseconds())
        return cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])[1].tobytes()


class _Server(http.server.ThreadingHTTPServer):
    """Gives each connection a thread and knows them all."""

    daemon_threads = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], latest: LatestFrame) -> None:
        super().__init__(address, _Handler)
        self.latest = latest
        self.refusing_until = 0.0
        self.connections: set[socket.socket] = set()

    def verify_request(self, _request: Any, _address: Any) -> bool:
        """Refuse connections while the camera is told to."""
        return time.monotonic() >= self.refusing_until

    def cut(self) -> None:
        """Drop all connections."""
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it ended by itself
                continue

    def handle_error(self, _request: Any, _address: Any) -> None:
        """Say nothing of a client that went away."""
        logger.debug("a client of the test camera failed", exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Sends the newest picture, and the next, until the client or the camera goes."""

    server: _Server

    def do_GET(self) -> None:
        self.send_response(200)
        for name, value in multipart_headers().items():
            self.send_header(name, value)
        self.server.connections.add(self.connection)
        try:
            self.end_headers()
            sequence = self.server.latest.sequence  # a silent camera does not repeat itself
            while (newer := self.server.latest.wait_newer(sequence)) is not None:
                sequence, jpeg = newer
                self.wfile.write(encode_part(jpeg))
        except OSError:
            logger.debug("a client of the test camera has gone")
        finally:
            self.close_connection = True
            self.server.connections.discard(self.connection)

    def log_message(self, *_args: Any) -> None:
        """Keep no log of requests."""


def _scene(name: str, size: tuple[int, int]) -> Iterator[np.ndarray]:
    """Yield the frames of a scene without end, (h, w, 3) uint8."""
    scene = synthetic.scene(name, size=size, length=_ENDLESS)
    return (scene[index][0] for index in itertools.count())


def _again_and_again(frames: Iterable[np.ndarray | Frame]) -> Iterator[np.ndarray]:
    """Yield pictures, from the start again after the last; end with what can be iterated only once."""
    while True:
        empty = True
        for item in frames:
            empty = False
            yield to_bgr8(item.image if isinstance(item, Frame) else item)
        if empty:
            return
