"""What a live run is doing right now: rate, delay, drops, foreground."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bgsub.numerics.compilation import waited

if TYPE_CHECKING:
    from bgsub.separation import Separation
    from bgsub.video.sources.base import Frame

_WINDOW = 2.0  # seconds that rate and delay are means of
_SILENT = 1.5  # seconds without a frame from which one is late, and twice the usual time between two
_EVENT_SHOWN = 3.0  # seconds; an event is that of one frame, too short to be read


class LiveStatistics:
    """Follows the frames of a run; safe to read from any thread.

    Parameters
    ----------
    clock : callable
        Seconds that never go back; that of `Frame.received`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begin = clock()
        self._previewed: float | None = None
        self._waited = waited()
        self._times: deque[tuple[float, float | None]] = deque()
        self._frames = self._dropped = 0
        self._newest: tuple[Frame, Separation] | None = None
        self._share: float | None = None
        self._event: tuple[str, float] | None = None

    def update(self, frame: Frame, separation: Separation, dropped: int = 0) -> None:
        """Take one frame into account.

        Parameters
        ----------
        frame, separation
            The frame, at the moment when it goes to the outputs, and what it was separated into.
        dropped : int
            Frames dropped so far.
        """
        now = self._clock()
        received = getattr(frame, "received", None)
        with self._lock:
            if (lost := waited()) > self._waited:  # kernels are in no rate: it begins anew
                self._waited = lost
                self._times.clear()
            self._frames += 1
            self._previewed = None
            self._dropped = dropped
            self._newest, self._share = (frame, separation), None
            if separation.event is not None:
                self._event = separation.event, now
            self._times.append((now, None if received is None else now - received))
            while now - self._times[0][0] > _WINDOW and len(self._times) > 2:
                self._times.popleft()

    def note_preview(self) -> None:
        """Take into account that a frame is shown before it is separated, because that takes long."""
        with self._lock:
            self._previewed = self._clock()

    @property
    def is_late(self) -> bool:
        """Whether the newest frame is shown without its separation."""
        return self._previewed is not None

    @property
    def newest(self) -> tuple[Frame, Separation] | None:
        """The newest frame and its separation, None before the first."""
        with self._lock:
            return self._newest

    @property
    def silence(self) -> float:
        """Seconds since the newest frame, or since the beginning."""
        with self._lock:
            seen = self._seen()
            return self._clock() - (self._begin if seen is None else seen)

    @property
    def is_silent(self) -> bool:
        """Whether the first frame, or the next one, is late."""
        with self._lock:
            seen = self._seen()
            return seen is None or self._clock() - seen > max(_SILENT, 2 * self._usual())

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers, in types that JSON knows.

        Returns
        -------
        dict
            ``frames``, ``dropped``, ``frames_per_second``, ``latency_ms`` (from the arrival of a frame to its output;
            None where the source does not tell), ``foreground`` (share of the newest frame), ``width``, ``height``,
            ``phase``, ``event`` (of the last seconds, or None), ``frame`` (name of the newest).
        """
        with self._lock:
            now = self._clock()
            if self._newest is None:
                frame, separation = None, None
            else:
                frame, separation = self._newest
                self._share = separation.share if self._share is None else self._share
            recent = self._event is not None and now - self._event[1] < _EVENT_SHOWN
            delays = [delay for _, delay in self._times if delay is not None]
            return {
                "frames": self._frames,
                "dropped": self._dropped,
                "frames_per_second": round(self._fps(now - (waited() - self._waited)), 2),
                "latency_ms": round(1000 * sum(delays) / len(delays), 1) if delays else None,
                "foreground": 0.0 if self._share is None else round(self._share, 6),
                "width": 0 if separation is None else separation.mask.shape[1],
                "height": 0 if separation is None else separation.mask.shape[0],
                "phase": "start" if separation is None else separation.phase,
                "event": self._event[0] if recent and self._event else None,
                "frame": "" if frame is None else frame.name,
            }

    def _seen(self) -> float | None:
        """When a frame came last, separated or not."""
        separated = self._times[-1][0] if self._times else None
        return separated if self._previewed is None else self._previewed

    def _usual(self) -> float:
        """Seconds between two of the last frames; 0 if there are none."""
        return (self._times[-1][0] - self._times[0][0]) / (len(self._times) - 1) if len(self._times) > 1 else 0.0

    def _fps(self, now: float) -> float:
        if len(self._times) < 2:
            return 0.0
        # A camera that falls silent counts down to nothing.
        span = max(self._times[-1][0], now - max(1.0, self._usual())) - self._times[0][0]
        return (len(self._times) - 1) / span if span > 0 else 0.0
