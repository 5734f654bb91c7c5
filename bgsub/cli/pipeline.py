"""One run of the pipeline from the command line: progress, signals, summary."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from bgsub.cli.progress import Progress
from bgsub.cli.report import report
from bgsub.jobs.job import Job, JobResult
from bgsub.jobs.run import Watch, execute, run_job

if TYPE_CHECKING:
    from bgsub.jobs.controls import Controls
    from bgsub.separation import Separation
    from bgsub.subtractor import BackgroundSubtractor
    from bgsub.video.sinks.base import Sink
    from bgsub.video.sources.base import Frame, FrameSource


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
    details: Callable[[], dict[str, Any]] | None = None,
) -> JobResult:
    """Run a source to its end, or for `limit` frames, save the model and print the summary.

    Ctrl-C and SIGTERM end the run as the end of the source does. `callback` sees every frame and its
    separation after the sinks; what `details` returns at the end goes into the summary in JSON.

    Raises
    ------
    SourceError, ParameterError, OutputError
        As `execute` does.
    """
    from bgsub.jobs.controls import Controls  # noqa: PLC0415

    controls = controls or Controls()
    watch = _watch(quiet, limit, controls, callback)
    with termination_as_interrupt():
        result = execute(source, subtractor, sinks, save_model=save_model, watch=watch, controls=controls)
    limited = limit is not None and result.summary.frames >= limit
    report(result, quiet=quiet, limited=limited, details=details() if details is not None else None)
    return result


def run_and_tell(job: Job, quiet: bool = False) -> JobResult:
    """Do a job with a progress bar, signals as in `run_pipeline`, and print the summary."""
    from bgsub.jobs.controls import Controls  # noqa: PLC0415

    controls = Controls()
    with termination_as_interrupt():
        result = run_job(job, watch=_watch(quiet, None, controls, None), controls=controls)
    report(result, quiet=quiet)
    return result


def _watch(
    quiet: bool,
    limit: int | None,
    controls: Controls,
    callback: Callable[[Frame, Separation], None] | None,
) -> Watch:
    """Return what draws the bar, calls `callback` and ends the run after `limit` frames."""

    @contextmanager
    def watch(source: FrameSource) -> Iterator[Callable[[Frame, Separation], None]]:
        """Draw the progress of one source."""
        with Progress(source, quiet) as progress:

            def after(frame: Frame, separation: Separation) -> None:
                """Count a frame and end the run at the limit."""
                progress(frame, separation)
                if callback is not None:
                    callback(frame, separation)
                if progress.frames == limit:
                    controls.quit()

            yield after

    return watch


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside the block, in the main thread: the outputs are finished."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    from bgsub.jobs import interrupts  # noqa: PLC0415

    def interrupt(number: int, frame: FrameType | None) -> None:
        """Do what Ctrl-C would do now."""
        if interrupts.ask():
            return
        # Whatever Ctrl-C does at this moment; a process in the background may have been told to ignore it.
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(number, frame)

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
