"""The frames before something happens, kept small."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bgsub._opencv import cv2
from bgsub.video.sources.base import Frame

_JPEG_QUALITY = 95
_NOTHING = np.empty((0, 0), np.uint8)


@dataclass(frozen=True)
class _Kept:
    frame: Frame
    time: float
    data: bytes


class PreRoll:
    """A ring of pictures as JPEG (quality 95), or as PNG where nothing may be lost.

    A second of 1920x1080 at 25 frames per second takes some 15 MB so, instead of 155 MB.

    Parameters
    ----------
    lossless : bool
        Whether nothing may be lost.
    memory : int
        Bytes of pictures from which on the ring is full.
    """

    def __init__(self, lossless: bool, memory: int) -> None:
        self._lossless, self._memory = lossless, memory
        self._kept: deque[_Kept] = deque()
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the oldest picture has to go."""
        return self._bytes > self._memory

    def put(self, frame: Frame, time: float, picture: np.ndarray | None) -> None:
        """Append a frame and its picture, (h, w) or (h, w, 3) uint8, or no picture where none is wanted."""
        data = b"" if picture is None else self._encode(picture)
        self._kept.append(_Kept(replace(frame, image=_NOTHING), time, data))
        self._bytes += len(data)

    def forget_before(self, time: float) -> None:
        """Forget what is older."""
        while self._kept and self._kept[0].time < time:
            self._pop()

    def pop(self) -> tuple[Frame, float, np.ndarray | None]:
        """Return the oldest frame (without its image), its time and its picture, and forget them."""
        kept = self._pop()
        return kept.frame, kept.time, _decode(kept.data) if kept.data else None

    def take(self) -> Iterator[tuple[Frame, float, np.ndarray | None]]:
        """Yield what `pop` returns until nothing is left."""
        while self._kept:
            yield self.pop()

    def _pop(self) -> _Kept:
        kept = self._kept.popleft()
        self._bytes -= len(kept.data)
        return kept

    def _encode(self, picture: np.ndarray) -> bytes:
        if self._lossless:
            return cv2.imencode(".png", picture, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
        return cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])[1].tobytes()


def _decode(data: bytes) -> np.ndarray:
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert picture is not None
    return picture
