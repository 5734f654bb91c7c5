"""The bytes of network cameras: an HTTP reader with limits of time and size, and a relay for RTSP.

FFmpeg's own HTTP reader has no limit of memory (endless images took 0.6 to 1.3 GB), and its RTSP client follows
redirects and sends the password of the address there, which no option prevents.
"""

import http.client
import io
import re
import selectors
import socket
import ssl
import threading
import time
import urllib.request
from contextlib import suppress
from functools import partial
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from bgsub.video.sources.camera_address import without_password

MOST_BYTES = 64 << 20  # for one frame
_HARMLESS = "%/:=&?~#+!$,;'@()*[]"  # characters that are not quoted in an address
_AGENT = {"User-Agent": "bgsub", "Accept": "*/*"}


class RefusedError(OSError):
    """A camera that answers is not used; the text is the reason."""

    @classmethod
    def of(cls, error: object) -> Self | None:
        """Return the error for a certificate that cannot be verified; None for other errors."""
        if not isinstance(error, ssl.SSLCertVerificationError):
            return None
        reason = error.verify_message.rstrip(".")
        return cls(f"its certificate is not accepted ({reason}); --insecure skips the check")


def tls_context(insecure: bool) -> ssl.SSLContext:
    """Return settings of TLS that verify certificates unless `insecure`."""
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class HttpStream(io.BufferedIOBase):
    """Reads an http or https address, front to back, within `timeout` until `renew`; `excess` is why it was cut off."""

    def __init__(self, address: str, timeout: float, insecure: bool = False) -> None:
        self.excess = ""
        self._answer: Any = io.BytesIO()  # until there is one
        self.renew(timeout)
        parts = urlsplit(address)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=quote(parts.path, _HARMLESS))
        address = urlunsplit(bare._replace(query=quote(parts.query, _HARMLESS), fragment=""))
        handlers = _connecting(self, insecure)
        if parts.username is not None:
            passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
            passwords.add_password(None, address, unquote(parts.username), unquote(parts.password or ""))
            kinds = urllib.request.HTTPDigestAuthHandler, urllib.request.HTTPBasicAuthHandler
            handlers += [kind(passwords) for kind in kinds]
        opener = urllib.request.build_opener(_SameHost(parts.username is not None), *handlers)
        self._answer = self._ask(address, opener)
        self.has_end = self._answer.length is not None  # the header states the number of bytes
        is_playlist = self._answer.headers.get_content_type().endswith(("mpegurl", "dash+xml"))
        self.refused = "it is a playlist, and its address does not end in .m3u8 or .mpd" if is_playlist else ""

    def renew(self, timeout: float) -> None:
        """Start the limits of time and bytes again, for the next frame."""
        self._left, self._end = MOST_BYTES, time.monotonic() + timeout

    def read(self, size: int | None = -1) -> bytes:
        """Return some of the next bytes; none at the end or after an error."""
        with suppress(OSError, ValueError, http.client.HTTPException):
            return self._answer.read1(size)
        return b""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._answer.close()
        super().close()

    def _ask(self, address: str, opener: urllib.request.OpenerDirector) -> Any:
        request = urllib.request.Request(address, headers=_AGENT)
        try:
            return opener.open(request, timeout=max(self._end - time.monotonic(), 0.001))
        except HTTPError as error:
            error.close()
            raise
        except URLError as error:
            raise RefusedError.of(error.reason) or error from None
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(f"no answer of HTTP: {error}") from None

    def spend(self, connection: socket.socket, read: Any, buffer: memoryview) -> int | None:
        """Read from the network within the limits of time and bytes."""
        seconds = self._end - time.monotonic()
        if self._left <= 0:
            self.excess = f"more than {MOST_BYTES >> 20} MB for one frame"
        if self._left <= 0 or seconds <= 0:
            raise TimeoutError("the camera takes too long")
        connection.settimeout(seconds)
        count: int | None = read(buffer)
        self._left -= count or 0
        return count


class _Metered(io.RawIOBase):
    """A connection whose bytes, with those of the header, count for the limits of the stream."""

    def __init__(self, stream: HttpStream, connection: socket.socket) -> None:
        self._stream, self._connection = stream, connection
        self._file = connection.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        return self._stream.spend(self._connection, self._file.readinto, buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, stream: HttpStream, connection: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(connection, *arguments, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_Metered(stream, connection))


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects within the same host, but not from https to http; with a password, to the same port only."""

    def __init__(self, has_password: bool) -> None:
        self._has_password = has_password

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        here, there = urlsplit(req.full_url), urlsplit(newurl)
        is_near = there.hostname == here.hostname and there.scheme in (here.scheme, "https")
        if not is_near or (self._has_password and _origin(there) != _origin(here)):
            fp.close()
            raise RefusedError(f"it redirects to {without_password(newurl)!r}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(parts: Any) -> tuple[str, str, int]:
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme]


def _connecting(stream: HttpStream, insecure: bool) -> list[urllib.request.BaseHandler]:
    """Return handlers of http and https with the limits of the stream."""

    def metered(kind: type[http.client.HTTPConnection], host: str, **options: Any) -> http.client.HTTPConnection:
        connection = kind(host, **options)
        connection.response_class = partial(_Response, stream)  # type: ignore[assignment]
        return connection

    class Plain(urllib.request.HTTPHandler):
        def http_open(self, req: Any) -> Any:
            return self.do_open(partial(metered, http.client.HTTPConnection), req)

    class Secret(urllib.request.HTTPSHandler):
        def https_open(self, req: Any) -> Any:
            return self.do_open(partial(metered, http.client.HTTPSConnection), req, context=tls_context(insecure))

    return [Plain(), Secret()]


_PORTS = {"rtsp": 554, "rtsps": 322}
_BLOCK = 1 << 16
# A status that FFmpeg reads as 3xx: it takes signs, leading zeros and an overflow, and ignores carriage returns.
_REDIRECT = re.compile(rb"RTSP/(?:(?!RTSP/)[^ \t\n])*[ \t]+[\v\f]*(?:[+-]|0\d|3\d\d|\d{10})")
_STATUS_LINE = 2048  # bytes; FFmpeg reads the first 1023 of a line


class RtspRelay:
    """A connection to a camera, and a local `address` that passes on its bytes; a redirect before `is_open` ends it."""

    has_end = False

    def __init__(self, address: str, timeout: float, insecure: bool) -> None:
        parts = urlsplit(address)
        if not parts.hostname:
            raise ValueError("no host")
        self.refused = self.excess = ""
        self.is_open, self._timeout = False, timeout
        self.renew(timeout)
        self._camera = socket.create_connection((parts.hostname, parts.port or _PORTS[parts.scheme]), timeout)
        try:
            if parts.scheme == "rtsps":
                self._camera = tls_context(insecure).wrap_socket(self._camera, server_hostname=parts.hostname)
            self._door = socket.create_server(("127.0.0.1", 0), backlog=1)
        except BaseException as error:
            self._camera.close()
            raise RefusedError.of(error) or error from None
        self._door.settimeout(timeout)
        user, at, _ = parts.netloc.rpartition("@")
        netloc = f"{user}{at}127.0.0.1:{self._door.getsockname()[1]}"
        self.address = parts._replace(scheme="rtsp", netloc=netloc).geturl()
        threading.Thread(target=self._run, name="bgsub-rtsp", daemon=True).start()

    def renew(self, _timeout: float) -> None:
        """Start the limit of bytes again, for the next frame."""
        self._left = MOST_BYTES

    def close(self) -> None:
        """End the connection, from any thread; may be called more than once."""
        with suppress(OSError):
            socket.socket.shutdown(self._camera, socket.SHUT_RDWR)

    def _run(self) -> None:
        with suppress(OSError), self._camera:
            with self._door:
                client, _ = self._door.accept()
            with client:
                client.settimeout(None)
                self._pass_on(client, self._camera)

    def _pass_on(self, client: socket.socket, camera: socket.socket) -> None:
        """Pass on the bytes in both directions until a side ends the connection, or the camera redirects."""
        ready, seen = selectors.DefaultSelector(), b""
        for side in (client, camera):
            ready.register(side, selectors.EVENT_READ)
        camera.settimeout(0)  # a message of TLS may be without data
        with ready:
            while True:
                for key, _ in ready.select():
                    if key.fileobj is client:
                        data = client.recv(_BLOCK)
                        camera.settimeout(self._timeout)
                        camera.sendall(data)
                        camera.settimeout(0)
                    else:
                        try:
                            data = camera.recv(_BLOCK)
                        except ssl.SSLWantReadError:
                            continue
                        seen = b"" if self.is_open else seen[-_STATUS_LINE:] + data.replace(b"\r", b"")
                        self._left -= len(data)
                        if _REDIRECT.search(seen):
                            self.refused = "it redirects to another address, which is not followed"
                        elif self._left < 0:
                            self.excess = f"more than {MOST_BYTES >> 20} MB for one frame"
                        if self.refused or self.excess:
                            return
                        client.sendall(data)
                    if not data:
                        return
