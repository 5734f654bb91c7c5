"""The pictures of one run as JPEG, for any number of browsers, each with its own view."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SinkError
from bgsub.jobs.controls import Controls
from bgsub.live.mjpeg import LatestFrame
from bgsub.live.viewer import Backdrop, Shown, Viewer

logger = logging.getLogger("bgsub")

_LONGEST_SIDE = 1280  # of a picture, in pixels
_QUALITY = 80  # of JPEG, in percent


class _View:
    """One view that is watched: its newest picture, who watches, and which frame the picture shows."""

    def __init__(self) -> None:
        self.latest = LatestFrame()
        self.watchers = 0
        self.shown = -1


class Broadcast:
    """Encodes the newest frame once per view that somebody watches, in a thread of its own.

    `backdrop` is what the view cutout shows behind the foreground; see `Viewer`. `encoded` counts the pictures.
    """

    def __init__(self, controls: Controls, name: str = "camera", backdrop: Backdrop | None = None) -> None:
        self.controls, self.name = controls, name
        self.encoded = 0
        self._viewer = Viewer(controls, name, backdrop=backdrop, longest_side=_LONGEST_SIDE, words=False)
        self._whole = Viewer(controls, name, backdrop=backdrop, words=False)
        self._changed = threading.Condition()
        self._drawing = threading.Lock()
        self._drawn = -1, "", b""  # the last PNG: of which frame, which view
        self._views: dict[str, _View] = {}
        self._newest: Shown | None = None
        self._count = 0
        self._open = True
        self._thread: threading.Thread | None = None

    def put(self, shown: Shown) -> None:
        """Offer a frame; returns at once."""
        with self._changed:
            self._newest = shown
            self._count += 1
            self._changed.notify_all()

    def refresh(self) -> None:
        """Encode the newest frame again: it may look different now."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    @contextmanager
    def watch(self, name: str) -> Iterator[LatestFrame]:
        """Have a view encoded inside the block, into the mailbox; SinkError if the broadcast is over."""
        with self._changed:
            if not self._open:
                raise SinkError(f"{self.name} is closed")
            view = self._views.setdefault(name, _View())
            view.watchers += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="bgsub-broadcast")
                self._thread.start()
            self._changed.notify_all()
        try:
            yield view.latest
        finally:
            with self._changed:
                view.watchers -= 1
                if view.watchers == 0:
                    del self._views[name]

    def png(self, name: str) -> bytes:
        """Return a view of the newest frame in full size as a PNG file; made once for all who ask meanwhile."""
        asked = self._count
        with self._drawing:
            made, view, png = self._drawn
            if view != name or made < asked:
                with self._changed:
                    count, newest = self._count, self._newest
                picture = self._whole.waiting() if newest is None else self._whole.view(newest, name)
                png = _encode(".png", picture)
                self._drawn = count, name, png
            return png

    def close(self) -> None:
        """End the watching and the thread."""
        with self._changed:
            self._open = False
            for view in self._views.values():
                view.latest.close()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._newest = None

    def _work(self) -> None:
        while (task := self._next()) is not None:
            name, view, shown = task
            try:
                picture = self._viewer.waiting() if shown is None else self._viewer.view(shown, name)
                view.latest.put(_encode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY]))
            except Exception:
                # One odd picture must not end the stream of all others.
                logger.exception("%s: the view %s cannot be shown", self.name, name)
            self.encoded += 1

    def _next(self) -> tuple[str, _View, Shown | None] | None:
        """Wait for a watched view that does not show the newest frame yet; None at the end."""

        def stale() -> list[tuple[str, _View]]:
            return [(name, view) for name, view in self._views.items() if view.shown != self._count]

        with self._changed:
            self._changed.wait_for(lambda: not self._open or stale())
            if not self._open:
                return None
            # The one that has waited longest.
            name, view = min(stale(), key=lambda item: item[1].shown)
            view.shown = self._count
            return name, view, self._newest


def _encode(ending: str, picture: np.ndarray, options: list[int] | None = None) -> bytes:
    good, data = cv2.imencode(ending, picture, options or [])
    if not good:
        raise SinkError(f"a picture of {picture.shape} cannot be encoded as {ending}")
    return bytes(data)
