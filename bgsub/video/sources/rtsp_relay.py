"""A local port through which FFmpeg reads an RTSP camera.

FFmpeg's RTSP client follows redirects and sends the password of the address there, which no option prevents.
"""

from __future__ import annotations

import re
import selectors
import socket
import ssl
import threading
from contextlib import suppress
from urllib.parse import urlsplit

from bgsub.video.sources.http_stream import MOST_BYTES, RefusedError, tls_context

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
        self.address = parts._replace(
            scheme="rtsp", netloc=f"{user}{at}127.0.0.1:{self._door.getsockname()[1]}"
        ).geturl()
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
