"""Open sources."""

import os
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, SourceError, on_failure
from bgsub.storage.durable_io import AnyPath
from bgsub.video.concurrency import in_background
from bgsub.video.sources import images
from bgsub.video.sources.base import FrameSource, SelectedSource
from bgsub.video.sources.camera import CameraSource
from bgsub.video.sources.camera_address import is_camera
from bgsub.video.sources.pipes import STANDARD, Pipe, PipeSource, is_pipe
from bgsub.video.sources.video_file import FileSeries, VideoFileSource
from bgsub.video.timecode import ALL, Place, Selection

SourceSpec = int | AnyPath | Sequence[AnyPath] | np.ndarray


def open_source(
    spec: SourceSpec,
    *,
    on_error: str | None = None,
    fps: float | Fraction | None = None,
    start: Place | None = None,
    end: Place | None = None,
    duration: Place | None = None,
    every: int = 1,
    reconnect: bool | float | None = None,
    open_timeout: float = 10.0,
    read_timeout: float = 10.0,
    insecure: bool = False,
) -> FrameSource:
    """Open a source, or a part of it; iterate over it for the frames, and close it, for example by ``with``.

    Parameters
    ----------
    spec : int, str, path, sequence of paths or ndarray
        A camera index (also as digits) or address (``rtsp://``, ``http://``, ...); a video file; an image, of which
        each page is a frame, as of a TIFF stack; a folder of images, a glob or a printf pattern; a list of files; an
        array (n, h, w) or (n, h, w, c); a named pipe, or ``"-"`` for standard input. Several video files, as a list or
        a glob (``"cam-*.mp4"``, in natural order), are read as one video. Write ``./0`` for a file with the name 0. A
        pipe can be iterated over once.
    on_error : {"stop", "skip"}, optional
        At a frame that cannot be read, raise `SourceError` (default), or log and skip it (default for cameras).
    fps : float or Fraction, optional
        Frames per second, for images and arrays, or if a video is wrong about it.
    start, end, duration : str, int, float or Timecode, optional
        The part to read: an int or digits are a frame number from 0, ``12.5``, ``"12s"`` and ``"1:02:03.5"`` are
        times; a `duration` is a number of frames or seconds, and cannot be used together with `end`.
    every : int
        Read only the first of each `every` frames.
    reconnect, open_timeout, read_timeout, insecure : optional
        Reconnection, timeouts and certificates of a camera, see `CameraSource`; other sources ignore them.

    Raises
    ------
    SourceError
        If the source cannot be opened.
    ParameterError
        If `spec` or an option is not allowed.

    Examples
    --------
    >>> import bgsub
    >>> with bgsub.open_source("video.mp4", start="1s", every=10) as source:
    ...     print(source.size, [(frame.index, frame.time) for frame in source])
    (64, 48) [(25, 1.0), (35, 1.4), (45, 1.8), (55, 2.2)]
    """
    selection = Selection.parse(start, end, duration, every)  # check it before anything is opened
    options: dict[str, Any] = {"on_error": on_error or "stop", "fps": fps}
    connection = {"open_timeout": open_timeout, "read_timeout": read_timeout, "insecure": insecure}
    of_camera: dict[str, Any] = {"on_error": on_error or "skip", "fps": fps, "reconnect": reconnect, **connection}
    source: FrameSource
    if isinstance(spec, np.ndarray):
        source = images.ArraySource(spec, fps=fps)
    elif isinstance(spec, (list, tuple)):
        source = _open_several(spec, options)
    elif isinstance(spec, (int, np.integer)) and not isinstance(spec, bool):
        source = CameraSource(int(spec), **of_camera)
    elif not isinstance(spec, (str, os.PathLike)) or spec == "":
        raise ParameterError(
            f"a source is a camera index, an address, a path, a list of images or an array, got {spec!r}"
        )
    elif isinstance(spec, str) and is_camera(spec):
        source = CameraSource(spec, **of_camera)
    elif is_pipe(spec):
        source = _open_pipe(spec, options)
    else:
        source = _open_named(spec, options)
    return source if selection == ALL else SelectedSource(source, selection)


def check_there(spec: AnyPath) -> None:
    """Raise SourceError for the name of a missing file or folder, without opening anything."""
    camera = isinstance(spec, str) and (is_camera(spec) or spec == STANDARD)
    if not (camera or Path(spec).exists() or images.is_pattern(os.fspath(spec))):
        raise SourceError(f"no such file or folder: '{os.fspath(spec)}'")


def _open_named(spec: AnyPath, options: dict[str, Any]) -> FrameSource:
    path = Path(spec)
    if _is_video(path):
        return VideoFileSource(spec, **options)
    check_there(spec)
    if path.is_file() and images.pages_of(path) > 1:
        return images.PagedImageSource(spec, **options)
    files = [] if path.exists() else images.matches(os.fspath(spec))
    if files and not any(map(images.is_image, files)):
        return _open_several(files, options)
    return images.ImageSequenceSource(spec, **options)


def _open_several(specs: Sequence[AnyPath], options: dict[str, Any]) -> FrameSource:
    paths = [Path(spec) for spec in specs if isinstance(spec, (str, os.PathLike))]
    if len(paths) < len(specs) or all(map(images.is_image, paths)):
        return images.ImageSequenceSource(specs, **options)
    for path in paths:
        if not _is_video(path):
            what = "is no video file" if path.exists() else "does not exist"
            raise SourceError(f"'{path}' {what}: several sources are the video files, or the images, of one camera")
    return FileSeries(paths, **options) if len(paths) > 1 else VideoFileSource(paths[0], **options)


def _open_pipe(spec: AnyPath, options: dict[str, Any]) -> FrameSource:
    pipe = Pipe(spec)
    with on_failure(pipe.cancel):
        # Ctrl-C does not interrupt FFmpeg while it waits for the header.
        return in_background(partial(PipeSource, pipe, **options), FrameSource.close)


def _is_video(path: Path) -> bool:
    # Alone, a GIF is an animation; in a folder it is one image of a sequence.
    return path.is_file() and (not images.is_image(path) or path.suffix.lower() == ".gif")
