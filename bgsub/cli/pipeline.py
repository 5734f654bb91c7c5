"""One run of the pipeline from the command line: progress, summary, what became of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bgsub import jobs
from bgsub.cli.progress import progress_bar
from bgsub.cli.report import report
from bgsub.errors import BrokenSourceError, StoppedError
from bgsub.jobs.controls import Controls
from bgsub.jobs.interrupts import INTERRUPTED
from bgsub.jobs.job import Job, JobResult
from bgsub.video.timecode import Timecode

if TYPE_CHECKING:
    from bgsub.jobs.run import Watch
    from bgsub.separation import Separation
    from bgsub.storage.file_lock import Claims
    from bgsub.subtractor.subtractor import BackgroundSubtractor
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
                frames, begin, step = 0, None, 1 / float(source.fps or math.inf)

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
    claims: Claims | None = None,
) -> JobResult:
    """Run an opened source to its end, the wanted duration or a signal, save the model and print the summary.

    Errors are those of `execute`. A source that breaks off, and a signal, leave finished outputs.
    """
    from bgsub.jobs.run import execute  # noqa: PLC0415 - with it comes the pipeline

    controls = controls or Controls()
    run = partial(execute, source, subtractor, sinks, save_model=save_model, claims=claims)
    return _told(partial(run, watch=telling.watch(controls), controls=controls), telling)


def run_and_tell(job: Job, telling: Telling) -> None:
    """Do a job with a progress bar, and print the summary; StoppedError as `check_whole` raises it."""
    controls = Controls()
    result = _told(partial(jobs.run_job, job, watch=telling.watch(controls), controls=controls), telling)
    from bgsub.video.sources.pipes import is_pipe  # noqa: PLC0415 - it brings NumPy along

    comes_again = not (result.live or job.record or is_pipe(job.source))
    further = "" if not comes_again else "; with --resume it begins anew, with checkpoints to go on from"
    check_whole(result, ends=job.end is not None or job.duration is not None, further=further)


def _told(run: Callable[[], JobResult], telling: Telling) -> JobResult:
    """Do a run and print its summary, also where an error has one."""
    try:
        result = run()
    except (BrokenSourceError, StoppedError) as error:
        if isinstance(error.result, JobResult):
            telling.report(error.result)
        raise
    telling.report(result)
    return result


def check_whole(result: JobResult, *, ends: bool, further: str = "") -> None:
    """Raise StoppedError where a signal came before the end of a run that has one.

    That is a run over a file, and one over a camera for which an end was asked for (`ends`). Any other run over a
    camera is ended by a signal, there being no other way: its outputs are whole. `further` says how to go on.
    """
    summary = result.summary
    if (ends or not result.live) and summary.stopped in INTERRUPTED:
        ending = "; the outputs end there" if result.outputs else ""
        what = f"{result.name}: stopped after {summary.frames} frames{ending}{further}"
        raise StoppedError(what, summary.stopped)
