"""Notifications as commands that are run."""

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
"""Seconds after which a command is killed."""

_TYPE = re.compile(rf"\s*({'|'.join(TYPES)}):")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")  # {"state": "on"} is none
_FOLDERS = {"snapshot": "--snapshots", "clip": "--record"}
_OF_SHELLS = {"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "&>"}
_READ = 2000  # bytes at the end of what a command says
_MOST = 1 << 20  # bytes of it that are kept
_TICK = 0.1  # seconds


class CommandNotifier(Destination):
    """Runs a command for each notification: the JSON on its standard input, placeholders replaced in its words.

    There is no shell in between: the words are split as a shell does it, and what replaces a placeholder stays within
    its word. A command fails where its exit code is not 0, or after `timeout` seconds, when it is killed with what it
    started.

    Parameters
    ----------
    command : str
        Program and arguments, with the fields of `Notification` as placeholders: ``notify-send {event} {source}``.
        ``start:``, ``end:``, ``snapshot:`` or ``clip:`` before it restrict it to these notifications.
    missing : collection of {"snapshot", "clip"}
        The files that there will be none of.
    timeout : float
        Seconds it may take.

    Raises
    ------
    ParameterError
        For a command that is empty or cannot be split, a program that is not there, an unknown placeholder, what only a
        shell understands, and files that are missing.

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
        with TemporaryFile() as given, TemporaryFile() as said:  # unlike pipes, they never make anybody wait
            given.write(notification.to_json())
            given.seek(0)
            try:
                # A session of its own: Ctrl-C is not for it, and all that it starts can be killed with it.
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
        """Return the exit code, None where the time is over and it was killed; forget most of what it says."""
        end = time.monotonic() + self._timeout
        while time.monotonic() < end:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(min(_TICK, self._timeout))
            if os.fstat(said.fileno()).st_size > _MOST:
                said.truncate(0)  # the command goes on behind the hole that this leaves
        _kill(process)
        process.wait()
        return None


def _split(text: str, command: str) -> list[str]:
    """Return the words of a command, of which messages show all."""
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
    """Return the last line of the standard error of a command, for the end of a message."""
    said.seek(max(said.seek(0, os.SEEK_END) - _READ, 0))
    lines = said.read().replace(b"\0", b"").decode("utf-8", "replace").split("\n")
    return next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
