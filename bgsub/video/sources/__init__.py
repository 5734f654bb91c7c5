"""Where frames come from: video files, image sequences, cameras, arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from bgsub.errors import ParameterError, SourceError
from bgsub.video.sources.array import ArraySource
from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.sources.camera import CameraSource, is_camera
from bgsub.video.sources.images import ImageSequenceSource, is_image, is_pattern
from bgsub.video.sources.video import VideoFileSource

__all__ = [
    "ArraySource",
    "CameraSource",
    "Frame",
    "FrameSource",
    "ImageSequenceSource",
    "SourceSpec",
    "VideoFileSource",
    "open_source",
]

SourceSpec = int | str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | np.ndarray


def open_source(spec: SourceSpec, *, on_error: str = "stop", rate: float | Fraction | None = None) -> FrameSource:
    """Open whatever `spec` stands for.

    Parameters
    ----------
    spec : int, str, path, sequence of paths or ndarray
        A camera index (also as a text of digits) or address (``rtsp://``, ``http://``, ...); a video file; an
        image, a folder of images, a glob or a printf pattern; a list of image files; an array (n, h, w) or
        (n, h, w, c). A file or folder whose name looks like a camera index is reached as ``./0``, or as a
        `Path`.
    on_error : {"stop", "skip"}
        What a frame that cannot be read does: raise `SourceError`, or be logged, counted and left out.
    rate : float or Fraction, optional
        Frames per second, for image sequences and arrays, or where a video is wrong about it.

    Returns
    -------
    FrameSource

    Raises
    ------
    SourceError
        If there is nothing to read, in one line that names it.
    ParameterError
        If `spec`, `on_error` or `rate` is none of the allowed.
    """
    if isinstance(spec, np.ndarray):
        return ArraySource(spec, rate=rate)
    if isinstance(spec, (list, tuple)):
        return ImageSequenceSource(spec, on_error=on_error, rate=rate)
    if isinstance(spec, (int, np.integer)) and not isinstance(spec, bool):
        return CameraSource(int(spec), on_error=on_error, rate=rate)
    if not isinstance(spec, (str, os.PathLike)):
        raise ParameterError(
            f"a source is a camera index, an address, a path, a list of images or an array, got {spec!r}"
        )
    if isinstance(spec, str) and is_camera(spec):
        return CameraSource(spec, on_error=on_error, rate=rate)
    return _open_path(spec, on_error, rate)


def _open_path(
    spec: str | os.PathLike[str], on_error: str, rate: float | Fraction | None
) -> ImageSequenceSource | VideoFileSource:
    path = Path(spec)
    # Alone, a GIF is an animation; in a folder it is one image of a sequence.
    if path.is_file() and (not is_image(path) or path.suffix.lower() == ".gif"):
        return VideoFileSource(spec, on_error=on_error, rate=rate)
    if path.exists() or is_pattern(os.fspath(spec)):
        return ImageSequenceSource(spec, on_error=on_error, rate=rate)
    raise SourceError(f"no such file or folder: '{os.fspath(spec)}'")
