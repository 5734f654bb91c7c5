"""One run of the pipeline with progress and summary."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from bgsub.cli.report import Progress
from bgsub.errors import SinkError

if TYPE_CHECKING:
    from bgsub.separation import Separation
    from bgsub.subtractor import BackgroundSubtractor
    from bgsub.video import Controls, Frame, FrameSource, Sink, Summary


def run_pipeline(
    source: FrameSource,
    subtractor: BackgroundSubtractor,
    sinks: Sequence[Sink],
    *,
    quiet: bool = False,
    limit: int | None = None,
    controls: Controls | None = None,
    save_model: Path | None = None,
    callback: Callable[[Frame, Separation], None] | None = None,
) -> Summary:
    """Run a source to its end, or for `limit` frames, save the model and print the summary line.

    Ctrl-C and SIGTERM end the run as the end of the source does. `callback` sees every frame and its
    separation after the sinks.

    Raises
    ------
    SourceError, ParameterError
        As the stages raise them.
    click.ClickException
        When an output that was open cannot be written any more: a failure, not a wrong input.
    """
    from bgsub.video import Controls, Pipeline  # noqa: PLC0415

    controls = controls or Controls()
    with Progress(source, quiet) as progress:

        def after(frame: Frame, separation: Separation) -> None:
            progress(frame, separation)
            if callback is not None:
                callback(frame, separation)
            if progress.frames == limit:
                controls.quit()

        try:
            with _termination_as_interrupt():
                summary = Pipeline(source, subtractor, sinks, progress=after, controls=controls).run()
            if save_model is not None:
                subtractor.save(save_model)
        except SinkError as error:
            raise click.ClickException(str(error)) from error
    outputs = [path for path in (*map(_target, sinks), save_model) if path is not None and path.exists()]
    progress.tell(summary, outputs, limited=limit is not None and summary.frames >= limit)
    return summary


def _target(sink: Sink) -> Path | None:
    """Return where a sink's output lies, None for a window."""
    return getattr(sink, "path", None) or getattr(sink, "folder", None)


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside the block, in the main thread: the outputs are finished."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        # Whatever Ctrl-C does at this moment; a process in the background may have been told to ignore it.
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(number, frame)

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
