"""Access control of the live page: this machine or clients with the token, and limits on connections."""

import hmac
import ipaddress
import re
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from bgsub.errors import ParameterError

_MIN_TOKEN = 8  # characters
_MAX_PENDING = 32  # connections whose request is incomplete or has no token
_MAX_AUTHENTICATED = 64  # a page uses one per camera and more for statistics


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine only."""
    with suppress(ValueError):
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    return False


class Access:
    """Checks the header fields of requests to `host`, which need its `token`: on this machine by default none."""

    def __init__(self, host: str, token: str | None = None) -> None:
        if token is not None and not re.fullmatch(rf"[A-Za-z0-9_-]{{{_MIN_TOKEN},}}", token):
            raise ParameterError(f"token must be at least {_MIN_TOKEN} letters, digits, '-' or '_'")
        self._host = host
        self.token = secrets.token_urlsafe(16) if token is None and not is_loopback(host) else token
        self.cookie = "bgsub-token"  # the server adds its port, since browsers send cookies to all ports of a host

    def has_token(self, headers: Mapping[str, str], query: Mapping[str, str]) -> bool:
        """Return whether a request has the token: ``?token=``, ``Authorization: Bearer``, or the cookie."""
        if self.token is None:
            return True
        given = [query.get("token", ""), headers.get("Authorization", "").removeprefix("Bearer ")]
        with suppress(CookieError):
            given += [one.value for name, one in SimpleCookie(headers.get("Cookie", "")).items() if name == self.cookie]
        return any(hmac.compare_digest(text.encode(), self.token.encode()) for text in given)

    def knows_host(self, headers: Mapping[str, str]) -> bool:
        """Return whether the field Host is one of this machine; another one is a sign of DNS rebinding."""
        if self.token is not None:
            return True
        name = urlsplit(f"//{headers.get('Host', '')}").hostname or ""
        return is_loopback(name) or name == self._host.lower()

    @staticmethod
    def is_embedded(headers: Mapping[str, str]) -> bool:
        """Return whether another site embeds the response; a plain link to the page is allowed."""
        elsewhere = headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")
        return elsewhere and headers.get("Sec-Fetch-Dest", "") != "document"

    @staticmethod
    def is_same_origin(headers: Mapping[str, str]) -> bool:
        """Return whether a command is JSON, which a form cannot send, and comes from the page or from no page."""
        if headers.get("Content-Type", "").split(";")[0].strip().lower() != "application/json":
            return False
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("Origin")
        return origin is None or ("Host" in headers and origin.partition("://")[2] == headers["Host"])


class Connections:
    """Pending and authenticated connections of a server, for any thread; pending ones have `patience` seconds."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._pending: dict[socket.socket, tuple[str, float]] = {}  # address and start, oldest first
        self._authenticated: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._pending) + len(self._authenticated)

    def add(self, connection: socket.socket, address: str) -> None:
        """Add a pending connection; close another one where there are too many."""
        with self._lock:
            if len(self._pending) >= _MAX_PENDING:  # one client cannot lock out others
                ((most, _),) = Counter(other for other, _ in self._pending.values()).most_common(1)
                self._drop(next(one for one, (other, _) in self._pending.items() if other == most))
            self._pending[connection] = address, time.monotonic()

    def authenticate(self, connection: socket.socket) -> bool:
        """Mark a connection as authenticated; return False if there are too many."""
        with self._lock:
            if connection not in self._pending or len(self._authenticated) >= _MAX_AUTHENTICATED:
                return False
            del self._pending[connection]
            self._authenticated.add(connection)
            return True

    def remove(self, connection: socket.socket) -> None:
        with self._lock:
            self._pending.pop(connection, None)
            self._authenticated.discard(connection)

    def close_expired(self) -> None:
        latest = time.monotonic() - self._patience
        with self._lock:
            for connection in [one for one, (_, since) in self._pending.items() if since < latest]:
                self._drop(connection)

    def close_all(self) -> None:
        """Close all connections, which ends their threads."""
        with self._lock:
            for connection in (*self._pending, *self._authenticated):
                _shut_down(connection)

    def _drop(self, connection: socket.socket) -> None:
        del self._pending[connection]
        _shut_down(connection)


def _shut_down(connection: socket.socket) -> None:
    """End a connection that another thread uses; that thread closes it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
