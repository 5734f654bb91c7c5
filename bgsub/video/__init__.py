"""Video in and out: sources of frames, outputs of masks, and the pipeline between them."""

from __future__ import annotations

from bgsub.video.controls import Controls
from bgsub.video.pipeline import Pipeline, Subtractor, Summary
from bgsub.video.processing import process_video, separate
from bgsub.video.sinks import (
    ArraySink,
    AvVideoSink,
    ImageSequenceSink,
    Sink,
    StillSink,
    VideoSink,
    WindowSink,
    create_sinks,
)
from bgsub.video.sources import (
    ArraySource,
    AvSource,
    CameraSource,
    Frame,
    FrameSource,
    ImageSequenceSource,
    SelectedSource,
    VideoFileSource,
    open_source,
)
from bgsub.video.views import VIEWS

__all__ = [
    "VIEWS",
    "ArraySink",
    "ArraySource",
    "AvSource",
    "AvVideoSink",
    "CameraSource",
    "Controls",
    "Frame",
    "FrameSource",
    "ImageSequenceSink",
    "ImageSequenceSource",
    "Pipeline",
    "SelectedSource",
    "Sink",
    "StillSink",
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
