"""Notifications as calls of a web address."""

from __future__ import annotations

import threading
import time
from base64 import b64encode
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from socket import SHUT_RDWR
from urllib.parse import quote, unquote, urlsplit

from bgsub._version import __version__
from bgsub.errors import ParameterError
from bgsub.events.notifications.notification import DeliveryError, Destination, Notification
from bgsub.video.sources.camera_address import without_password

LIMIT = 10.0
"""Seconds in which a server must answer."""

_PASSING = {408, 425, 429}  # of the answers from 400 to 499: they ask for patience


class WebhookNotifier(Destination):
    """Sends each notification to a web address: POST with the JSON as ``application/json``.

    Any answer from 200 to 299 is a success. Redirects are not followed, because the notification and the password in
    the address are for this address only. Certificates are checked against those of the system.

    Parameters
    ----------
    address : str
        ``http://`` or ``https://``; user name and password in it are sent as basic authentication.
    timeout : float
        Seconds in which the answer must be there.

    Raises
    ------
    ParameterError
        If it is no such address.

    Examples
    --------
    >>> from bgsub.events import EventFeed, NotificationSink, ObjectLinker, WebhookNotifier
    >>> notifier = WebhookNotifier("http://homeassistant.local:8123/api/webhook/gate", timeout=5)
    >>> sink = NotificationSink(EventFeed(ObjectLinker()), [notifier], source="gate")
    """

    def __init__(self, address: str, *, timeout: float = LIMIT) -> None:
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if parts.scheme not in ("http", "https") or not host or any(not sign.isprintable() for sign in address):
            raise ParameterError(
                f"a webhook is an address http://HOST/... or https://HOST/..., got '{without_password(address)}'"
            )
        secure = parts.scheme == "https"
        self._kind: type[HTTPConnection] = HTTPSConnection if secure else HTTPConnection
        self._host, self._port, self._timeout = host, port or (443 if secure else 80), timeout
        self._path = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), "/%?&=+:;,@!$'()*~[]")
        self._headers = {"Content-Type": "application/json", "User-Agent": f"bgsub/{__version__}"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {b64encode(login).decode('ascii')}"
        self._connection: HTTPConnection | None = None
        # The path of a webhook is its password as often as not.
        self.name = f"webhook {parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def send(self, notification: Notification) -> None:
        connection = self._connection = self._kind(self._host, self._port, timeout=self._timeout)
        end = time.monotonic() + self._timeout
        # The limit of the connection is that of each step; a server that sends byte by byte has many.
        timer = threading.Timer(self._timeout, self.cancel)
        timer.name = "bgsub-webhook-limit"
        timer.start()
        try:
            connection.request("POST", self._path, notification.to_json(), self._headers)
            answer = connection.getresponse()
            status, reason = answer.status, answer.reason
            if time.monotonic() >= end:  # the rest of it was cut off
                raise TimeoutError
        except (OSError, HTTPException) as error:
            raise DeliveryError(self._what(error, late=time.monotonic() >= end)) from None
        finally:
            timer.cancel()
            timer.join()
            connection.close()
        if 300 <= status <= 399:
            raise DeliveryError(f"answers {status}: it is at another address, which must be given instead", final=True)
        if not 200 <= status <= 299:
            raise DeliveryError(f"answers {status} {reason}", final=status < 500 and status not in _PASSING)

    def cancel(self) -> None:
        socket = None if self._connection is None else self._connection.sock
        if socket is not None:
            with suppress(OSError):
                socket.shutdown(SHUT_RDWR)

    def _what(self, error: OSError | HTTPException, late: bool) -> str:
        if late or isinstance(error, TimeoutError):
            return f"no answer within {self._timeout:g} s"
        if isinstance(error, (RemoteDisconnected, ConnectionResetError)):
            return "ends the connection without an answer"
        return f"no answer: {getattr(error, 'strerror', None) or error or type(error).__name__}"
