"""Video in and out: sources of frames, outputs of masks, and the pipeline between them."""

from __future__ import annotations

from bgsub.video.controls import Controls
from bgsub.video.iteration import separate
from bgsub.video.pipeline import Pipeline, Subtractor, Summary, process_video
from bgsub.video.sinks import ImageSequenceSink, Sink, VideoSink, WindowSink, create_sinks
from bgsub.video.sources import (
    ArraySource,
    CameraSource,
    Frame,
    FrameSource,
    ImageSequenceSource,
    VideoFileSource,
    open_source,
)
from bgsub.video.views import VIEWS

__all__ = [
    "VIEWS",
    "ArraySource",
    "CameraSource",
    "Controls",
    "Frame",
    "FrameSource",
    "ImageSequenceSink",
    "ImageSequenceSource",
    "Pipeline",
    "Sink",
    "Subtractor",
    "Summary",
    "VideoFileSource",
    "VideoSink",
    "WindowSink",
    "create_sinks",
    "open_source",
    "process_video",
    "separate",
]
