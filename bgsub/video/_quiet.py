"""Keep OpenCV's and FFmpeg's chatter off the terminal: what goes wrong is reported by bgsub, in one line."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext

from bgsub._opencv import cv2
from bgsub.video._process_wide import ProcessWide

# FFmpeg's own level can only be set before the process opens its first video; -8 is AV_LOG_QUIET.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")

# OpenCV 5 moved the functions.
_log = cv2 if hasattr(cv2, "setLogLevel") else cv2.utils.logging
_SILENT = 0


def _silence() -> int:
    previous = _log.getLogLevel()
    _log.setLogLevel(_SILENT)
    return previous


_silenced = ProcessWide(_silence, _log.setLogLevel)


def quiet() -> AbstractContextManager[None]:
    """Silence OpenCV's log inside the block; blocks nest, also across threads.

    An ``OPENCV_LOG_LEVEL`` set by the user wins: nothing is silenced then.
    """
    return nullcontext() if "OPENCV_LOG_LEVEL" in os.environ else _silenced.held()
