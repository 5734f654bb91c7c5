"""Where results go: video files, image sequences, a window."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bgsub.errors import ParameterError, SinkError
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sinks.images import ImageSequenceSink
from bgsub.video.sinks.video import VideoSink
from bgsub.video.sinks.window import KeyCommands, WindowSink
from bgsub.video.sources import FrameSource
from bgsub.video.views import get_view

__all__ = ["ImageSequenceSink", "KeyCommands", "Sink", "VideoSink", "WindowSink", "create_sinks"]


def create_sinks(
    output_folder: str | os.PathLike[str],
    views: Sequence[str],
    source: FrameSource,
    format: str = "auto",
    overwrite: bool = True,
) -> list[Sink]:
    """Create one output per view: ``OUT/mask.mkv`` and ``OUT/panel.mp4``, or ``OUT/mask/bin000123.png``.

    Parameters
    ----------
    output_folder : str or path
        Created if missing.
    views : sequence of str
        Out of `VIEWS`, each at most once.
    source : FrameSource
        What the results come from: it gives the rate, and whether frames are numbered.
    format : {"auto", "video", "images"}
        Kind of output; auto is images for numbered sources and video for others.
    overwrite : bool
        Replace outputs that exist: a video as a whole at the end, images one by one.

    Returns
    -------
    list of Sink

    Raises
    ------
    ParameterError
        If a view or the format is none of the allowed.
    SinkError
        If the folder cannot be written, or an output exists and may not be replaced or is the input itself.
    """
    if format not in ("auto", "video", "images"):
        raise ParameterError(f"format must be one of auto, video, images, got {format!r}")
    for view in views:
        get_view(view)
    as_images = format == "images" or (format == "auto" and source.numbered)
    folder = Path(output_folder)
    prepare_folder(folder)
    targets = {view: folder / (view if as_images else _video_name(view)) for view in views}
    for target in targets.values():
        _check_target(target, source, overwrite)
    if as_images:
        return [ImageSequenceSink(target, view) for view, target in targets.items()]
    return [VideoSink(target, view, source.rate) for view, target in targets.items()]


def _video_name(view: str) -> str:
    return "mask.mkv" if view == "mask" else f"{view}.mp4"


def _check_target(target: Path, source: FrameSource, overwrite: bool) -> None:
    if source.path is not None and target.resolve() == source.path.resolve():
        raise SinkError(f"the output '{target}' is the input itself")
    taken = any(target.glob("*.png")) if target.is_dir() else target.exists()
    if taken and not overwrite:
        raise SinkError(f"the output '{target}' exists already")
