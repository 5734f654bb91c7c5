"""What a subtractor is told of the frame rate of its source."""

from __future__ import annotations

import logging

from bgsub.parameters import SUBTRACTOR
from bgsub.video.sources.base import FrameSource

logger = logging.getLogger("bgsub")

_UNIT = 1000  # frames per second from which on a rate is none, but the unit of the time stamps, 1/1000 or 1/90000 s


def frames_per_second(source: FrameSource) -> float:
    """Return the frame rate of a source; that of a new subtractor, with a word in the log, where it tells none."""
    fps, usual = source.fps, float(SUBTRACTOR["fps"].default)
    if fps is not None and 0 < fps < _UNIT:
        return float(fps)
    if fps:
        logger.warning("%s tells of %g frames per second, taken for %g; --fps says better", source.name, fps, usual)
    else:
        logger.info("%s tells no frame rate, %g frames per second are assumed; --fps says better", source.name, usual)
    return usual
