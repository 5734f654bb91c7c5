"""Destinations of notifications: commands and webhooks."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from base64 import b64encode
from collections.abc import Collection
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from socket import SHUT_RDWR
from tempfile import TemporaryFile
from typing import IO
from urllib.parse import quote, unquote, urlsplit

from bgsub._version import __version__
from bgsub.errors import ParameterError, did_you_mean
from bgsub.events.notifications.notification import PLACEHOLDERS, TYPES, DeliveryError, Destination, Notification
from bgsub.video.concurrency import after_seconds
from bgsub.video.sources.camera_address import without_password

LIMIT = 30.0  # time limit of a command in seconds

_TYPE = re.compile(rf"\s*({'|'.join(TYPES)}):")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")  # does not match {"state": "on"}
_FOLDERS = {"snapshot": "--snapshots", "clip": "--record"}
_OF_SHELLS = {"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "&>"}
_READ = 2000  # bytes at the end of the standard error, in which the last line is looked for
_MOST = 1 << 20  # bytes of the standard error that are stored
_TICK = 0.1  # seconds


class CommandNotifier(Destination):
    """Runs a command for each notification, with the JSON on standard input and placeholders in the arguments.

    The command runs without a shell: its words are split as a shell does, and the value of a placeholder stays within
    its word. A command fails if its exit code is not 0. After `timeout` seconds it is killed with its children.

    Parameters
    ----------
    command : str
        Program and arguments, with fields of `Notification` as placeholders: ``notify-send {event} {source}``. The
        prefix ``start:``, ``end:``, ``snapshot:`` or ``clip:`` restricts the command to this type.
    missing : collection of {"snapshot", "clip"}
        Files that are not stored in this run.
    timeout : float
        Time limit in seconds.

    Raises
    ------
    ParameterError
        If the command is empty or cannot be split, or has an unknown program, an unknown placeholder, shell syntax,
        or a placeholder of a missing file.

    Examples
    --------
    >>> from bgsub.events import CommandNotifier, EventFeed, NotificationSink, ObjectLinker
    >>> notifier = CommandNotifier("start: echo {event} in {source}")
    >>> sink = NotificationSink(EventFeed(ObjectLinker()), [notifier], source="gate")
    """

    def __init__(self, command: str, *, missing: Collection[str] = (), timeout: float = LIMIT) -> None:
        restricted = _TYPE.match(command)
        self._type = None if restricted is None else restricted[1]
        self._words = _split(command[restricted.end() if restricted else 0 :], command)
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False
        self.name = f"command {os.path.basename(self._words[0])}"
        for file in missing:
            if self._type == file or any(f"{{{file}}}" in word for word in self._words):
                raise ParameterError(
                    f"a command for {file}s needs a folder of them ({_FOLDERS[file]}), got '{command}'"
                )

    def wants(self, notification: Notification) -> bool:
        return self._type in (None, notification.type)

    def send(self, notification: Notification) -> None:
        words = [_PLACEHOLDER.sub(lambda found: notification.word(found[1]), word) for word in self._words]
        with TemporaryFile() as given, TemporaryFile() as said:  # unlike pipes, files never block
            given.write(notification.to_json())
            given.seek(0)
            try:
                # A separate session does not receive Ctrl-C and can be killed with all its children.
                self._process = subprocess.Popen(
                    words, stdin=given, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
                )
            except (OSError, ValueError) as error:
                raise DeliveryError(f"cannot be started: {getattr(error, 'strerror', None) or error}") from None
            if self._cancelled:
                _kill(self._process)
            code = self._wait(self._process, said)
            if code is None:
                raise DeliveryError(f"was killed after {self._timeout:g} s{_last_line(said)}")
            if code != 0:
                how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                raise DeliveryError(how + _last_line(said))

    def cancel(self) -> None:
        self._cancelled = True
        if self._process is not None:
            _kill(self._process)

    def _wait(self, process: subprocess.Popen[bytes], said: IO[bytes]) -> int | None:
        """Return the exit code, or None if the command was killed after the time limit."""
        end = time.monotonic() + self._timeout
        while time.monotonic() < end:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(min(_TICK, self._timeout))
            if os.fstat(said.fileno()).st_size > _MOST:
                said.truncate(0)  # the command continues after the gap
        _kill(process)
        process.wait()
        return None


def _split(text: str, command: str) -> list[str]:
    """Return the words of a command; `command` is shown in messages."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ParameterError(f"a command must be words as in a shell, got '{command}': {error}") from None
    if not words:
        raise ParameterError(f"a command must be a program and its arguments, got '{command}'")
    for word in words:
        if word in _OF_SHELLS:
            raise ParameterError(f"a command runs without a shell, which {word} needs: sh -c '...', got '{command}'")
        for name in _PLACEHOLDER.findall(word):
            if name not in PLACEHOLDERS:
                allowed = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                hint = did_you_mean(name, PLACEHOLDERS)
                raise ParameterError(f"a command can have the placeholders {allowed}, got {{{name}}}{hint}")
    if shutil.which(words[0]) is None:
        raise ParameterError(f"there is no program '{words[0]}', got '{command}'")
    return words


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()


def _last_line(said: IO[bytes]) -> str:
    """Return the last line of the standard error, with a colon before it."""
    said.seek(max(said.seek(0, os.SEEK_END) - _READ, 0))
    lines = said.read().replace(b"\0", b"").decode("utf-8", "replace").split("\n")
    return next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")


ANSWER_LIMIT = 10.0  # time limit of an answer in seconds

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

    def __init__(self, address: str, *, timeout: float = ANSWER_LIMIT) -> None:
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
        try:
            # The time limit of a connection applies to each read; a slow server could take many of them.
            with closing(connection), after_seconds(self._timeout, self.cancel):
                connection.request("POST", self._path, notification.to_json(), self._headers)
                answer = connection.getresponse()
                status, reason = answer.status, answer.reason
                if time.monotonic() >= end:  # the connection was closed by the timer
                    raise TimeoutError
        except (OSError, HTTPException) as error:
            raise DeliveryError(self._what(error, late=time.monotonic() >= end)) from None
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
