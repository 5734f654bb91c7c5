"""One run of the pipeline from the command line: progress, signals, summary."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from bgsub import jobs
from bgsub.cli.progress import progress_bar
from bgsub.cli.report import report
from bgsub.jobs import interrupts
from bgsub.jobs.controls import Controls
from bgsub.jobs.job import Job, JobResult
from bgsub.video.timecode import Timecode

if TYPE_CHECKING:
    from bgsub.jobs.run import Watch
    from bgsub.separation import Separation
    from bgsub.subtractor import BackgroundSubtractor
    from bgsub.video.sinks.base import Sink
    from bgsub.video.sources.base import Frame, FrameSource


_TOLERANCE = 1e-6  # seconds


class Observer(Protocol):
    """Looks at every frame and its separation, after the outputs."""

    def __call__(self, frame: Frame, separation: Separation) -> None: ...

    def scores(self) -> dict[str, Any]:
        """Return what it found, for the summary in JSON."""


@dataclass(frozen=True)
class Telling:
    """What is told of a run, or of several at once, and how long they take."""

    quiet: bool = False  # no progress and no sentence at the end
    duration: Timecode | None = None  # after which the run is over
    observer: Observer | None = None  # sees every frame
    _limited: set[str] = field(default_factory=set)  # names of the sources that were stopped by the duration

    def watch(self, controls: Controls) -> Watch:
        """Return what draws the bar, calls the observer and ends the run after the duration."""

        @contextmanager
        def watch(source: FrameSource) -> Iterator[Callable[[Frame, Separation], None]]:
            with progress_bar(source.name, source.length, self.quiet, source.live) as meter:
                frames, begin, step = 0, None, 1 / float(source.rate or math.inf)

                def after(frame: Frame, separation: Separation) -> None:
                    nonlocal frames, begin
                    frames += 1
                    meter.update()
                    if self.observer is not None:
                        self.observer(frame, separation)
                    now = time.monotonic() if frame.time is None else frame.time
                    begin = now if begin is None else begin
                    if self._is_over(frames, now - begin + step + _TOLERANCE):
                        self._limited.add(source.name)
                        controls.quit()

                yield after

        return watch

    def _is_over(self, frames: int, seconds: float) -> bool:
        if self.duration is None:
            return False
        return (frames if self.duration.frame is not None else seconds) >= self.duration.amount

    def report(self, result: JobResult) -> None:
        details = None if self.observer is None else self.observer.scores()
        report(result, quiet=self.quiet, limited=result.name in self._limited, details=details)


def run_pipeline(
    source: FrameSource,
    subtractor: BackgroundSubtractor,
    sinks: Sequence[Sink],
    telling: Telling,
    *,
    controls: Controls | None = None,
    save_model: Path | None = None,
) -> JobResult:
    """Run an opened source to its end or the wanted duration, save the model and print the summary.

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
