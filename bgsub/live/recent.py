"""The last motion events of a camera for its page: pictures, clips."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from typing import Any

from bgsub.events.feed import EventFeed
from bgsub.events.highlights import Highlight, Highlights
from bgsub.separation import Separation
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame
from bgsub.video.timecode import clock_text

#: Number of events on the page.
COUNT = 12


class RecentEvents(Sink):
    """Keeps the last motion events that have ended, with a picture of each; read from any thread."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed, self._highlights = feed, Highlights()
        self._kept: deque[Highlight] = deque(maxlen=COUNT)
        self._lock = threading.Lock()

    def write(self, frame: Frame, separation: Separation) -> None:
        step = self._feed.step(frame, separation)
        with self._lock:
            self._highlights.add(step, separation)
        self._take()

    def close(self) -> None:
        ended = self._feed.finish_motion()
        with self._lock:
            self._highlights.finish(ended)
        self._take()

    def clear(self) -> None:
        """Forget all events, also the one that lasts; from any thread."""
        with self._lock:
            self._kept.clear()
            self._highlights = Highlights()

    def describe(self) -> list[dict[str, Any]]:
        """Return the events, newest first, in types that JSON knows."""
        with self._lock:
            kept = list(self._kept)
        return [
            {
                "number": one.event.id,
                "time": _time(one),
                "seconds": _length(one),
                "objects": one.objects,
                "regions": one.regions,
                "clip": one.event.clip is not None,
            }
            for one in reversed(kept)
        ]

    def picture(self, number: int) -> bytes | None:
        """Return the picture of an event by its number, a JPEG file; None if it is not kept."""
        found = self._find(number)
        return None if found is None else found.jpeg

    def clip(self, number: int) -> Path | None:
        """Return the clip of an event by its number; None if there is none."""
        found = self._find(number)
        return None if found is None or found.event.clip is None else Path(found.event.clip)

    def _find(self, number: int) -> Highlight | None:
        with self._lock:
            return next((one for one in self._kept if one.event.id == number), None)

    def _take(self) -> None:
        """Move the highlights that are complete."""
        with self._lock:
            self._kept.extend(self._highlights.kept)
            self._highlights.kept.clear()


def _time(one: Highlight) -> str:
    event = one.event
    if event.began is not None:
        return event.began[11:19]
    return f"frame {event.start_frame}" if event.start_time is None else clock_text(event.start_time, whole=True)


def _length(one: Highlight) -> float | None:
    start, end = one.event.start_time, one.event.end_time
    return None if start is None or end is None else round(float(end - start), 1)
