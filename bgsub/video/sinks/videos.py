"""Videos by what is installed: PyAV, or OpenCV without it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from bgsub.separation import Separation
from bgsub.video.sinks.av import AvVideoSink
from bgsub.video.sinks.base import Sink
from bgsub.video.sinks.video import VideoSink
from bgsub.video.sources import av_container


def video_sink(path: Path, view: str, fps: Fraction | None, audio_from: Path | None = None) -> Sink:
    """Return an `AvVideoSink`, or a `VideoSink`, which has no sound, where PyAV is missing."""
    if av_container.is_available():
        return AvVideoSink(path, view, fps, audio_from=audio_from)
    return VideoSink(path, view, fps)


def as_separation(picture: np.ndarray) -> Separation:
    """Wrap a finished picture for a sink: its views ``mask`` and ``background`` show it as it is."""
    return Separation(picture, picture, picture, np.empty(0, np.float32), np.empty(0), "tracking")
