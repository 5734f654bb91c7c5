"""Serve a video, a folder of images or a synthetic scene as a network camera, to try live runs.

    python scripts/serve_camera.py VIDEO --port 8554

Frames are sent in a loop as Motion JPEG over HTTP until Ctrl-C. Watch them with the printed address: bgsub live ADDRESS
"""

from __future__ import annotations

import http.server
import itertools
import logging
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from typing import Any, Self

import click
import numpy as np

from bgsub import open_source, synthetic
from bgsub._opencv import cv2
from bgsub.errors import BgsubError, ParameterError, SourceError
from bgsub.live.viewer import MULTIPART, encode_part
from bgsub.video.sources.base import Frame
from bgsub.video.views import to_bgr8

logger = logging.getLogger("bgsub")

_ENDLESS = 10**9
_JPEG_QUALITY = 90

_SIDE = 4  # pixels; black or white squares of this size survive JPEG and other codecs
_NUMBER_BITS, _TIME_BITS, _CHECK_BITS = 32, 32, 8
_BITS = _NUMBER_BITS + _TIME_BITS + _CHECK_BITS
_CHECK = 251


class LoopbackCamera:
    """Serve pictures in real time to any number of clients, as a context manager.

    Parameters
    ----------
    frames : str or iterable of ndarray or Frame
        A scene of `bgsub.synthetic.SCENES` without end, or pictures, such as a `FrameSource`, in a loop.
    fps : float
        Frames per second.
    port : int
        Port to listen at; 0 for any free one.
    host : str
        Address to listen at; by default this computer only.
    size : (int, int)
        Width and height of a scene.
    stamped : bool
        Write number and time into the upper left corner of each picture (`stamp`), to measure the latency.

    Attributes
    ----------
    address : str
        Address for `CameraSource`.
    silent_until : float
        End of a stall, on the clock `time.monotonic`.

    Raises
    ------
    ParameterError
        If the scene or the rate is invalid.
    SourceError
        If the port is not free.
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
        self._pictures: Iterator[np.ndarray]
        if isinstance(frames, str):
            scene = synthetic.scene(frames, size=size, length=_ENDLESS)
            self._pictures = (scene[index][0] for index in itertools.count())
        else:
            self._pictures = _repeated(frames)
        self._fps, self._stamped = fps, stamped
        self._latest = _Latest()
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
        """Number of open connections."""
        return len(self._server.connections)

    @property
    def produced(self) -> int:
        """Number of pictures so far."""
        return self._latest.number

    def start(self) -> None:
        """Start serving; once."""
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
        """Drop all connections, as a pulled cable does."""
        for connection in list(self._server.connections):
            with suppress(OSError):  # it has ended already
                connection.shutdown(socket.SHUT_RDWR)

    def refuse(self, seconds: float) -> None:
        """Refuse new connections for some time; existing ones stay."""
        self._server.refusing_until = time.monotonic() + seconds

    def stall(self, seconds: float) -> None:
        """Send nothing for some time; connections stay."""
        self.silent_until = time.monotonic() + seconds

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def _produce(self) -> None:
        due = time.monotonic()
        try:
            for number, picture in enumerate(self._pictures):
                due = max(due + 1 / self._fps, time.monotonic() - 1)  # catch up for one second at most
                now = time.monotonic()
                if self._stopping.wait(max(0.0, due - now, self.silent_until - now)):
                    return
                if self._stamped:
                    picture = picture.copy()  # noqa: PLW2901
                    stamp(picture, number, milliseconds())
                encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])[1]
                self._latest.put(encoded.tobytes())
        except BgsubError as error:
            logger.warning("the camera at %s ends: %s", self.address, error)
        finally:
            self._latest.close()


class _Latest:
    """The newest picture for any number of readers; a slow reader misses the older ones."""

    def __init__(self) -> None:
        self.number, self._jpeg, self._closed = 0, b"", False
        self._changed = threading.Condition()

    def put(self, jpeg: bytes) -> None:
        with self._changed:
            self._jpeg, self.number = jpeg, self.number + 1
            self._changed.notify_all()

    def wait_newer(self, number: int) -> tuple[int, bytes] | None:
        """Wait for a picture newer than `number`; return its number and data, None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self.number > number)
            return None if self._closed else (self.number, self._jpeg)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class _Server(http.server.ThreadingHTTPServer):
    """One thread per connection."""

    daemon_threads = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], latest: _Latest) -> None:
        super().__init__(address, _Handler)
        self.latest = latest
        self.refusing_until = 0.0
        self.connections: set[socket.socket] = set()

    def verify_request(self, _request: Any, _address: Any) -> bool:
        return time.monotonic() >= self.refusing_until

    def handle_error(self, _request: Any, _address: Any) -> None:
        logger.debug("a client of the test camera failed", exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Send each new picture until the client or the camera ends."""

    server: _Server

    def do_GET(self) -> None:
        self.send_response(200)
        for name, value in MULTIPART.items():
            self.send_header(name, value)
        self.server.connections.add(self.connection)
        try:
            self.end_headers()
            number = self.server.latest.number  # a stalled camera does not repeat its last picture
            while (newer := self.server.latest.wait_newer(number)) is not None:
                number, jpeg = newer
                self.wfile.write(encode_part(jpeg))
        except OSError:
            logger.debug("a client of the test camera closed the connection")
        finally:
            self.close_connection = True
            self.server.connections.discard(self.connection)

    def log_message(self, *_args: Any) -> None:
        pass


def _repeated(frames: Iterable[np.ndarray | Frame]) -> Iterator[np.ndarray]:
    """Yield pictures in a loop, or once if they can be iterated only once."""
    empty = False
    while not empty:
        empty = True
        for item in frames:
            empty = False
            yield to_bgr8(item.image if isinstance(item, Frame) else item)


# -- stamps -----------------------------------------------------------------------------------------------------------


def milliseconds() -> int:
    """Return the time of the monotonic clock, which all programs share, in ms modulo 2**32."""
    return time.monotonic_ns() // 1_000_000 % (1 << _TIME_BITS)


def stamp(image: np.ndarray, number: int, moment: int) -> None:
    """Write a number and a time, modulo 2**32, into the upper left corner, in place, as 72 squares of 4x4 pixels."""
    columns = _columns(image)
    if not columns:
        raise ParameterError(f"a stamp needs room for {_BITS} squares of {_SIDE} pixels, got shape {image.shape}")
    number, moment = number % (1 << _NUMBER_BITS), moment % (1 << _TIME_BITS)
    word = (number << _TIME_BITS | moment) << _CHECK_BITS | _checksum(number, moment)
    for place in range(_BITS):
        y, x = (_SIDE * part for part in divmod(place, columns))
        image[y : y + _SIDE, x : x + _SIDE] = 255 if word >> place & 1 else 0


def read_stamp(image: np.ndarray) -> tuple[int, int] | None:
    """Return number and time of a `stamp`, or None if there is none."""
    columns = _columns(image)
    if not columns:
        return None
    word = 0
    for place in range(_BITS):
        y, x = (_SIDE * part for part in divmod(place, columns))
        word |= int(image[y : y + _SIDE, x : x + _SIDE].mean() > 127) << place
    check = word & ((1 << _CHECK_BITS) - 1)
    number, moment = divmod(word >> _CHECK_BITS, 1 << _TIME_BITS)
    return (number, moment) if check == _checksum(number, moment) else None


def age(moment: int) -> float:
    """Return the seconds since a stamped time; up to 24 days."""
    half = 1 << (_TIME_BITS - 1)
    return ((milliseconds() - moment + half) % (1 << _TIME_BITS) - half) / 1000


def _checksum(number: int, moment: int) -> int:
    # An all-black or all-white corner must not be a stamp.
    return 1 + (number * 31 + moment) % _CHECK


def _columns(image: np.ndarray) -> int:
    """Return the number of squares side by side; 0 if the picture is too small."""
    columns = int(image.shape[1]) // _SIDE
    return columns if columns and -(-_BITS // columns) * _SIDE <= image.shape[0] else 0


@click.command(help=__doc__)
@click.argument("source", required=False)
@click.option("--scene", type=click.Choice(list(synthetic.SCENES)), default="street", show_default=True)
@click.option("--size", type=(int, int), default=(320, 240), show_default=True, help="Width and height of a scene.")
@click.option("--fps", type=click.FloatRange(0, min_open=True), default=25.0, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, default=0, help="Port to listen at.  [default: any free one]")
@click.option("--cut-every", type=float, metavar="SECONDS", help="Drop all connections at this interval.")
@click.option("--stamp", "stamped", is_flag=True, help="Write number and time into each frame.")
def main(source: str | None, scene: str, fps: float, cut_every: float | None, **options: Any) -> None:
    with (
        suppress(KeyboardInterrupt),
        nullcontext(scene) if source is None else open_source(source) as pictures,
        LoopbackCamera(pictures, fps, **options) as served,
    ):
        click.echo(f"a camera sends {fps:g} frames per second at {served.address} until Ctrl-C")
        while True:
            time.sleep(cut_every or 3600)
            if cut_every:
                served.cut()


if __name__ == "__main__":
    main()
