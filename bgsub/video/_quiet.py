"""Silence OpenCV's log: bgsub reports errors itself, in one line."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bgsub._opencv import cv2

# OpenCV 5 moved the functions.
_log = cv2 if hasattr(cv2, "setLogLevel") else cv2.utils.logging
_SILENT = 0

_lock = threading.Lock()
_blocks = 0
_level = _SILENT


@contextmanager
def quiet() -> Iterator[None]:
    """Silence OpenCV's log inside the block; blocks nest, also across threads; ``OPENCV_LOG_LEVEL`` switches it off."""
    global _blocks, _level  # noqa: PLW0603 - the level belongs to the process
    if "OPENCV_LOG_LEVEL" in os.environ:
        yield
        return
    with _lock:
        if _blocks == 0:
            _level = _log.getLogLevel()
            _log.setLogLevel(_SILENT)
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if _blocks == 0:
                _log.setLogLevel(_level)
