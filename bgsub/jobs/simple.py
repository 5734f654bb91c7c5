"""For programs: a whole video at once, or one frame after the other in a loop of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bgsub.errors import ParameterError
from bgsub.jobs.frame_rate import frames_per_second
from bgsub.jobs.outputs import take_all
from bgsub.jobs.pipeline import Callback, Pipeline, Subtractor
from bgsub.jobs.summary import Summary
from bgsub.separation import Separation
from bgsub.storage.file_lock import Claims
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.sources.opening import SourceSpec, open_source


def process_video(
    source: SourceSpec | FrameSource,
    outputs: Callback | Sink | Sequence[Callback | Sink] = (),
    *,
    subtractor: Subtractor | None = None,
    on_error: str | None = None,
) -> Summary:
    """Separate a whole video.

    Parameters
    ----------
    source : FrameSource or anything that `open_source` takes
        Closed at the end.
    outputs : callable, Sink or sequence of them
        Callables are called with each `Frame` and its `Separation`, in the calling thread, after the sinks have
        taken them. Sinks are closed at the end, or aborted on a failure.
    subtractor : Subtractor, optional
        By default a new `bgsub.BackgroundSubtractor`, told the frame rate of the source.
    on_error : {"stop", "skip"}, optional
        What a frame that cannot be read does, where `source` is not a `FrameSource` yet.

    Returns
    -------
    Summary
        How many frames there were, how long it took, and why it ended.

    Raises
    ------
    SourceError, SinkError, ParameterError
        What the source, a sink or the subtractor raise; SinkError as well where another run writes one of the outputs.
    BrokenSourceError
        A SourceError after the first frame; the sinks are closed then, and `result` is the Summary.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.video import ArraySink
    >>> summary = bgsub.process_video("video.mp4", ArraySink("masks.npz"))
    >>> summary.frames, summary.stopped
    (60, 'end')
    """
    given = list(outputs) if isinstance(outputs, Sequence) else [outputs]
    sinks = [output for output in given if isinstance(output, Sink)]
    callbacks = [output for output in given if not isinstance(output, Sink)]

    def call_all(frame: Frame, separation: Separation) -> None:
        for callback in callbacks:
            callback(frame, separation)

    with Claims() as claims:
        try:
            _check_callable(callbacks)
            take_all(claims, sinks)
            opened = source if isinstance(source, FrameSource) else open_source(source, on_error=on_error)
            subtractor = default_subtractor(opened) if subtractor is None else subtractor
        except BaseException:
            for sink in sinks:
                sink.abort()
            raise
        return Pipeline(opened, subtractor, sinks, progress=call_all).run()


def _check_callable(callbacks: Sequence[object]) -> None:
    for callback in callbacks:
        if not callable(callback):
            raise ParameterError(f"an output is a sink or is called with frame and separation, got {callback!r}")


def default_subtractor(source: FrameSource) -> Subtractor:
    """Return a new subtractor with the defaults, told the frame rate of the source."""
    from bgsub.subtractor.subtractor import BackgroundSubtractor  # noqa: PLC0415 - it brings Numba along

    return BackgroundSubtractor(fps=frames_per_second(source))


def separate(
    source: SourceSpec | FrameSource, *, subtractor: Subtractor | None = None, on_error: str | None = None
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
    on_error : {"stop", "skip"}, optional
        What a frame that cannot be read does, where `source` is not a `FrameSource` yet.

    Yields
    ------
    frame : Frame
        Index, name, time and pixels.
    separation : Separation
        What it was separated into.

    Raises
    ------
    SourceError, ParameterError
        What the source or the subtractor raise.

    Examples
    --------
    >>> import bgsub
    >>> for frame, separation in bgsub.separate("video.mp4"):
    ...     moving = separation.share > 0.01  # more than 1 % of the pixels are foreground
    >>> frame.index, frame.time, separation.mask.shape, separation.phase
    (59, 2.36, (48, 64), 'tracking')
    """
    opened = source if isinstance(source, FrameSource) else open_source(source, on_error=on_error)
    return _separations(opened, default_subtractor(opened) if subtractor is None else subtractor)


def _separations(source: FrameSource, subtractor: Subtractor) -> Iterator[tuple[Frame, Separation]]:
    with source:
        for frame in source.alike(source):
            yield frame, subtractor.process(frame.image)
