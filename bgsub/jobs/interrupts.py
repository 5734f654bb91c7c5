"""Ctrl-C while a pipeline runs: it ends between two frames, with the same frames in every output."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

logger = logging.getLogger("bgsub")

_running: list[Interrupts] = []


class Interrupts:
    """Whether Ctrl-C asked for the end of a run.

    A flag and nothing else, as a signal comes in the middle of anything, be it with a lock in hand.
    """

    def __init__(self) -> None:
        self.asked = False  # whether the run is to end after the frame at hand

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take Ctrl-C inside the block, in the main thread; the second one is a KeyboardInterrupt as ever.

        A process that was told to ignore Ctrl-C goes on doing so, and can be ended by `ask` only.
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

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def ask() -> bool:
    """End the run that the main thread is in after the frame at hand; return whether there is one."""
    if not _running or _running[-1].asked:
        return False
    _running[-1].asked = True
    return True


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
