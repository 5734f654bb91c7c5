"""The frames of one run as JPEG and PNG for any number of browsers, each with its own view."""

from __future__ import annotations

import logging
import threading

from bgsub._opencv import cv2
from bgsub.errors import SinkError
from bgsub.jobs.controls import Controls
from bgsub.live.viewer import Backdrop, Shown, Viewer
from bgsub.separation import Separation
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame

logger = logging.getLogger("bgsub")

BOUNDARY = "frame"
_LONGEST_SIDE = 1280  # pixels of a JPEG picture
_QUALITY = 80  # of JPEG, in percent


def multipart_headers() -> dict[str, str]:
    """Return the HTTP header fields of an endless Motion JPEG stream."""
    return {
        "Content-Type": f"multipart/x-mixed-replace; boundary={BOUNDARY}",
        "Cache-Control": "no-store",
        "Connection": "close",
    }


def encode_part(jpeg: bytes) -> bytes:
    """Return one part of a Motion JPEG stream: boundary, header fields and picture."""
    head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode("ascii") + jpeg + b"\r\n"


class _Encoder:
    """Encode views of the newest frame; all clients that wait for the same view share one picture."""

    def __init__(self, viewer: Viewer, suffix: str, options: tuple[int, ...] = ()) -> None:
        self.viewer, self.count = viewer, 0
        self._suffix, self._options = suffix, options
        self._lock = threading.Lock()
        self._made = -1
        self._pictures: dict[str, bytes] = {}

    def encode(self, broadcast: Broadcast, view: str) -> tuple[int, bytes]:
        """Return number and picture of a frame that is at least as new as the newest one at the call."""
        wanted = broadcast.number
        with self._lock:
            if self._made < wanted or view not in self._pictures:
                number, shown = broadcast.number, broadcast.newest
                picture = self.viewer.waiting() if shown is None else self.viewer.view(shown, view)
                good, data = cv2.imencode(self._suffix, picture, self._options)
                if not good:
                    raise SinkError(f"a picture of {picture.shape} cannot be encoded as {self._suffix}")
                if self._made != number:
                    self._pictures.clear()
                self._made, self._pictures[view] = number, bytes(data)
                self.count += 1
            return self._made, self._pictures[view]


class Broadcast(Sink):
    """Keep the newest frame of a run and encode it on request; as a sink it never waits for a browser.

    `backdrop` is the background of the view cutout, see `Viewer`.
    """

    def __init__(self, controls: Controls, name: str = "camera", backdrop: Backdrop | None = None) -> None:
        self.controls, self.name = controls, name
        self.newest: Shown | None = None
        self.number = 0
        self.ended = False
        self._changed = threading.Condition()
        reduced = Viewer(controls, name, backdrop=backdrop, longest_side=_LONGEST_SIDE, words=False)
        self._jpeg = _Encoder(reduced, ".jpg", (cv2.IMWRITE_JPEG_QUALITY, _QUALITY))
        self._png = _Encoder(Viewer(controls, name, backdrop=backdrop, words=False), ".png")

    @property
    def encoded(self) -> int:
        """Number of JPEG pictures so far."""
        return self._jpeg.count

    def write(self, frame: Frame, separation: Separation) -> None:
        self._put(separation)

    def preview(self, frame: Frame) -> None:
        self._put(frame)

    def close(self) -> None:
        """Keep the last frame until `end`: the page outlives the run."""

    def refresh(self) -> None:
        """Encode the newest frame again, since its view may have changed."""
        with self._changed:
            self.number += 1
            self._changed.notify_all()

    def next_jpeg(self, view: str, number: int = -1, timeout: float | None = None) -> tuple[int, bytes] | None:
        """Wait for a frame newer than `number`; return its number and picture, None after the timeout or at the end.

        The picture is empty where it cannot be made; this must not end the stream.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.ended or self.number > number, timeout)
            if self.ended or self.number <= number:
                return None
            newest = self.number
        try:
            return self._jpeg.encode(self, view)
        except Exception:
            logger.exception("%s: the view %s cannot be shown", self.name, view)
            return newest, b""

    def png(self, view: str) -> bytes:
        """Return a view of the newest frame in full size."""
        return self._png.encode(self, view)[1]

    def end(self) -> None:
        """End all streams."""
        with self._changed:
            self.ended, self.newest = True, None
            self._changed.notify_all()

    def _put(self, shown: Shown) -> None:
        with self._changed:
            self.newest, self.number = shown, self.number + 1
            self._changed.notify_all()
