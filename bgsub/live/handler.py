"""The requests of a browser to the page of a live run."""

from __future__ import annotations

import http.server
import json
import logging
import select
import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bgsub.errors import ParameterError, SinkError
from bgsub.jobs.controls import LIVE_VIEWS
from bgsub.live.access import Access
from bgsub.live.broadcast import Broadcast
from bgsub.live.commands import do, tell
from bgsub.live.connections import Connections
from bgsub.live.mjpeg import BOUNDARY, encode_part, multipart_headers
from bgsub.live.region_store import RegionStore

logger = logging.getLogger("bgsub")

_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/regions.js": ("regions.js", "text/javascript; charset=utf-8"),
    "/script.js": ("script.js", "text/javascript; charset=utf-8"),
}
_PROTECTION = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; form-action 'none'; base-uri 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_LARGEST_BODY = 1 << 16  # bytes; regions have many corners
_STREAMS = 16  # at most, of all browsers
PATIENCE = 10  # seconds that a client may take to send its whole request, or to take a picture
_LOOK = 0.5  # seconds without a new picture after which the browser may have gone

_Answer = Callable[[], None]


@dataclass
class PageState:
    """What all requests share: who is answered, each camera's pictures, the regions, how many streams are watched."""

    access: Access
    broadcasts: Sequence[Broadcast]
    regions: RegionStore
    streams: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def stream(self) -> Iterator[bool]:
        """Count a stream inside of the block; False if there are too many already."""
        with self._lock:
            is_free = self.streams < _STREAMS
            self.streams += is_free
        try:
            yield is_free
        finally:
            with self._lock:
                self.streams -= is_free


class _Host(socketserver.BaseServer):
    """What a handler needs of its server."""

    connections: Connections


class LiveHandler(http.server.BaseHTTPRequestHandler):
    """Answers one request; see `bgsub.live.access` for who is answered.

    ``GET /`` the page; ``/stream?camera=0&view=panel`` Motion JPEG, ``/picture.jpg`` one picture of it,
    ``/snapshot.png`` the same in full size; ``/statistics`` JSON; ``POST /control`` JSON, see `bgsub.live.commands.do`.
    """

    server_version = "bgsub"
    sys_version = ""
    timeout = PATIENCE
    server: _Host

    def __init__(self, page: PageState, *request: Any) -> None:
        self._page = page
        super().__init__(*request)

    # -- what is asked for ---------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        """Answer a request to look at something."""
        routes: dict[str, _Answer] = {
            "/stream": self._stream,
            "/picture.jpg": self._picture,
            "/statistics": self._statistics,
            "/snapshot.png": self._snapshot,
        }
        routes.update(dict.fromkeys(_FILES, self._file))
        self._answer(routes)

    def do_POST(self) -> None:
        """Answer a command."""
        self._answer({"/control": self._control})

    def _answer(self, routes: dict[str, _Answer]) -> None:
        headers, access = self._headers(), self._page.access
        try:
            parts = urlsplit(self.path)
            known = access.knows_host(headers)
        except ValueError:  # an address with half a bracket
            self._fail(HTTPStatus.BAD_REQUEST, "this is no address")
            return
        self._route = parts.path
        self._query = dict(parse_qsl(parts.query))
        if not known:
            self._fail(HTTPStatus.FORBIDDEN, "this page is for its own machine")
        elif not access.has_token(headers, self._query):
            self._fail(HTTPStatus.FORBIDDEN, "the token is missing or wrong")
        elif access.is_embedded(headers):
            self._fail(HTTPStatus.FORBIDDEN, "another page may lead here, but not show or use what is here")
        elif parts.path not in routes:
            self._fail(HTTPStatus.NOT_FOUND, "there is no such page")
        else:
            try:
                self._welcomed(routes[parts.path])
            except (ParameterError, SinkError) as error:
                self._fail(HTTPStatus.BAD_REQUEST, str(error))
            except (OSError, TimeoutError):
                logger.debug("the browser at %s has gone", self.client_address[0])

    def _headers(self) -> dict[str, str]:
        names = ("Host", "Authorization", "Cookie", "Content-Type", "Sec-Fetch-Site", "Sec-Fetch-Dest", "Origin")
        return {name: str(self.headers[name]) for name in names if self.headers[name] is not None}

    def _welcomed(self, answer: _Answer) -> None:
        """Answer once the request is here whole; only then its connection may take its time."""
        self._body = b""
        if self.command == "POST" and not self._read_body():
            return
        if self.server.connections.welcome(self.connection):
            answer()
        else:
            self._fail(HTTPStatus.SERVICE_UNAVAILABLE, "too many are connected already")

    def _read_body(self) -> bool:
        """Read what a command says; False where its length is not allowed, which is told then."""
        length = self.headers.get("Content-Length", "")
        if not _is_number(length):
            self._fail(HTTPStatus.LENGTH_REQUIRED, "a command tells its length")
            return False
        if int(length) > _LARGEST_BODY:
            self._fail(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a command has at most {_LARGEST_BODY} bytes")
            return False
        self._body = self.rfile.read(int(length))
        return True

    def _camera(self) -> Broadcast:
        """Return the camera that the query names by its number."""
        text, broadcasts = self._query.get("camera", "0"), self._page.broadcasts
        if not (_is_number(text) and int(text) < len(broadcasts)):
            raise ParameterError(f"camera must be an integer in [0, {len(broadcasts) - 1}], got {text!r}")
        return broadcasts[int(text)]

    def _view(self, camera: Broadcast) -> str:
        view = self._query.get("view", camera.controls.view)
        if view not in LIVE_VIEWS:
            raise ParameterError(f"view must be one of {', '.join(LIVE_VIEWS)}, got {view!r}")
        return view

    # -- answers -------------------------------------------------------------------------------------------------

    def _file(self) -> None:
        name, kind = _FILES[self._route]
        if "token" in self._query and self._page.access.token is not None:
            # Out of the address bar, the history and the way of whoever looks over the shoulder.
            cookie = f"{self._page.access.cookie}={self._page.access.token}; Path=/; HttpOnly; SameSite=Lax"
            self._send(HTTPStatus.SEE_OTHER, b"", kind, {"Location": self._route, "Set-Cookie": cookie})
            return
        content = resources.files("bgsub.live").joinpath("page", name).read_bytes()
        self._send(HTTPStatus.OK, content, kind)

    def _statistics(self) -> None:
        self._send_json(HTTPStatus.OK, tell(self._page.broadcasts, self._page.regions))

    def _snapshot(self) -> None:
        camera = self._camera()
        view = self._view(camera)
        disposition = f'attachment; filename="snapshot-{view}.png"'
        self._send(HTTPStatus.OK, camera.png(view), "image/png", {"Content-Disposition": disposition})

    def _picture(self) -> None:
        camera = self._camera()
        with camera.watch(self._view(camera)) as latest:
            newest = latest.wait_newer(0, PATIENCE)
        if newest is None:
            self._fail(HTTPStatus.SERVICE_UNAVAILABLE, f"{camera.name} has no picture")
        else:
            self._send(HTTPStatus.OK, newest[1], "image/jpeg")

    def _control(self) -> None:
        if not self._page.access.is_same_origin(self._headers()):
            self._fail(HTTPStatus.FORBIDDEN, "a command is JSON and comes from the page itself")
            return
        do(self._body, self._page.broadcasts, self._page.regions)
        self._statistics()

    def _stream(self) -> None:
        camera = self._camera()
        view = self._view(camera)
        with self._page.stream() as is_free:
            if is_free:
                self._head(HTTPStatus.OK, multipart_headers())
                self._send_pictures(camera, view)
            else:
                self._fail(HTTPStatus.SERVICE_UNAVAILABLE, f"{_STREAMS} streams are watched already")

    def _send_pictures(self, camera: Broadcast, view: str) -> None:
        # A browser shows a part when the boundary of the next one arrives, so that one is sent along.
        boundary = f"--{BOUNDARY}\r\n".encode("ascii")
        self.wfile.write(boundary)
        with camera.watch(view) as latest:
            sequence = 0
            while not latest.closed and not self._is_gone():
                newer = latest.wait_newer(sequence, _LOOK)
                if newer is not None:
                    sequence, jpeg = newer
                    self.wfile.write(encode_part(jpeg).removeprefix(boundary) + boundary)

    def _is_gone(self) -> bool:
        """Return whether the browser has ended the connection, which no write would tell while nothing is written."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1024)

    # -- the wire ------------------------------------------------------------------------------------------------

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request, or a method that is not used here."""
        self._fail(HTTPStatus(code), message or explain or HTTPStatus(code).phrase)

    def _fail(self, status: HTTPStatus, message: str) -> None:
        self._send_json(status, {"error": message})

    def _send_json(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        self._send(status, json.dumps(content).encode(), "application/json")

    def _send(self, status: HTTPStatus, content: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self._head(status, {"Content-Type": kind, "Content-Length": str(len(content)), **(more or {})})
        self.wfile.write(content)

    def _head(self, status: HTTPStatus, fields: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_PROTECTION, **fields}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Tell of a request in one line, without what follows the question mark: the token may be there."""
        path = self.path.partition("?")[0] if hasattr(self, "path") else "?"
        logger.debug("%s %s %s %s", self.client_address[0], self.command, ascii(path)[1:-1], int(code))

    def log_message(self, format: str, *args: Any) -> None:
        """Tell of a request that is none."""
        logger.debug("%s %s", self.client_address[0], ascii(format % args))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
