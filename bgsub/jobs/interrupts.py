"""Ctrl-C and SIGTERM: a pipeline that runs ends between two frames, with the same frames in every output.

A signal comes in the middle of anything. Who must not be torn apart says what becomes of it (`taken`); elsewhere it is
a `KeyboardInterrupt`. Signals that come together count as one, as a terminal and whoever has started the program send
one each. A later one is impatience and ends the process at once, unless outputs are being finished: then the next does.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, NoReturn

logger = logging.getLogger("bgsub")

INTERRUPTED = ("SIGINT", "SIGTERM")
"""The names of the signals that end a run."""

_TOGETHER = 1.0  # seconds
_AGAIN = 0.05  # seconds until an interrupt comes again that was lost

Taker = Callable[[int], object]

_takers: list[Taker] = []  # the innermost last


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it is taken as Ctrl-C is."""


def interruption(number: int) -> KeyboardInterrupt:
    """Return what a signal raises."""
    return Terminated() if number == signal.SIGTERM else KeyboardInterrupt()


def name_of(interrupt: KeyboardInterrupt) -> str:
    """Return the name of the signal behind an interrupt, "SIGINT" or "SIGTERM"."""
    return (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT).name


def stopped_by(who: str) -> str:
    """Return in words who stopped a run; Ctrl-C is the user's."""
    return f"stopped by {'the user' if who in ('user', 'SIGINT') else who}"


class Interrupts:
    """Whether Ctrl-C asked for the end of a run.

    Flags and nothing else, as a signal comes in the middle of anything, be it with a lock in hand.
    """

    def __init__(self) -> None:
        self.asked = ""  # the name of the signal after whose coming the run is to end with the frame at hand
        self.finishing = False  # the outputs are being finished, which no signal holds up

    def take(self, number: int) -> None:
        """Take a signal: the second one is a KeyboardInterrupt as ever."""
        if self.finishing:
            logger.warning("finishing the outputs")
        elif self.asked:
            raise interruption(number)
        else:
            self.asked = signal.Signals(number).name


@contextmanager
def taken(taker: Taker) -> Iterator[None]:
    """Give `taker` the signals that come inside the block, by number, in the main thread.

    A process that was told to ignore Ctrl-C goes on doing so, and can be ended by SIGTERM only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _takers.append(taker)
    try:
        with _handled():
            yield
    finally:
        _takers.remove(taker)


@contextmanager
def finishing() -> Iterator[None]:
    """Let no signal hold up what the block does: the outputs are being finished."""
    interrupts = Interrupts()
    interrupts.finishing = True
    with taken(interrupts.take):
        yield


@contextmanager
def afterwards() -> Iterator[None]:
    """Let signals wait for the end of the block, whose parts belong together."""
    came: list[int] = []
    try:
        with taken(came.append):
            yield
    except Exception as error:
        if came:  # processes that got the signal as well may be what has failed
            raise interruption(came[0]) from error
        raise
    if came:
        raise interruption(came[0])


class Signals:
    """What becomes of the signals of a program.

    Attributes
    ----------
    raised : int
        The signal that was raised in the middle of something, which may have made another error of it; 0 for none.
    code : int or None
        Exit code of the program once it is known: from then on a signal ends the process, with this code.
    """

    def __init__(self) -> None:
        self.raised = 0
        self.code: int | None = None
        self._count, self._last = 0, -math.inf
        self._before = signal.signal(signal.SIGTERM, self)
        self._before_int = signal.getsignal(signal.SIGINT)
        self._unraisable = sys.unraisablehook
        if self._before_int not in (None, signal.SIG_IGN):  # not from Python, or ignored on purpose
            signal.signal(signal.SIGINT, self)
        sys.unraisablehook = self._lost

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self.code is not None:
            os._exit(self.code)
        now = time.monotonic()
        if now - self._last < _TOGETHER:
            return
        self._last = now
        self._count += 1
        if self._count > 2 or (self._count == 2 and not _takers):
            end_at_once(number)
        if _takers:
            _takers[-1](number)
        else:
            self.raised = number
            raise interruption(number)

    def _lost(self, unraisable: Any) -> None:
        """Have an interrupt come again that was raised where none can be, as in the end of an object."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            self._unraisable(unraisable)
            return
        self._count, self._last = 0, -math.inf
        number = signal.Signals[name_of(unraisable.exc_value)]
        # Windows ends a process at `os.kill`; elsewhere that alone wakes the main thread where it waits.
        send = signal.raise_signal if os.name == "nt" else partial(os.kill, os.getpid())
        again = threading.Timer(_AGAIN, send, (number,))
        again.daemon = True
        again.start()

    def leave(self) -> None:
        """End with `code` whatever comes: Python on its way out leaves signals to the system, which gives another one.

        After a Ctrl-C that came through `exec`, as in many an import, it even sends one to itself.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if self.raised and self.code is not None:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(self.code)

    def give_back(self) -> None:
        """Leave the signals to whoever had them before."""
        sys.unraisablehook = self._unraisable
        signal.signal(signal.SIGTERM, self._before)
        if self._before_int not in (None, signal.SIG_IGN):
            signal.signal(signal.SIGINT, self._before_int)


def take_signals() -> Signals:
    """Take the signals of the process, in the main thread, unless that was done already: SIGTERM as Ctrl-C."""
    held = signal.getsignal(signal.SIGTERM)
    return held if isinstance(held, Signals) else Signals()


@contextmanager
def terminations() -> Iterator[Signals | None]:
    """Do what `take_signals` does inside the block, in the main thread."""
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
    """End the process, in one line; nothing is finished."""
    os.write(2, f"\nbgsub: error: {stopped_by(signal.Signals(number).name)}\n".encode())
    os._exit(128 + number)


@contextmanager
def _handled() -> Iterator[None]:
    """Have `_takers` asked inside the block where no program does: Ctrl-C in a process that uses the library."""
    previous = signal.getsignal(signal.SIGINT)
    if previous in (None, signal.SIG_IGN, _take) or isinstance(previous, Signals):
        yield
        return
    signal.signal(signal.SIGINT, _take)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _take(number: int, _frame: FrameType | None) -> None:
    _takers[-1](number)
