"""Motion JPEG over HTTP: the parts of the stream, and the mailbox from which several clients send them."""

from __future__ import annotations

import threading

BOUNDARY = "frame"


def multipart_headers() -> dict[str, str]:
    """Return the HTTP header fields of an endless stream of JPEG images."""
    return {
        "Content-Type": f"multipart/x-mixed-replace; boundary={BOUNDARY}",
        "Cache-Control": "no-store",
        "Connection": "close",
    }


def encode_part(jpeg: bytes) -> bytes:
    """Return one part of the stream: the boundary, the header fields and a whole JPEG file."""
    head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode("ascii") + jpeg + b"\r\n"


class LatestFrame:
    """A mailbox that holds the newest image for any number of readers; a slow reader misses the older ones.

    Attributes
    ----------
    sequence : int
        Images put so far.
    closed : bool
        Whether no more will come.
    """

    def __init__(self) -> None:
        self.sequence = 0
        self.closed = False
        self._jpeg = b""
        self._changed = threading.Condition()

    def put(self, jpeg: bytes) -> int:
        """Replace the image, wake the readers and return its sequence number, from 1."""
        with self._changed:
            self._jpeg = jpeg
            self.sequence += 1
            self._changed.notify_all()
            return self.sequence

    def wait_newer(self, sequence: int, timeout: float | None = None) -> tuple[int, bytes] | None:
        """Wait for an image newer than number `sequence` (0: any), without end unless `timeout` seconds are given.

        Returns number and JPEG of the newest image; None after the timeout, or once the mailbox is closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.closed or self.sequence > sequence, timeout)
            if self.closed or self.sequence <= sequence:
                return None
            return self.sequence, self._jpeg

    def close(self) -> None:
        """End the waiting of all readers, for good."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
