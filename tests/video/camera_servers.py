"""Cameras on the network with certificates, passwords and redirects."""

import base64
import http.server
import re
import socketserver
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from live_fakes import QuietServer
from video_fakes import make_frames

from bgsub._opencv import cv2

JPEG = bytes(cv2.imencode(".jpg", make_frames(1, 48, 64)[0])[1])
#: Key and certificate of "localhost", signed by itself. Made by `openssl req -x509 -newkey ec -pkeyopt
#: ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj /CN=localhost -addext subjectAltName=DNS:localhost`.
CERTIFICATE = Path(__file__).with_name("localhost.pem")

BASIC = 'Basic realm="door"'
ME = "Basic " + base64.b64encode(b"me:secret").decode()
_SDP = b"v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=RTSP/RTP stream\r\nt=0 0\r\nm=video 0 RTP/AVP 33\r\na=control:v\r\n"
_REST = {
    "DESCRIBE": b"Content-Type: application/sdp\r\nContent-Length: %d\r\n\r\n%s" % (len(_SDP), _SDP),
    "SETUP": b"Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n\r\n",
}  # the answers to some methods, after their number


def add_tls(server: socketserver.BaseServer) -> None:
    """Make a server use `CERTIFICATE`; a client that refuses it does not end the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)


class HttpCamera(QuietServer, http.server.ThreadingHTTPServer):
    """Sends `body`, or what `answer` returns for a path: a status and the fields of the header; see `RtspCamera`.

    `accepts` gets the password of a request and its path.
    """

    host = "127.0.0.1"
    body = JPEG * 20

    def __init__(self, ask="", answer=None, accepts=lambda _secret, _path: True) -> None:
        super().__init__((self.host, 0), _HttpHandler)
        self.ask, self.answer, self.accepts, self.requests, self.secrets = ask, answer, accepts, [], []
        self.port = self.server_address[1]


class _HttpHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server, secret = self.server, self.headers.get("Authorization")
        server.requests.append(self.path)
        server.secrets += [secret] if secret else []
        code, fields = server.answer(self.path) if server.answer else (200, {})
        if code == 200 and server.ask and not (secret and server.accepts(secret, self.path)):
            code, fields = 401, {"WWW-Authenticate": server.ask}
        body = fields.pop("body", server.body if code == 200 else b"")
        self.send_response(code)
        for name, value in {**fields, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class RtspCamera(QuietServer, socketserver.ThreadingTCPServer):
    """Sends a video, the bytes of MPEG-TS, again and again.

    `ask` is the challenge for the password "secret" of "me". `answer` may return another answer to a request, None for
    the usual one: an iterator, or bytes of which the first are sent in 40 pieces of `piece` bytes. `requests` are the
    methods of all requests, `secrets` their passwords.
    """

    piece = 1 << 16
    host = "127.0.0.1"

    def __init__(self, video: bytes, ask: str = "", answer=lambda _: None) -> None:
        super().__init__((self.host, 0), _RtspHandler)
        self.video, self.ask, self.answer = video, ask, answer
        self.requests, self.secrets = [], []
        self.port = self.server_address[1]


class _RtspHandler(socketserver.StreamRequestHandler):
    timeout = 10
    disable_nagle_algorithm = True

    def handle(self) -> None:
        with suppress(OSError):
            while (request := self._request()) and self._reply(request):
                pass

    def _request(self) -> str:
        lines = takewhile(bytes.strip, self.rfile)  # up to an empty one, or to the end of the connection
        return "\n".join(line.decode("latin-1").strip() for line in lines)

    def _reply(self, request: str) -> bool:
        server, method = self.server, request.partition(" ")[0]
        secret = re.search(r"^Authorization: (.*)$", request, re.MULTILINE)
        number = re.search(r"^CSeq: \d+$", request, re.MULTILINE)[0].encode()
        server.requests.append(method)
        if secret:
            server.secrets.append(secret[1])
        other = server.answer(method)
        if isinstance(other, Iterator):
            for block in other:
                self.wfile.write(block.replace(b"CSEQ", number))
        elif other is not None:
            other, begin = other.replace(b"CSEQ", number), 40 * server.piece
            for place in range(0, begin, server.piece):
                self.wfile.write(other[place : place + server.piece])
                time.sleep(0.001)
            self.wfile.write(other[begin:])
        elif server.ask and method != "OPTIONS" and (secret is None or secret[1] != ME):
            challenge = b"WWW-Authenticate: %s" % server.ask.encode()
            self.wfile.write(b"RTSP/1.0 401 Unauthorized\r\n%s\r\n%s\r\n\r\n" % (number, challenge))
        else:
            self.wfile.write(b"RTSP/1.0 200 OK\r\n%s\r\n%s" % (number, _REST.get(method, b"\r\n")))
            if method == "PLAY":
                self._play()
        return method != "TEARDOWN"

    def _play(self) -> None:
        number, video = 0, self.server.video
        while True:
            for begin in range(0, len(video), 7 * 188):
                part = video[begin : begin + 7 * 188]
                head = bytes([0x80, 33]) + number.to_bytes(2, "big") + (number * 90).to_bytes(4, "big") + b"\0\0\0\1"
                self.wfile.write(b"$\0" + (len(part) + 12).to_bytes(2, "big") + head + part)
                number = (number + 1) % (1 << 16)
                time.sleep(0.001)
