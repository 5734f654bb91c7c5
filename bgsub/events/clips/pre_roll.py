"""The frames before something happens, kept small."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bgsub._opencv import cv2
from bgsub.video.sources.base import Frame

logger = logging.getLogger("bgsub")

_JPEG_QUALITY = 95
_NOTHING = np.empty((0, 0), np.uint8)


@dataclass(frozen=True)
class _Kept:
    frame: Frame
    time: float
    share: float
    data: bytes


class PreRoll:
    """A ring of pictures as JPEG (quality 95), or as PNG where nothing may be lost.

    A second of 1920x1080 at 25 frames per second takes some 15 MB so, instead of 155 MB. More than `memory` bytes are
    never held: the oldest pictures are forgotten then, with one warning.
    """

    def __init__(self, lossless: bool, memory: int) -> None:
        self._lossless, self._memory = lossless, memory
        self._kept: deque[_Kept] = deque()
        self._bytes = 0
        self._warned = False

    def put(self, frame: Frame, time: float, share: float, picture: np.ndarray) -> None:
        """Append the picture of a frame, (h, w) or (h, w, 3) uint8."""
        data = self._encode(picture)
        self._kept.append(_Kept(replace(frame, image=_NOTHING), time, share, data))
        self._bytes += len(data)
        if self._bytes > self._memory:
            if not self._warned:
                logger.warning("what precedes motion is kept in %d bytes only: clips begin later", self._memory)
            self._warned = True
            while self._bytes > self._memory:
                self._forget()

    def forget_before(self, time: float) -> None:
        """Forget what is older."""
        while self._kept and self._kept[0].time < time:
            self._forget()

    def take(self) -> Iterator[tuple[Frame, float, float, np.ndarray]]:
        """Yield frame (without its image), time, share and picture from the oldest on, and forget them."""
        while self._kept:
            kept = self._kept[0]
            yield kept.frame, kept.time, kept.share, _decode(kept.data)
            self._forget()

    def _forget(self) -> None:
        self._bytes -= len(self._kept.popleft().data)

    def _encode(self, picture: np.ndarray) -> bytes:
        if self._lossless:
            return cv2.imencode(".png", picture, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
        return cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])[1].tobytes()


def _decode(data: bytes) -> np.ndarray:
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert picture is not None
    return picture
