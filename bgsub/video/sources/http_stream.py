"""The bytes of an HTTP camera, with limits of time and size.

FFmpeg's own HTTP reader has no limit of memory: endless images and headers that lie took 0.6 to 1.3 GB.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
import urllib.request
from functools import partial
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit, urlunsplit

_MOST_BYTES = 64 << 20  # for one frame
_PIECE = 1 << 20  # bytes read at once to skip data
_KEPT = 1 << 16  # bytes that FFmpeg may read again, to find the end of a part without a length
_HARMLESS = "%/:=&?~#+!$,;'@()*[]"  # characters that are not quoted in an address
_AGENT = {"User-Agent": "bgsub", "Accept": "*/*"}


class HttpStream(io.BufferedIOBase):
    """A file-like object that reads from an http or https address, without redirects to other hosts.

    The answer and all reads must come within `timeout` seconds until `renew` is called. `excess` says why the stream
    ended if the camera sent too much. OSError if there is no answer.
    """

    def __init__(self, address: str, timeout: float) -> None:
        self.excess = ""
        self.renew(timeout)
        parts = urlsplit(address)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=quote(parts.path, _HARMLESS))
        self._address = urlunsplit(bare._replace(query=quote(parts.query, _HARMLESS), fragment=""))
        self._opener = urllib.request.build_opener(
            _SameHost, *_connecting(self), *_authenticating(parts, self._address)
        )
        self._position = self._wanted = 0  # of the next byte from the network, and of the next to return
        self._recent = b""
        self._answer: Any = None
        self._ask()

    def renew(self, timeout: float) -> None:
        """Start the limits of time and bytes again, for the next frame."""
        self._left, self._end = _MOST_BYTES, time.monotonic() + timeout

    def read(self, size: int | None = -1) -> bytes:
        """Return some of the next bytes; none at the end or after an error."""
        back = self._position - self._wanted
        if 0 < back <= len(self._recent):
            data = self._recent[-back:][: None if size is None or size < 0 else size]
            self._wanted += len(data)
            return data
        try:
            if back:
                self._ask()
            data = self._answer.read1(size)
        except (OSError, ValueError, http.client.HTTPException):
            return b""
        self._position = self._wanted = self._wanted + len(data)
        self._recent = (self._recent + data)[-_KEPT:]
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position, without a known length only a little back; return -1 where FFmpeg cannot go."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._wanted, io.SEEK_END: self._length}.get(whence)
        if start is None:
            return -1
        first, last = (
            (0, self._length) if self._length is not None else (self._position - len(self._recent), self._position)
        )
        if not first <= start + offset <= last:
            return -1
        self._wanted = start + offset
        return self._wanted

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._wanted

    def close(self) -> None:
        """End the connection."""
        if self._answer is not None:
            self._answer.close()
        super().close()

    def _ask(self) -> None:
        """Send a request for the bytes from the wanted position on."""
        if self._answer is not None:
            self._answer.close()
        place = {"Range": f"bytes={self._wanted}-"} if self._wanted else {}
        request = urllib.request.Request(self._address, headers={**_AGENT, **place})
        try:
            self._answer = self._opener.open(request, timeout=max(self._end - time.monotonic(), 0.001))
        except HTTPError as error:
            error.close()
            raise
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(f"no answer of HTTP: {error}") from None
        if not self._wanted:
            length = self._answer.headers.get("Content-Length", "")
            self._length = int(length) if length.isascii() and length.isdigit() else None
        elif self._answer.status != http.client.PARTIAL_CONTENT:  # the whole file again: skip its beginning
            left = self._left
            for _ in range(self._wanted // _PIECE):
                self._answer.read(_PIECE)
                self._left = left
            self._answer.read(self._wanted % _PIECE)
        self._position, self._recent = self._wanted, b""

    def spend(self, connection: socket.socket, read: Any, buffer: memoryview) -> int | None:
        """Read from the network within the limits of time and bytes."""
        seconds = self._end - time.monotonic()
        if self._left <= 0:
            self.excess = f"more than {_MOST_BYTES >> 20} MB for one frame"
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
    """Follows redirects only within the same host."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        here, there = urlsplit(req.full_url), urlsplit(newurl)
        if there.hostname != here.hostname or there.scheme not in ("http", "https"):
            raise HTTPError(newurl, code, "redirect to another host", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _connecting(stream: HttpStream) -> list[urllib.request.BaseHandler]:
    """Return handlers of http and https with the limits of the stream; cameras have self-signed certificates."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def metered(kind: type[http.client.HTTPConnection], host: str, **options: Any) -> http.client.HTTPConnection:
        connection = kind(host, **options)
        connection.response_class = partial(_Response, stream)  # type: ignore[assignment]
        return connection

    class Plain(urllib.request.HTTPHandler):
        def http_open(self, req: Any) -> Any:
            return self.do_open(partial(metered, http.client.HTTPConnection), req)

    class Secret(urllib.request.HTTPSHandler):
        def https_open(self, req: Any) -> Any:
            return self.do_open(partial(metered, http.client.HTTPSConnection), req, context=context)

    return [Plain(), Secret()]


def _authenticating(parts: Any, address: str) -> list[urllib.request.BaseHandler]:
    if parts.username is None:
        return []
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    passwords.add_password(None, address, unquote(parts.username), unquote(parts.password or ""))
    kinds = urllib.request.HTTPDigestAuthHandler, urllib.request.HTTPBasicAuthHandler
    return [kind(passwords) for kind in kinds]
