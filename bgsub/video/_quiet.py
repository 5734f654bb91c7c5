"""Keep OpenCV's and FFmpeg's chatter off the terminal: what goes wrong is reported by bgsub, in one line."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bgsub._opencv import cv2

# FFmpeg's own level can only be set before the process opens its first video; -8 is AV_LOG_QUIET.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")

# OpenCV 5 moved the functions.
_log = cv2 if hasattr(cv2, "setLogLevel") else cv2.utils.logging
_SILENT = 0

_lock = threading.Lock()
_depth = 0
_previous = 0


@contextmanager
def quiet() -> Iterator[None]:
    """Silence OpenCV's log inside the block; blocks nest, also across threads.

    An ``OPENCV_LOG_LEVEL`` set by the user wins: nothing is silenced then.
    """
    global _depth, _previous  # noqa: PLW0603 - OpenCV's level is global as well
    if "OPENCV_LOG_LEVEL" in os.environ:
        yield
        return
    with _lock:
        if _depth == 0:
            _previous = _log.getLogLevel()
            _log.setLogLevel(_SILENT)
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _log.setLogLevel(_previous)
