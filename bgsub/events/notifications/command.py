"""Notifications by commands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Collection
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO

from bgsub.errors import ParameterError, did_you_mean
from bgsub.events.notifications.notification import PLACEHOLDERS, TYPES, DeliveryError, Destination, Notification

LIMIT = 30.0
"""Time limit of a command in seconds."""

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
