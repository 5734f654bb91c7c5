"""Ctrl-C, SIGTERM and SIGHUP: a running pipeline ends between two frames, with the same frames in every output.

A signal may come at any point. Code that must not be interrupted installs a handler for a block (`taken`); elsewhere a
signal raises `KeyboardInterrupt` with its number. Signals within a second count as one, because a terminal and a parent
process may both send one. A later signal ends the process at once, unless outputs are being finished: then the next one
does.
"""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, NoReturn

from bgsub.errors import logger

INTERRUPTED = ("SIGINT", "SIGTERM", "SIGHUP")  # the names of the signals that end a run
NUMBERS = [getattr(signal, name) for name in INTERRUPTED if hasattr(signal, name)]  # Windows has no SIGHUP

_TOGETHER = 1.0  # seconds
_RESEND_AFTER = 0.05  # seconds

Handler = Callable[[int], object]

_handlers: list[Handler] = []  # the innermost last


def name_of(interrupt: KeyboardInterrupt) -> str:
    """Return the name of the signal behind an interrupt, one of `INTERRUPTED`."""
    return next((number.name for number in NUMBERS if number in interrupt.args), "SIGINT")


def stopped_by(name: str) -> str:
    """Return a message about a stopped run; `name` is "user" or a signal, and Ctrl-C is the user's."""
    return f"stopped by {'the user' if name in ('user', 'SIGINT') else name}"


@contextmanager
def taken(handler: Handler) -> Iterator[None]:
    """Call `handler` with the number of each signal inside the block; an ignored Ctrl-C stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.getsignal(signal.SIGINT)
    if previous in (None, signal.SIG_IGN) or isinstance(previous, Signals):
        _handlers.append(handler)
        try:
            yield
        finally:
            _handlers.remove(handler)
        return
    signal.signal(signal.SIGINT, lambda number, _frame: handler(number))  # for users of the library
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def finishing() -> AbstractContextManager[None]:
    """Ignore signals inside the block, which finishes outputs."""
    return taken(lambda _number: logger.warning("finishing the outputs"))


@contextmanager
def afterwards() -> Iterator[None]:
    """Delay signals to the end of the block."""
    came: list[int] = []
    try:
        with taken(came.append):
            yield
    except Exception as error:
        if came:  # the failure may be that of a process that got the signal as well
            raise KeyboardInterrupt(came[0]) from error
        raise
    if came:
        raise KeyboardInterrupt(came[0])


class Signals:
    """The signal handler of the program; once `code`, the exit code, is set, a signal ends the process with it."""

    def __init__(self) -> None:
        self.raised = 0  # the signal that was raised as an exception, 0 for none; it may have caused another error
        self.code: int | None = None
        self._count, self._last = 0, -math.inf
        self._before = {number: signal.getsignal(number) for number in NUMBERS}
        self._unraisable = sys.unraisablehook
        for number, before in self._before.items():
            if number == signal.SIGTERM or before not in (None, signal.SIG_IGN):  # not from Python, or as by nohup
                signal.signal(number, self)
        sys.unraisablehook = self._resend_lost

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self.code is not None:
            os._exit(self.code)
        now = time.monotonic()
        if now - self._last < _TOGETHER:
            return
        self._last = now
        self._count += 1
        if self._count > 2 or (self._count == 2 and not _handlers):
            end_at_once(number)
        if _handlers:
            _handlers[-1](number)
        else:
            self.raised = number
            raise KeyboardInterrupt(number)

    def _resend_lost(self, unraisable: Any) -> None:
        """Send an interrupt again that was raised where Python drops exceptions, as in ``__del__``."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            self._unraisable(unraisable)
            return
        self._count, self._last = 0, -math.inf
        number = signal.Signals[name_of(unraisable.exc_value)]
        # `os.kill` ends a process on Windows; elsewhere only that wakes a waiting main thread.
        send = signal.raise_signal if os.name == "nt" else partial(os.kill, os.getpid())
        again = threading.Timer(_RESEND_AFTER, send, (number,))
        again.daemon = True
        again.start()

    def leave(self) -> None:
        """Exit with `code`: while Python exits, the default handlers would change the exit code."""
        for number in NUMBERS:
            signal.signal(number, signal.SIG_IGN)
        if self.raised and self.code is not None:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(self.code)

    def give_back(self) -> None:
        """Restore the handlers from before."""
        sys.unraisablehook = self._unraisable
        for number, before in self._before.items():
            if before is not None:
                signal.signal(number, before)


def stop_in_worker(number: int, _frame: FrameType | None) -> None:
    """Stop the pipeline of a worker process at its first signal, as in the program; without one, end the process."""
    if not _handlers:
        os._exit(128 + number)
    signal.signal(number, signal.SIG_IGN)  # the batch sends it once more
    _handlers[-1](number)


def take_signals() -> Signals:
    """Install `Signals` in the main thread, unless it is installed already."""
    current = signal.getsignal(signal.SIGTERM)
    return current if isinstance(current, Signals) else Signals()


@contextmanager
def terminations() -> Iterator[Signals | None]:
    """Install `Signals` for the block; None outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    is_outer = not isinstance(signal.getsignal(signal.SIGTERM), Signals)
    signals = take_signals()
    try:
        yield signals
    finally:
        if is_outer:
            signals.give_back()


def end_at_once(number: int) -> NoReturn:
    """End the process with one line, without finishing anything."""
    os.write(2, f"\nbgsub: error: {stopped_by(signal.Signals(number).name)}\n".encode())
    os._exit(128 + number)
