"""Notifications by webhooks."""

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
"""Time limit of an answer in seconds."""

_TEMPORARY = {408, 425, 429}  # errors from 400 to 499 after which a further attempt makes sense


class WebhookNotifier(Destination):
    """Sends each notification as a POST request with JSON (``application/json``).

    A status from 200 to 299 is a success. Redirects are not followed, because the notification and the password in
    the address are for this address only. Certificates are checked against those of the system.

    Parameters
    ----------
    address : str
        ``http://`` or ``https://``; user name and password in it are sent as basic authentication.
    timeout : float
        Time limit of the answer in seconds.

    Raises
    ------
    ParameterError
        If the address is not of this form.

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
        # The path of a webhook is often a secret.
        self.name = f"webhook {parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def send(self, notification: Notification) -> None:
        connection = self._connection = self._kind(self._host, self._port, timeout=self._timeout)
        end = time.monotonic() + self._timeout
        # The time limit of a connection applies to each read; a slow server could take many of them.
        timer = threading.Timer(self._timeout, self.cancel)
        timer.name = "bgsub-webhook-limit"
        timer.start()
        try:
            connection.request("POST", self._path, notification.to_json(), self._headers)
            answer = connection.getresponse()
            status, reason = answer.status, answer.reason
            if time.monotonic() >= end:  # the connection was closed by the timer
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
            raise DeliveryError(f"answers {status} {reason}", final=status < 500 and status not in _TEMPORARY)

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
