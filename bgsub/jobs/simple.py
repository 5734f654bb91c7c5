"""Simple functions for programs: a whole video at once, or a loop over its frames."""

from collections.abc import Iterator, Sequence

from bgsub.errors import ParameterError, logger
from bgsub.jobs.job import Summary
from bgsub.jobs.outputs import take_all
from bgsub.jobs.pipeline import Callback, Pipeline, Subtractor
from bgsub.parameters import SUBTRACTOR
from bgsub.separation import Separation
from bgsub.storage.file_lock import Claims
from bgsub.subtractor.rehearsal import image_of, rehearse
from bgsub.video.sinks.base import Sink, abort_on_error
from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.sources.opening import SourceSpec, open_source

_TIME_BASE = 1000  # a frame rate from here on is the unit of time stamps, 1/1000 or 1/90000 s


def process_video(
    source: SourceSpec | FrameSource,
    outputs: Callback | Sink | Sequence[Callback | Sink] = (),
    *,
    subtractor: Subtractor | None = None,
    on_error: str | None = None,
    online: bool = False,
) -> Summary:
    """Separate a whole video.

    Parameters
    ----------
    source : FrameSource or any argument of `open_source`
        Closed at the end.
    outputs : callable, Sink or sequence of them
        Callables are called with each `Frame` and its `Separation`, in the calling thread, after the sinks. Sinks are
        closed at the end, or aborted after a failure.
    subtractor : Subtractor, optional
        By default a new `bgsub.BackgroundSubtractor` with the frame rate of the source.
    on_error : {"stop", "skip"}, optional
        How to treat a frame that cannot be read, where `source` is not a `FrameSource` yet.
    online : bool, default False
        Whether each mask depends only on the frames so far. Otherwise a subtractor without frames first learns up to
        500 frames of a file, see `bgsub.BackgroundSubtractor.rehearse`, and then processes it from its beginning;
        other sources are always processed online.

    Raises
    ------
    SourceError, SinkError, ParameterError
        Of the source, a sink or the subtractor; SinkError as well if another run writes one of the outputs.
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
        with abort_on_error(sinks):
            for callback in callbacks:
                if not callable(callback):
                    raise ParameterError(f"an output must be a sink or a callable, got {callback!r}")
            take_all(claims, sinks)
            opened = source if isinstance(source, FrameSource) else open_source(source, on_error=on_error)
            subtractor = default_subtractor(opened) if subtractor is None else subtractor
        return Pipeline(opened, subtractor, sinks, progress=call_all, online=online).run()


def separate(
    source: SourceSpec | FrameSource,
    *,
    subtractor: Subtractor | None = None,
    on_error: str | None = None,
    online: bool = False,
) -> Iterator[tuple[Frame, Separation]]:
    """Yield each frame of a video with its separation, in the calling thread.

    The iterator closes the source, also if the loop ends early. To read, separate and write at the same time, use
    `process_video`.

    Parameters
    ----------
    source : FrameSource or any argument of `open_source`
        Opened at once, so that a wrong one fails before the loop.
    subtractor, on_error, online : optional
        As for `process_video`.

    Raises
    ------
    SourceError, ParameterError
        Of the source or the subtractor.

    Examples
    --------
    >>> import bgsub
    >>> for frame, separation in bgsub.separate("video.mp4"):
    ...     moving = separation.share > 0.01  # more than 1 % of the pixels are foreground
    >>> frame.index, frame.time, separation.mask.shape, separation.phase
    (59, 2.36, (48, 64), 'tracking')
    """
    opened = source if isinstance(source, FrameSource) else open_source(source, on_error=on_error)
    return _separations(opened, default_subtractor(opened) if subtractor is None else subtractor, online)


def _separations(source: FrameSource, subtractor: Subtractor, online: bool) -> Iterator[tuple[Frame, Separation]]:
    with source:
        if source.restartable and not online:
            rehearse(subtractor, (image_of(subtractor, frame) for frame in source.ahead()))
        for frame in source.alike(source):
            yield frame, subtractor.process(image_of(subtractor, frame))


def default_subtractor(source: FrameSource) -> Subtractor:
    """Return a new subtractor with the frame rate of the source."""
    from bgsub.subtractor.subtractor import BackgroundSubtractor  # noqa: PLC0415 - it imports Numba

    return BackgroundSubtractor(fps=frames_per_second(source))


def frames_per_second(source: FrameSource) -> float:
    """Return the frame rate of a source; if it has none, log that and return the default of a subtractor."""
    fps, default = source.fps, float(SUBTRACTOR["fps"].default)
    if fps is not None and 0 < fps < _TIME_BASE:
        return float(fps)
    if fps:
        if source.restartable:
            next(source.ahead(), None)  # without a readable frame, the error is enough
        logger.warning("%s has %g frames per second, taken for %g; set it with --fps", source.name, fps, default)
    else:
        logger.info("%s has no frame rate, %g frames per second are assumed; set it with --fps", source.name, default)
    return default
