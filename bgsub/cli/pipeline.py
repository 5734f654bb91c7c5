"""One run of the pipeline from the command line: progress, time limit and summary."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub import jobs
from bgsub.cli.reporting import Reporting, pace, show_progress, stopped_by, to_file
from bgsub.errors import BrokenSourceError, StoppedError, counted, printable
from bgsub.jobs.controls import Controls
from bgsub.jobs.interrupts import INTERRUPTED
from bgsub.jobs.job import Job, JobResult
from bgsub.subtractor.rehearsal import LONGEST
from bgsub.video.concurrency import after_seconds
from bgsub.video.timecode import CLOSE, Timecode

if TYPE_CHECKING:
    from bgsub.evaluation.sequences import OnlineScorer
    from bgsub.separation import Separation
    from bgsub.video.sources.base import Frame, FrameSource


@dataclass(frozen=True)
class RunReporter:
    """Reports progress and summary of one or several runs and ends them after a duration."""

    is_one_of_many: bool = False  # then without progress and summary
    duration: Timecode | None = None
    observer: OnlineScorer | None = None  # gets every frame after the outputs
    lists_motion: bool = False  # whether the motion events are the result, not a part of the summary
    csv: Path | None = None  # file of the motion events
    _limited: set[str] = field(default_factory=set)  # names of the sources that the duration ended

    @contextmanager
    def watch(self, controls: Controls, source: FrameSource) -> Iterator[Callable[[Frame, Separation], None]]:
        """Yield the function to call after each frame of a source."""
        context = click.get_current_context()  # that of this thread
        with ExitStack() as stack:
            show = partial(show_progress, quiet=self.is_one_of_many, live=source.live)
            frames, begin, step = 0, None, 1 / float(source.fps or math.inf)
            meter = None if source.restartable else stack.enter_context(show(source.name, source.length))

            def ahead(coming: Iterator[Frame]) -> Generator[Frame, None, None]:
                showing = show(f"{source.name}, looking ahead", min(LONGEST, source.length or LONGEST))
                with context.scope(cleanup=False), showing as meter:
                    for frame in coming:
                        meter.update()
                        yield frame

            def end() -> None:
                self._limited.add(source.name)
                controls.quit()

            def after(frame: Frame, separation: Separation) -> None:
                nonlocal frames, begin, meter
                frames += 1
                meter = meter or stack.enter_context(show(source.name, source.length))
                meter.update()
                if self.observer is not None:
                    self.observer(frame, separation)
                now = time.monotonic() if frame.time is None else frame.time
                if begin is None:
                    begin = now
                    if source.live and self.duration is not None and self.duration.seconds is not None:
                        # A lost camera sends no frame that could end the run.
                        stack.enter_context(after_seconds(float(self.duration.seconds), end))
                if self.duration is not None:
                    passed = frames if self.duration.frame is not None else now - begin + step + CLOSE
                    if passed >= self.duration.amount:
                        end()

            controls.watch_ahead = ahead
            yield after

    def report(self, result: JobResult) -> None:
        """Print the motion events and the summary of a run; write the file of the events."""
        if result.motion is not None:
            from bgsub.events.tables import motion_table, write_motion  # noqa: PLC0415 - few runs list motion

            if self.csv is not None:
                write_motion(self.csv, result.motion)
            if result.motion and not Reporting.of().json and (self.lists_motion or not Reporting.of().quiet):
                click.echo(motion_table(result.motion))
        scores = {} if self.observer is None else self.observer.scores()
        sentence = summarise(result, result.name in self._limited)
        show_result({**result.as_dict(), **scores}, sentence, is_silent=self.is_one_of_many)


def show_result(values: dict[str, Any], sentence: str, is_silent: bool = False) -> None:
    """Print values with ``--json``, else a sentence unless `is_silent`; log the sentence to the file."""
    to_file(sentence)
    if Reporting.of().json:
        click.echo(json.dumps(values))
    elif not (is_silent or Reporting.of().quiet):
        click.echo(printable(sentence))


def run_pipeline(*opened: Any, reporter: RunReporter, controls: Controls | None = None, **options: Any) -> JobResult:
    """Run a source, a subtractor and sinks, with options as for `execute`, and print the summary."""
    from bgsub.jobs.run import execute  # noqa: PLC0415 - it imports the pipeline

    return _reported(partial(execute, *opened, **options), reporter, controls)


def run_job(job: Job, reporter: RunReporter | None = None) -> None:
    """Do a job with a progress bar and print the summary; StoppedError as `check_whole`."""
    result = _reported(partial(jobs.run_job, job), reporter or RunReporter())
    from bgsub.video.sources.pipes import is_pipe  # noqa: PLC0415 - it imports NumPy

    has_resume = "resume" in click.get_current_context().params
    can_repeat = has_resume and not (result.live or job.record or is_pipe(job.source))
    advice = "; with --resume it starts again and writes checkpoints" if can_repeat else ""
    check_whole(result, ends=job.end is not None or job.duration is not None, advice=advice)


def _reported(run: Callable[..., JobResult], reporter: RunReporter, controls: Controls | None = None) -> JobResult:
    """Run with progress and print the summary, also that of an error."""
    controls = controls or Controls()
    try:
        result = run(watch=partial(reporter.watch, controls), controls=controls)
    except (BrokenSourceError, StoppedError) as error:
        if isinstance(error.result, JobResult):
            reporter.report(error.result)
        raise
    reporter.report(result)
    return result


def check_whole(result: JobResult, *, ends: bool, advice: str = "") -> None:
    """Raise StoppedError if a signal ended a run over a file, or over a camera with an end (`ends`)."""
    summary = result.summary
    if (ends or not result.live) and summary.stopped in INTERRUPTED:
        ending = "; the outputs end there" if result.outputs else ""
        what = f"{result.name}: stopped after {summary.frames} frames{ending}{advice}"
        raise StoppedError(what, summary.stopped)


def summarise(result: JobResult, limited: bool = False) -> str:
    """Return the summary in words; `limited` if the duration ended the run."""
    summary = result.summary
    if result.already_done:
        return f"{result.name}: done already, {', '.join(map(str, result.outputs))}"
    words = [_frames(result), *_remarks(result)]
    if summary.stopped == "limit":
        words.append("stopped by --max-events")
    elif summary.stopped not in ("end", "broken") and not limited:
        words.append(stopped_by(summary.stopped))
    if result.outputs:
        words.append(f"wrote {', '.join(map(str, result.outputs))}")
    return "; ".join(words)


def _frames(result: JobResult) -> str:
    summary, statistics = result.summary, result.statistics
    if summary.frames == 0:
        return f"{result.name}: no frame was processed"
    width, height = statistics.size
    kernels = f", {summary.waited:.1f} of them for kernels" if summary.waited >= 0.05 else ""
    return (
        f"{result.name}: {counted(summary.frames, 'frame')} of {width}x{height} "
        f"in {summary.seconds:.1f} s{kernels} ({pace(summary.frames_per_second)}); "
        f"foreground {100 * statistics.share:.1f} %"
    )


def _remarks(result: JobResult) -> Iterator[str]:
    summary, statistics = result.summary, result.statistics
    if summary.resumed:
        yield f"resumed after {summary.resumed} frames"
    if statistics.frames and not statistics.tracked:
        yield "video shorter than the start phase, all masks are provisional"
    for event, number in statistics.events.items():
        yield counted(number, "covered frame" if event == "covered" else event.replace("-", " "))
    if result.motion is not None:
        yield counted(len(result.motion), "motion event") if result.motion else "no motion"
    if result.clips is not None:
        yield counted(result.clips, "clip") if result.clips else "no clip"
    if summary.dropped:
        yield f"{counted(summary.dropped, 'frame')} dropped"
    if result.notifications.delivered:
        yield f"{counted(result.notifications.delivered, 'notification')} delivered"
    if result.notifications.lost:
        yield f"{counted(result.notifications.lost, 'notification')} lost"
    if summary.skipped:
        yield f"{counted(summary.skipped, 'frame')} skipped as unreadable"
