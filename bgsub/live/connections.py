"""Who is connected to the page: those who are welcome, and those who have yet to prove it, whose time is short."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

_STRANGERS = 32  # connections at most whose request is not here whole, or lacks the token
_WELCOME = 64  # others at most; a page holds one per camera and asks for numbers by more


@dataclass(frozen=True)
class _Stranger:
    address: str
    since: float  # on the clock `time.monotonic`


class Connections:
    """The open connections of a server; safe to use from any thread.

    A new one is a stranger, for `patience` seconds at most, until `welcome` is called. Where there are too many of
    them, the oldest of the address that has the most is closed: whoever holds many keeps out nobody but himself.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._strangers: dict[socket.socket, _Stranger] = {}  # oldest first
        self._welcome: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._strangers) + len(self._welcome)

    def add(self, connection: socket.socket, address: str) -> None:
        """Take in a new connection, at the cost of another one where there are too many."""
        with self._lock:
            if len(self._strangers) >= _STRANGERS:
                ((most, _),) = Counter(one.address for one in self._strangers.values()).most_common(1)
                self._drop(next(other for other, one in self._strangers.items() if one.address == most))
            self._strangers[connection] = _Stranger(address, time.monotonic())

    def welcome(self, connection: socket.socket) -> bool:
        """Let a connection stay whose request is here whole, with the token; False if too many such are there."""
        with self._lock:
            if connection not in self._strangers or len(self._welcome) >= _WELCOME:
                return False
            del self._strangers[connection]
            self._welcome.add(connection)
            return True

    def remove(self, connection: socket.socket) -> None:
        """Forget a connection that ends."""
        with self._lock:
            self._strangers.pop(connection, None)
            self._welcome.discard(connection)

    def end_late(self) -> None:
        """Close those that have been strangers for too long."""
        latest = time.monotonic() - self._patience
        with self._lock:
            for connection in [other for other, one in self._strangers.items() if one.since < latest]:
                self._drop(connection)

    def end(self) -> None:
        """Close all; the threads that serve them then come to their ends."""
        with self._lock:
            for connection in (*self._strangers, *self._welcome):
                _shut(connection)

    def _drop(self, connection: socket.socket) -> None:
        del self._strangers[connection]
        _shut(connection)


def _shut(connection: socket.socket) -> None:
    """End a connection, whatever another thread does with it, and leave the closing to that one."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
