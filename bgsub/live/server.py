"""The web server of a live run, and its answers to browsers."""

import errno
import http.server
import json
import mimetypes
import os
import re
import select
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bgsub.errors import ParameterError, SinkError, check_choice, logger
from bgsub.events.pictures import Highlight
from bgsub.jobs.controls import LIVE_VIEWS, Controls
from bgsub.live.access import Access, Connections
from bgsub.live.page_commands import RegionStore, run_command, state_of
from bgsub.live.viewer import BOUNDARY, MULTIPART, Broadcast, encode_part

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
_MAX_BODY = 1 << 16  # bytes; regions have many corners
MAX_STREAMS = 16  # of all browsers
PATIENCE = 10  # seconds for a client to send its whole request, or to take a picture
_CHUNK, _CLIP_PATIENCE = 1 << 16, 300  # bytes; seconds for a player that waits
_POLL = 0.5  # seconds between two checks whether the browser has closed the connection

_Answer = Callable[[], None]


class _Refusal(Exception):
    """The answer to a request that is not allowed or fails."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class LiveHandler(http.server.BaseHTTPRequestHandler):
    """Answer one request, if `bgsub.live.access` allows it; ``/stream`` is Motion JPEG, ``/control`` takes JSON."""

    server_version = "bgsub"
    sys_version = ""
    timeout = PATIENCE
    server: "LiveServer"

    def do_GET(self) -> None:
        routes: dict[str, _Answer] = {
            "/stream": self._stream,
            "/picture.jpg": self._picture,
            "/statistics": self._statistics,
            "/snapshot.png": self._snapshot,
            "/event.jpg": self._event_picture,
            "/clip": self._clip,
        }
        routes.update(dict.fromkeys(_FILES, self._file))
        self._answer(routes)

    def do_POST(self) -> None:
        self._answer({"/control": self._control})

    def _answer(self, routes: dict[str, _Answer]) -> None:
        try:
            answer = self._allowed(routes)
            self._body = self._read_body() if self.command == "POST" else b""
            if not self.server.connections.authenticate(self.connection):  # this also ends its time limit
                raise _Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")
            answer()
        except _Refusal as refusal:
            self._fail(refusal.status, str(refusal))
        except (ParameterError, SinkError) as error:
            self._fail(HTTPStatus.BAD_REQUEST, str(error))
        except OSError:
            logger.debug("the browser at %s closed the connection", self.client_address[0])

    def _allowed(self, routes: dict[str, _Answer]) -> _Answer:
        """Return the answer to the address of the request, if its header fields are allowed."""
        headers: Any = self.headers
        access = self.server.access
        try:
            parts = urlsplit(self.path)
            known = access.knows_host(headers)
        except ValueError:  # such as half of a bracket
            raise _Refusal(HTTPStatus.BAD_REQUEST, "invalid address") from None
        self._route, self._query = parts.path, dict(parse_qsl(parts.query))
        if not known:
            raise _Refusal(HTTPStatus.FORBIDDEN, "this page is for local use only")
        if not access.has_token(headers, self._query):
            raise _Refusal(HTTPStatus.FORBIDDEN, "the token is missing or wrong")
        if access.is_embedded(headers):
            raise _Refusal(HTTPStatus.FORBIDDEN, "other sites may link to this page, but not embed it")
        if parts.path not in routes:
            raise _Refusal(HTTPStatus.NOT_FOUND, "no such page")
        return routes[parts.path]

    def _read_body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not _is_number(length):
            raise _Refusal(HTTPStatus.LENGTH_REQUIRED, "a command needs a Content-Length")
        if int(length) > _MAX_BODY:
            raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a command has at most {_MAX_BODY} bytes")
        return self.rfile.read(int(length))

    def _camera(self) -> Broadcast:
        text, broadcasts = self._query.get("camera", "0"), self.server.broadcasts
        if not (_is_number(text) and int(text) < len(broadcasts)):
            raise ParameterError(f"camera must be an integer in [0, {len(broadcasts) - 1}], got {text!r}")
        return broadcasts[int(text)]

    def _view(self, camera: Broadcast) -> str:
        view = self._query.get("view", camera.controls.view)
        check_choice("view", view, LIVE_VIEWS)
        return view

    def _file(self) -> None:
        name, kind = _FILES[self._route]
        if "token" in self._query and self.server.access.token is not None:
            # A redirect removes the token from the address bar and the history.
            cookie = f"{self.server.access.cookie}={self.server.access.token}; Path=/; HttpOnly; SameSite=Lax"
            self._send(HTTPStatus.SEE_OTHER, b"", kind, {"Location": self._route, "Set-Cookie": cookie})
            return
        content = resources.files("bgsub.live").joinpath("page", name).read_bytes()
        self._send(HTTPStatus.OK, content, kind)

    def _statistics(self) -> None:
        self._send_json(HTTPStatus.OK, state_of(self.server.broadcasts, self.server.regions))

    def _snapshot(self) -> None:
        camera = self._camera()
        view = self._view(camera)
        disposition = f'attachment; filename="snapshot-{view}.png"'
        self._send(HTTPStatus.OK, camera.png(view), "image/png", {"Content-Disposition": disposition})

    def _picture(self) -> None:
        camera = self._camera()
        newest = camera.next_jpeg(self._view(camera))
        if newest is None or not newest[1]:
            raise _Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{camera.name} has no picture")
        self._send(HTTPStatus.OK, newest[1], "image/jpeg")

    def _event(self, otherwise: str) -> Highlight:
        """Return the event of the query; the message `otherwise` is the answer if it is not kept."""
        text = self._query.get("number", "")
        if not _is_number(text):
            raise ParameterError(f"number must be the number of an event, got {text!r}")
        recent = self._camera().recent
        found = None if recent is None else recent.find(int(text))
        if found is None:
            raise _Refusal(HTTPStatus.NOT_FOUND, otherwise)
        return found

    def _event_picture(self) -> None:
        self._send(HTTPStatus.OK, self._event("the event is not kept").jpeg, "image/jpeg")

    def _clip(self) -> None:
        missing = "the clip does not exist"
        path = Path(self._event(missing).event.clip or "")
        try:
            file = path.open("rb")
        except OSError:  # also of an event without a clip
            raise _Refusal(HTTPStatus.NOT_FOUND, missing) from None
        with file:
            size = os.fstat(file.fileno()).st_size
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            fields = {"Content-Type": kind, "Accept-Ranges": "bytes"}
            wanted = re.fullmatch(r"bytes=(\d{1,15})-(\d{0,15})", self.headers.get("Range", ""))
            first = int(wanted[1]) if wanted else 0
            last = min(int(wanted[2]) if wanted and wanted[2] else size - 1, size - 1)
            status = HTTPStatus.OK
            if wanted and first <= last:
                status, fields["Content-Range"] = HTTPStatus.PARTIAL_CONTENT, f"bytes {first}-{last}/{size}"
            else:
                first, last = 0, size - 1
            self._head(status, {**fields, "Content-Length": str(last - first + 1)})
            self.connection.settimeout(_CLIP_PATIENCE)
            file.seek(first)
            for begin in range(first, last + 1, _CHUNK):
                self.wfile.write(file.read(min(_CHUNK, last + 1 - begin)))

    def _control(self) -> None:
        headers: Any = self.headers
        if not self.server.access.is_same_origin(headers):
            raise _Refusal(HTTPStatus.FORBIDDEN, "a command must be JSON and come from this page")
        run_command(self._body, self.server.broadcasts, self.server.regions)
        self._statistics()

    def _stream(self) -> None:
        camera = self._camera()
        view = self._view(camera)
        if not self.server.streams.acquire(blocking=False):
            raise _Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many streams")
        try:
            self._head(HTTPStatus.OK, MULTIPART)
            self._send_pictures(camera, view)
        finally:
            self.server.streams.release()

    def _send_pictures(self, camera: Broadcast, view: str) -> None:
        # A browser shows a part when it gets the boundary of the next one, so that one is sent along.
        boundary = f"--{BOUNDARY}\r\n".encode("ascii")
        self.wfile.write(boundary)
        number, again = -1, b""
        while not camera.ended and not self._is_gone():
            newer = camera.next_jpeg(view, number, _POLL)
            part, again = again, b""  # the last picture once more if none follows: Chromium shows the one before
            if newer is not None:
                number, jpeg = newer
                part = again = encode_part(jpeg).removeprefix(boundary) + boundary if jpeg else b""
            self.wfile.write(part)

    def _is_gone(self) -> bool:
        """Return whether the browser has closed the connection, while nothing is written to it."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1024)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse invalid requests and methods with JSON."""
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
        """Log a request without its query, which may have the token."""
        path = self.path.partition("?")[0] if hasattr(self, "path") else "?"
        logger.debug("%s %s %s %s", self.client_address[0], self.command, ascii(path)[1:-1], int(code))

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("%s %s", self.client_address[0], ascii(format % args))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


class LiveServer(http.server.ThreadingHTTPServer):
    """Serves the page of runs by name until it is closed; `port` 0 is a free one, other hosts need a `token`."""

    daemon_threads = False  # one for each connection; `server_close` waits for all of them
    request_queue_size = 128  # with a short queue, one client that connects often could delay others

    def __init__(
        self,
        cameras: Controls | Mapping[str, Controls],
        host: str = "127.0.0.1",
        port: int = 8765,
        token: str | None = None,
        regions: RegionStore | None = None,
    ) -> None:
        if not 0 <= port <= 65535:
            raise ParameterError(f"port must be an integer in [0, 65535], got {port}")
        named = {"camera": cameras} if isinstance(cameras, Controls) else cameras
        self.broadcasts = [Broadcast(controls, name) for name, controls in named.items()]
        self.regions, self.connections = regions or RegionStore(), Connections(PATIENCE)
        self.access, self.streams = Access(host, token), threading.Semaphore(MAX_STREAMS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), LiveHandler)
        except OSError as error:
            reason = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror or error
            raise SinkError(f"the page cannot be served at {host}:{port}: {reason}") from None
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="bgsub-server")
        self._thread.start()

    def close(self) -> None:
        """End the streams and all threads; may be called more than once."""
        for broadcast in self.broadcasts:
            broadcast.end()
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.connections.close_all()
        self.server_close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def server_bind(self) -> None:
        """Bind without the slow lookup of the full host name."""
        socketserver.TCPServer.server_bind(self)
        self.access.cookie += f"-{self.server_address[1]}"

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else str(host)
        shown = f"[{shown}]" if ":" in shown else shown
        return f"http://{shown}:{port}/" + (f"?token={self.access.token}" if self.access.token else "")

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request, client_address[0])
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.remove(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close expired connections; called between connections and several times a second."""
        self.connections.close_expired()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("the connection from %s broke", client_address[0], exc_info=True)
