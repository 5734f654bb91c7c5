"""Iteration over the separations of a video, for programs that want to hold the loop themselves."""

from __future__ import annotations

from collections.abc import Iterator

from bgsub.separation import Separation
from bgsub.video.pipeline import Subtractor, default_subtractor
from bgsub.video.sources import Frame, FrameSource, SourceSpec, open_source


def separate(
    source: SourceSpec | FrameSource, *, subtractor: Subtractor | None = None, on_error: str = "stop"
) -> Iterator[tuple[Frame, Separation]]:
    """Yield each frame of a video with its separation, in the calling thread.

    Leaving the loop early is fine; the source is closed when the iterator is. To read, separate and write at the same
    time, use `process_video`.

    Parameters
    ----------
    source : FrameSource or anything that `open_source` takes
        Opened at once, so that a wrong one shows before the loop.
    subtractor : Subtractor, optional
        By default a new `bgsub.BackgroundSubtractor`, told the frame rate of the source.
    on_error : {"stop", "skip"}
        What a frame that cannot be read does, where `source` is not a `FrameSource` yet.

    Yields
    ------
    frame : Frame
    separation : Separation

    Raises
    ------
    SourceError, ParameterError
        What the source or the subtractor raise.
    """
    opened = source if isinstance(source, FrameSource) else open_source(source, on_error=on_error)
    return _separations(opened, default_subtractor(opened) if subtractor is None else subtractor)


def _separations(source: FrameSource, subtractor: Subtractor) -> Iterator[tuple[Frame, Separation]]:
    with source:
        for frame in source:
            yield frame, subtractor.process(frame.image)
