"""Where results go: video files, image sequences, arrays, a window."""

from __future__ import annotations

from bgsub.video.sinks.arrays import ArraySink
from bgsub.video.sinks.av import AvVideoSink
from bgsub.video.sinks.base import SEGMENT, Sink
from bgsub.video.sinks.create import create_sinks
from bgsub.video.sinks.images import ImageSequenceSink
from bgsub.video.sinks.still import StillSink
from bgsub.video.sinks.video import VideoSink
from bgsub.video.sinks.window import KeyCommands, WindowSink

__all__ = [
    "SEGMENT",
    "ArraySink",
    "AvVideoSink",
    "ImageSequenceSink",
    "KeyCommands",
    "Sink",
    "StillSink",
    "VideoSink",
    "WindowSink",
    "create_sinks",
]
