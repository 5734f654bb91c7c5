"""The bytes of a camera that speaks HTTP, with a limit of time and size for whatever it sends."""

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

_MOST_BYTES = 64 << 20  # that may come for one frame
_PIECE = 1 << 20  # bytes at a time of what is passed over
_KEPT = 1 << 16  # bytes of a stream to which FFmpeg goes back, to look for the end of a part without a length
_HARMLESS = "%/:=&?~#+!$,;'@()*[]"  # what stays as it is in an address
_AGENT = {"User-Agent": "bgsub", "Accept": "*/*"}


class HttpStream(io.BufferedIOBase):
    """What is behind an http or https address, for FFmpeg to read; it is led to no other host.

    Parameters
    ----------
    address : str
        Where to ask; user name and password in it answer a question for them (Basic or Digest).
    timeout : float
        Seconds for the answer and all that is read until `renew` is called.

    Raises
    ------
    OSError
        If nobody answers, or the answer is a refusal or none.

    Attributes
    ----------
    excess : str
        Why it ended, where the camera sent too much; empty otherwise.
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
        self._position = self._wanted = 0  # where the next byte is that comes, and the next that is given
        self._recent = b""
        self._answer: Any = None
        self._ask()

    def renew(self, timeout: float) -> None:
        """Begin with the next frame: so many seconds, and so many bytes, for what is read from now on."""
        self._left, self._end = _MOST_BYTES, time.monotonic() + timeout

    def read(self, size: int | None = -1) -> bytes:
        """Return some of the next bytes; none at the end, or where it is over for another reason."""
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
        """Go to another place, of what has no length a little back only; -1, as FFmpeg wants it, where it cannot be."""
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
        """Begin to read at the wanted place."""
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
        elif self._answer.status != http.client.PARTIAL_CONTENT:  # all of it, again: what is before is nobody's memory
            left = self._left
            for _ in range(self._wanted // _PIECE):
                self._answer.read(_PIECE)
                self._left = left
            self._answer.read(self._wanted % _PIECE)
        self._position, self._recent = self._wanted, b""

    def spend(self, connection: socket.socket, read: Any, buffer: memoryview) -> int | None:
        """Read from the network, as long as there are seconds and bytes left."""
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
    """A connection whose every byte, of the header too, is counted by the stream."""

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
    """Follows a camera from one of its own addresses to another, and nowhere else."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        here, there = urlsplit(req.full_url), urlsplit(newurl)
        if there.hostname != here.hostname or there.scheme not in ("http", "https"):
            raise HTTPError(newurl, code, "it leads to another place", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _connecting(stream: HttpStream) -> list[urllib.request.BaseHandler]:
    """Return what connects by http and https so that the stream counts; certificates of cameras are their own."""
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
