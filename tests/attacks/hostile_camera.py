"""A camera on the loopback that attacks some of its connections and sends pictures to the others."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil
from video_fakes import make_frames

from bgsub._opencv import cv2

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: "
MULTIPART = HEAD + b"multipart/x-mixed-replace; boundary=frame\r\n\r\n"
JPEGS = [bytes(cv2.imencode(".jpg", frame)[1]) for frame in make_frames(8, 48, 64)]


def part(jpeg: bytes, length: int | None = None) -> bytes:
    """Return a part of the stream with its length, or with a false one."""
    announced = len(jpeg) if length is None else length
    return b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % announced + jpeg + b"\r\n"


def grey_jpeg(side: int) -> bytes:
    """Return a valid JPEG file of `side` x `side` equal pixels: 0.75 bits for 64 of them."""
    small = bytes(cv2.imencode(".jpg", make_frames(1, 16, 16)[0, :, :, 0])[1])
    size, scan = small.index(b"\xff\xc0") + 5, small.index(b"\xff\xda")
    begin = scan + 2 + int.from_bytes(small[scan + 2 : scan + 4], "big")
    head = small[:size] + struct.pack(">HH", side, side) + small[size + 4 : begin]
    return head + b"\x28\xa2\x8a" * ((side // 8) ** 2 // 4 + 1) + b"\xff\xd9"  # no change, end of block


class HostileCamera:
    """Call `attack` with the first `attacks` connections; the others get 50 pictures a second.

    `requests` contains the first line of each request.
    """

    def __init__(self, attack: Callable[[Line], object], attacks: float = 1) -> None:
        self.requests: list[bytes] = []
        self.ended = threading.Event()
        lock, camera = threading.Lock(), self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):
                    first = self.request.recv(1 << 16).partition(b"\r\n")[0]
                    with lock:
                        camera.requests.append(first)
                        number = len(camera.requests)
                    line = Line(self.request, camera)
                    attack(line) if number <= attacks else line.send_pictures()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = False
            request_queue_size = 64

            def handle_error(self, *_: object) -> None:
                """Ignore errors of the attacks."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.place = f"127.0.0.1:{self.port}/video"
        self.address = f"http://{self.place}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> HostileCamera:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Line:
    """A connection to a client of the camera."""

    def __init__(self, connection, camera: HostileCamera) -> None:
        self.connection, self.camera = connection, camera
        connection.settimeout(0.2)

    def send(self, data: bytes, then: bytes = b"", drip: bytes = b"", wait: bool = False) -> None:
        """Send data, then a block again and again, or bytes one by one, or nothing until the client leaves."""
        self._send(data)
        while then:
            self._send(then)
        for byte in drip:
            self._send(bytes([byte]))
            self.camera.ended.wait(0.1)
        while (drip or wait) and not self.camera.ended.is_set():
            with suppress(TimeoutError):
                if not self.connection.recv(1 << 16):
                    return

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            if self.camera.ended.is_set():
                raise OSError("the camera has ended")
            with suppress(TimeoutError):
                left = left[self.connection.send(left) :]

    def send_pictures(self) -> None:
        self._send(MULTIPART)
        number = 0
        while not self.camera.ended.wait(0.02):
            self._send(part(JPEGS[number % len(JPEGS)]))
            number += 1


@contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the peak of the additional memory of this process in megabytes."""
    process, ended = psutil.Process(), threading.Event()
    begin, most = process.memory_info().rss, [0]

    def watch() -> None:
        while not ended.wait(0.005):
            most[0] = max(most[0], process.memory_info().rss - begin)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: most[0] / 1e6
    finally:
        ended.set()
        thread.join()
