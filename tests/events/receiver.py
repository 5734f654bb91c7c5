"""Destinations of notifications: a memory, and a web server that records requests and sends given answers."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

from live_fakes import QuietServer, serving

from bgsub.events.notifications.notification import Destination

HANG, TRICKLE = "hang", "trickle"


class Memory(Destination):
    """Raises `failures`, then stores the notifications; blocks until `open` is set."""

    name = "destination"

    def __init__(self, *failures):
        self.failures, self.wanted, self.got = list(failures), [], []
        self.open, self.came = threading.Event(), threading.Event()
        self.open.set()

    def wants(self, notification):
        self.wanted.append(notification)  # in the thread of the stream
        return True

    def send(self, notification):
        self.came.set()
        assert self.open.wait(60)
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        self.got.append(notification)

    def cancel(self):
        self.open.set()


class Receiver(QuietServer, ThreadingHTTPServer):
    """Answers with the next of `answers` (a status, raw bytes, or a word above), then with `always`."""

    def __init__(self, answers: list[int | str | bytes], always: int | str = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.always = list(answers), always
        self.requests: Queue[tuple[str, dict[str, str], bytes]] = Queue()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def notification(self) -> dict[str, Any]:
        return json.loads(self.requests.get(timeout=60)[2])

    def notifications(self) -> list[dict[str, Any]]:
        """Return the JSON of all requests so far."""
        return [self.notification() for _ in range(self.requests.qsize())]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.answers.pop(0) if self.server.answers else self.server.always
        self.server.requests.put((self.path, dict(self.headers), body))
        self.close_connection = True
        if isinstance(answer, bytes):
            self.wfile.write(answer)
        elif answer == HANG:
            self.server.ended.wait()
        elif answer == TRICKLE:
            self.wfile.write(b"HTTP/1.1 200 O")
            while not self.server.ended.wait(0.02):
                self.wfile.write(b"K")
        else:
            self.send_response(int(answer))
            self.send_header("Location", f"{self.server.address}/elsewhere")
            self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def receiving(answers: list[int | str | bytes] | None = None, always: int | str = 200):
    return serving(Receiver(answers or [], always))


def unused_address() -> str:
    with Receiver([]) as server:
        return server.address
