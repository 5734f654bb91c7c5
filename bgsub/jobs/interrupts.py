"""Ctrl-C and SIGTERM: a pipeline that runs ends between two frames, with the same frames in every output."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

logger = logging.getLogger("bgsub")

INTERRUPTED = ("SIGINT", "SIGTERM")
"""The names of the signals that end a run."""

_running: list[Interrupts] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it is taken as Ctrl-C is."""


def interruption(number: int) -> KeyboardInterrupt:
    """Return what a signal raises."""
    return Terminated() if number == signal.SIGTERM else KeyboardInterrupt()


def name_of(interrupt: KeyboardInterrupt) -> str:
    """Return the name of the signal behind an interrupt, "SIGINT" or "SIGTERM"."""
    return (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT).name


class Interrupts:
    """Whether Ctrl-C asked for the end of a run.

    A flag and nothing else, as a signal comes in the middle of anything, be it with a lock in hand.
    """

    def __init__(self) -> None:
        self.asked = ""  # the name of the signal after whose coming the run is to end with the frame at hand

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take Ctrl-C inside the block, in the main thread; the second one is a KeyboardInterrupt as ever.

        A process that was told to ignore Ctrl-C goes on doing so, and can be ended by SIGTERM only.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        _running.append(self)
        try:
            with _handler(self._take):
                yield
        finally:
            _running.remove(self)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise interruption(number)
        self.asked = signal.Signals(number).name


@contextmanager
def terminations() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside the block, in the main thread: the outputs are finished."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        if _running and not _running[-1].asked:
            _running[-1].asked = signal.Signals(number).name
            return
        # Whatever Ctrl-C does at this moment; a process in the background may have been told to ignore it.
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler) or handler is signal.default_int_handler:
            raise interruption(number)
        handler(number, frame)

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def ignored() -> Iterator[None]:
    """Ignore Ctrl-C inside the block, in the main thread: the outputs are being finished."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handler(lambda _number, _frame: logger.warning("finishing the outputs")):
        yield


@contextmanager
def _handler(handler: Any) -> Iterator[None]:
    previous = signal.getsignal(signal.SIGINT)
    if previous is None or previous is signal.SIG_IGN:  # not from Python, or ignored on purpose
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
