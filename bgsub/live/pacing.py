"""Files at the pace of the world, for people who watch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.sources.selection import SelectedSource

_CATCH_UP = 0.25  # seconds that a late frame may be made up for; after a pause nothing races


class PacedSource(SelectedSource):
    """The frames of a file in real time; none is dropped, so a slow machine shows them later.

    Parameters
    ----------
    source : FrameSource
        Where the frames come from; without a rate and times they come as fast as they can.
    """

    def __init__(self, source: FrameSource) -> None:
        super().__init__(source)
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()
        super().cancel()

    def _frames(self) -> Iterator[Frame]:
        due, before = time.monotonic(), None
        for frame in super()._frames():
            if frame.time is not None:
                due += max(frame.time - before, 0.0) if before is not None else 0.0
                before = frame.time
            now = time.monotonic()
            due = max(due, now - _CATCH_UP)
            if due > now and self._cancelled.wait(due - now):
                return
            yield frame
