"""One job: a source, what to make of it and where to; run by the command line, by a batch, and from Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from bgsub import video
from bgsub.errors import BrokenSourceError, OutputError, ParameterError, SinkError, StoppedError
from bgsub.events.notifications.notification import DeliveryCounts
from bgsub.events.notifications.sink import NotificationSink
from bgsub.events.recorder import RecorderSink
from bgsub.jobs import outputs
from bgsub.jobs.checkpoints import Checkpoints, safe_frames
from bgsub.jobs.controls import Controls
from bgsub.jobs.frame_rate import frames_per_second
from bgsub.jobs.interrupts import finishing
from bgsub.jobs.job import Job, JobResult, Statistics
from bgsub.jobs.pipeline import Callback, Pipeline
from bgsub.jobs.region_subtractor import RegionSubtractor
from bgsub.jobs.resumption import FOLDER, finish, forget, noted, prepare
from bgsub.jobs.summary import Summary
from bgsub.parameters import SubtractorParameters
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.memory import check_stream_memory
from bgsub.separation import Separation
from bgsub.storage.file_lock import Claims
from bgsub.subtractor.subtractor import BackgroundSubtractor
from bgsub.video.regions import Regions, absolute_region
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.sources.pipe import STANDARD, is_pipe

_PRIVACY = "\n"  # between the regions in the note of a model

Watch = Callable[[FrameSource], AbstractContextManager[Callback]]


def _unwatched(_source: FrameSource) -> AbstractContextManager[Callback]:
    return nullcontext(lambda _frame, _separation: None)


def run_job(job: Job, *, watch: Watch = _unwatched, controls: Controls | None = None) -> JobResult:
    """Do a job.

    Parameters
    ----------
    job : Job
        What to do.
    watch : callable, optional
        Called with the opened source; returns a context manager whose value is called with each frame and its
        separation, such as a progress bar.
    controls : Controls, optional
        Commands to the run.

    Returns
    -------
    JobResult

    Raises
    ------
    SourceError, SinkError, ParameterError, DependencyError
        For wrong input; see `process_video`. Nothing has been written then under a final name.
    OutputError
        When an output that was open cannot be written any more.
    BrokenSourceError
        When the source cannot be read on: the outputs are finished, with the frames before, and told in `result`.
    StoppedError
        When a job with `resume` was stopped: the same job goes on. `result` has no outputs then.

    Examples
    --------
    >>> from bgsub.jobs import Job, run_job
    >>> result = run_job(Job("video.mp4", "out", save="mask.npz"))
    >>> result.summary.frames, [path.name for path in result.outputs]
    (60, ['mask.npz'])
    """
    make_subtractor(job.parameters, job.model, privacy=job.privacy)  # what is wrong shows before the source is opened
    if job.resume and job.record is not None:
        raise ParameterError("clips of motion cannot be resumed: record and resume exclude each other")
    comes_again = not is_pipe(job.source) and os.fspath(job.output) != STANDARD
    if job.resume and not comes_again:
        raise ParameterError("what goes through a pipe cannot be resumed: that takes a file and a folder")
    regions = Regions(job.roi) if job.roi else None
    with _open(job) as source, Claims() as claims:
        if regions is not None and not source.live:  # whose true size only its first frame tells
            regions.union(source.size[::-1])
        subtractor = make_subtractor(job.parameters, job.model, source, job.privacy)
        if not source.live:  # of grey ones at least; more is known with the first frame
            check_stream_memory(
                FrameFormat(source.size[::-1], "uint8", 255.0), SubtractorParameters.of(subtractor.get_params())
            )

        def make_sinks(overwrite: bool, started: datetime) -> list[Sink]:
            return outputs.make_sinks(job, source, overwrite, started, regions, claims=claims)

        if job.resume and not source.live:
            claims.take(job.output / FOLDER, f"another run with --resume works in '{job.output}'")
        if not job.resume:
            sinks, checkpoints = make_sinks(job.overwrite, datetime.now()), None
        else:
            subtractor, sinks, checkpoints = prepare(job, source, subtractor, make_sinks)
            if checkpoints is None:
                return _already_done(job, source, sinks)
        targets = outputs.all_targets(sinks, job.save_model)
        with noted(job, source, targets) if comes_again and not source.live else nullcontext():
            result = execute(
                source,
                subtractor if regions is None else RegionSubtractor(subtractor, regions),
                sinks,
                save_model=job.save_model,
                watch=watch,
                controls=controls,
                checkpoints=checkpoints,
                claims=claims,
            )
        if checkpoints is not None:
            finish(job, checkpoints, targets)
        elif result.summary.stopped == "end":
            forget(job, source)
        return result


def _open(job: Job) -> FrameSource:
    source = video.open_source(
        job.source,
        on_error=job.on_error,
        fps=job.fps,
        backend=job.backend,
        raw=job.raw,
        start=job.start,
        end=job.end,
        duration=job.duration,
        every=job.every,
        reconnect=job.reconnect,
    )
    return video.PrivateSource(source, job.privacy) if job.privacy else source


def execute(
    source: FrameSource,
    subtractor: BackgroundSubtractor | RegionSubtractor,
    sinks: Sequence[Sink],
    *,
    save_model: Path | None = None,
    watch: Watch = _unwatched,
    controls: Controls | None = None,
    checkpoints: Checkpoints | None = None,
    claims: Claims | None = None,
) -> JobResult:
    """Run the pipeline over an opened source, save the model, and return what happened.

    Raises
    ------
    SinkError
        When another run writes one of the outputs.
    OutputError
        When an output that was open cannot be written any more.
    SourceError, ParameterError
        As the source and the subtractor raise them.
    BrokenSourceError, StoppedError
        As `run_job`.
    """
    statistics = Statistics()
    if checkpoints is not None:
        checkpoints.follow(statistics)
    with ExitStack() as stack:
        claims = claims or stack.enter_context(Claims())
        try:
            outputs.take_all(claims, sinks)
            if save_model is not None:
                claims.take(save_model)
            watcher = stack.enter_context(watch(source))
        except BaseException:
            for sink in sinks:
                sink.abort()
            raise

        def after(frame: Frame, separation: Separation) -> None:
            statistics(frame, separation)
            watcher(frame, separation)

        try:
            pipeline = Pipeline(source, subtractor, sinks, progress=after, controls=controls, checkpoints=checkpoints)
            broken: BrokenSourceError | None = None
            try:
                with nullcontext() if checkpoints is None else checkpoints.going_on():
                    summary = pipeline.run()
            except BrokenSourceError as error:
                broken, summary = error, error.result
            if checkpoints is not None and summary.stopped not in ("end", "broken"):
                result = JobResult(source.name, source.live, summary, statistics, [])
                raise StoppedError(_stopped(source, summary, checkpoints), summary.stopped, result)
            if save_model is not None:
                with finishing():
                    subtractor.save(save_model)
        except OutputError:
            raise
        except SinkError as error:
            raise OutputError(str(error)) from error
    notifications = sum((sink.counts for sink in sinks if isinstance(sink, NotificationSink)), DeliveryCounts())
    clips = next((len(sink.clips) for sink in sinks if isinstance(sink, RecorderSink)), None)
    result = JobResult(
        source.name, source.live, summary, statistics, _outputs(sinks, save_model), notifications, clips=clips
    )
    if broken is not None:
        broken.result = result
        raise broken
    return result


def _already_done(job: Job, source: FrameSource, sinks: Sequence[Sink]) -> JobResult:
    nothing = Summary(0, 0, 0, 0.0, "end")
    return JobResult(
        source.name, source.live, nothing, Statistics(), _outputs(sinks, job.save_model), already_done=True
    )


def _outputs(sinks: Sequence[Sink], save_model: Path | None) -> list[Path]:
    """Return what there is of the outputs of the sinks, and the model."""
    return [path for path in outputs.all_targets(sinks, save_model) if path.exists()]


def _stopped(source: FrameSource, summary: Summary, checkpoints: Checkpoints) -> str:
    safe = safe_frames(checkpoints.path)  # from the file: a second Ctrl-C may have come after its writing
    where = f"goes on after {safe} frames" if safe else "begins anew"
    return f"{source.name}: stopped after {summary.frames} frames; the same command {where}"


def make_subtractor(
    parameters: dict[str, Any],
    model: Path | None = None,
    source: FrameSource | None = None,
    privacy: Sequence[str] = (),
) -> BackgroundSubtractor:
    """Return a new subtractor, told the frame rate of its `source` unless ``fps`` was given, or the saved `model`.

    Raises
    ------
    ParameterError
        For a bad combination of parameters, and for parameters beside a saved model; for a saved model that was made
        without one of the regions in `privacy`, and so knows what is there.
    """
    if model is not None and parameters:
        raise ParameterError(f"a saved model brings its own parameters, so {next(iter(parameters))} cannot be given")
    if model is not None:
        return _loaded(model, privacy)
    if source is not None and "fps" not in parameters:
        parameters = {"fps": frames_per_second(source), **parameters}
    subtractor = BackgroundSubtractor(**parameters)
    subtractor.note = _PRIVACY.join(map(absolute_region, privacy))
    return subtractor


def _loaded(model: Path, privacy: Sequence[str]) -> BackgroundSubtractor:
    subtractor = BackgroundSubtractor.load(model)
    hidden = subtractor.note.split(_PRIVACY)
    for region in map(absolute_region, privacy):
        if region not in hidden:
            raise ParameterError(
                f"the model {model} was made without the privacy region '{region}': it knows the place"
            )
    return subtractor
