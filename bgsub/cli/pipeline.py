"""One run of the pipeline from the command line: progress, signals, summary."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from bgsub import jobs
from bgsub.cli.progress import progress_bar
from bgsub.cli.report import report
from bgsub.jobs import interrupts
from bgsub.jobs.controls import Controls
from bgsub.jobs.job import Job, JobResult

if TYPE_CHECKING:
    from bgsub.jobs.run import Watch
    from bgsub.separation import Separation
    from bgsub.subtractor import BackgroundSubtractor
    from bgsub.video.sinks.base import Sink
    from bgsub.video.sources.base import Frame, FrameSource


class Observer(Protocol):
    """Looks at every frame and its separation, after the outputs."""

    def __call__(self, frame: Frame, separation: Separation) -> None: ...

    def scores(self) -> dict[str, Any]:
        """Return what it found, for the summary in JSON."""


@dataclass(frozen=True)
class Telling:
    """What is told of a run."""

    quiet: bool = False  # no progress and no sentence at the end
    limit: int | None = None  # number of frames after which the run is over
    observer: Observer | None = None  # sees every frame

    def watch(self, controls: Controls) -> Watch:
        """Return what draws the bar, calls the observer and ends the run at the limit."""

        @contextmanager
        def watch(source: FrameSource) -> Iterator[Callable[[Frame, Separation], None]]:
            with progress_bar(source.name, source.length, self.quiet, source.live) as meter:
                frames = 0

                def after(frame: Frame, separation: Separation) -> None:
                    nonlocal frames
                    frames += 1
                    meter.update()
                    if self.observer is not None:
                        self.observer(frame, separation)
                    if frames == self.limit:
                        controls.quit()

                yield after

        return watch

    def report(self, result: JobResult) -> None:
        details = None if self.observer is None else self.observer.scores()
        limited = self.limit is not None and result.summary.frames >= self.limit
        report(result, quiet=self.quiet, limited=limited, details=details)


def run_pipeline(
    source: FrameSource,
    subtractor: BackgroundSubtractor,
    sinks: Sequence[Sink],
    telling: Telling,
    *,
    controls: Controls | None = None,
    save_model: Path | None = None,
) -> JobResult:
    """Run an opened source to its end or the limit, save the model and print the summary.

    Ctrl-C and SIGTERM end the run as the end of the source does; errors are those of `execute`.
    """
    controls = controls or Controls()
    with termination_as_interrupt():
        result = jobs.execute(
            source, subtractor, sinks, save_model=save_model, watch=telling.watch(controls), controls=controls
        )
    telling.report(result)
    return result


def run_and_tell(job: Job, telling: Telling) -> JobResult:
    """Do a job with a progress bar, signals as in `run_pipeline`, and print the summary."""
    controls = Controls()
    with termination_as_interrupt():
        result = jobs.run_job(job, watch=telling.watch(controls), controls=controls)
    telling.report(result)
    return result


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside the block, in the main thread: the outputs are finished."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
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
