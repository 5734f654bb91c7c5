"""One camera of several: its thread, and the way of its frames to a window in the main thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bgsub.jobs.job import JobResult
from bgsub.live.window import WindowSink
from bgsub.separation import Separation
from bgsub.video.channel import Channel
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame

logger = logging.getLogger("bgsub")

TICK = 0.04  # seconds between two looks at a window whose camera sends nothing

Run = Callable[[Sequence[Sink]], JobResult]
_Arrival = tuple[Frame, Separation | None]


@dataclass(frozen=True)
class Outcome:
    """What became of one camera of a session: its result, or the error that ended it."""

    name: str
    result: JobResult | None = None
    error: Exception | None = None


class Worker:
    """The thread of one camera of several, and its window in the main thread.

    `run` runs the camera to its end with more sinks, in `thread`, which is not started yet; `outcome` is what became of
    it once that has ended. `came` is set when there is something for the window.
    """

    def __init__(self, name: str, run: Run, window: WindowSink | None, came: threading.Event) -> None:
        self._run, self._window = run, window
        self._inbox, self._served = Inbox(came), 0.0
        self.outcome = Outcome(name)
        self.thread = threading.Thread(target=self._work, name="bgsub-camera")

    def _work(self) -> None:
        name = self.outcome.name
        try:
            self.outcome = Outcome(name, self._run([] if self._window is None else [self._inbox]))
        except Exception as error:
            logger.debug("%s failed", name, exc_info=True)
            logger.warning("%s: %s", name, error)
            self.outcome = Outcome(name, error=error)

    def serve_window(self) -> None:
        """Show what has come, or give the window some time; remove it when the camera has ended."""
        if self._window is None:
            return
        newest, now = self._inbox.take(), time.monotonic()
        if not self.thread.is_alive():
            self._window.close()
        elif newest is not None:
            frame, separation = newest
            if separation is None:
                self._window.preview(frame)
                self._window.idle()
            else:
                self._window.write(frame, separation)
            self._served = now
        elif now - self._served > TICK:
            self._window.idle()
            self._served = now


class Inbox(Sink):
    """The newest frame of a camera on its way to the main thread."""

    def __init__(self, came: threading.Event) -> None:
        self._came = came
        self._newest: Channel[_Arrival] = Channel(1, drop_oldest=True)

    def write(self, frame: Frame, separation: Separation | None) -> None:
        self._newest.put((frame, separation))
        self._came.set()

    def preview(self, frame: Frame) -> None:
        self.write(frame, None)

    def take(self) -> _Arrival | None:
        """Return the newest frame once."""
        return next(self._newest) if self._newest.ready(0) else None

    def close(self) -> None:
        """Do nothing: the main thread sees that the camera has ended."""


def join(workers: Sequence[Worker]) -> None:
    """Wait for the threads of all."""
    for worker in workers:
        worker.thread.join()
