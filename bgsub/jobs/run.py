"""``run_job``: one source with everything to make of it, for the command line, a batch, and Python."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bgsub import video
from bgsub.errors import BrokenSourceError, OutputError, ParameterError, SinkError, StoppedError, on_failure
from bgsub.events.notifications.notification import DeliveryCounts
from bgsub.events.notifications.sink import NotificationSink
from bgsub.events.recorder import RecorderSink
from bgsub.events.tables import MotionListSink
from bgsub.jobs import outputs
from bgsub.jobs.checkpoints import FOLDER, Checkpoints, saved_frames
from bgsub.jobs.controls import Controls
from bgsub.jobs.interrupts import finishing
from bgsub.jobs.job import Job, JobResult, Statistics, Summary
from bgsub.jobs.job_state import finish, prepare, remove_record
from bgsub.jobs.pipeline import Callback, Pipeline, queue_memory
from bgsub.jobs.simple import frames_per_second
from bgsub.parameters import SubtractorParameters
from bgsub.scene.frame_format import FrameFormat, check_stream_memory
from bgsub.separation import Separation
from bgsub.storage.file_lock import Claims, check_links
from bgsub.subtractor.subtractor import BackgroundSubtractor
from bgsub.video.privacy_mask import PrivacyMask
from bgsub.video.regions import Regions, absolute_region, processed, surroundings
from bgsub.video.sinks.base import Sink, abort_on_error
from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.sources.pipes import STANDARD, is_pipe

_SEPARATOR, _ROI = "\n", "--roi "  # between the regions in the note of a model; before those of interest

Watch = Callable[[FrameSource], AbstractContextManager[Callback]]


def _no_watch(_source: FrameSource) -> AbstractContextManager[Callback]:
    return nullcontext(lambda _frame, _separation: None)


def run_job(job: Job, *, watch: Watch = _no_watch, controls: Controls | None = None) -> JobResult:
    """Do a job.

    Parameters
    ----------
    job : Job
        The source and its outputs.
    watch : callable, optional
        Called with the opened source; returns a context manager whose value is called with each frame and its
        separation, such as a progress bar.
    controls : Controls, optional
        Commands to the run.

    Raises
    ------
    SourceError, SinkError, ParameterError, DependencyError
        For wrong input; see `process_video`. No output has its final name then.
    OutputError
        When an open output cannot be written any more.
    BrokenSourceError
        When the source fails after some frames: the outputs are finished with those, and listed in `result`.
    StoppedError
        When a job with `resume` was stopped: the same job continues. `result` has no outputs then.
    Exception
        Any exception of `watch`, unchanged.

    Examples
    --------
    >>> from bgsub.jobs import Job, run_job
    >>> result = run_job(Job("video.mp4", "out", save="mask.npz"))
    >>> result.summary.frames, [path.name for path in result.outputs]
    (60, ['mask.npz'])
    """
    make_subtractor(job)  # check before the source is opened
    if job.resume and job.record is not None:
        raise ParameterError("clips of motion cannot be resumed: use either record or resume")
    is_repeatable = not is_pipe(job.source) and os.fspath(job.output) != STANDARD
    if job.resume and not is_repeatable:
        raise ParameterError("a run through a pipe cannot be resumed: resume needs a file and a folder")
    regions = Regions.of(job.roi)
    opened = video.open_source(job.source, **open_options(job))
    source = video.PrivateSource(opened, job.privacy) if job.privacy else opened
    with source, Claims(job.output) as claims:
        if not source.live and 0 not in source.size:  # the first frame of a camera shows its size
            processed(source.size[::-1], regions, Regions.of(job.ignore), Regions.of(job.privacy))
        subtractor = make_subtractor(job, source)
        if not source.live:  # a lower bound of the stream: the first frame shows whether it is grey
            frames = FrameFormat(source.size[::-1], "uint8", 255.0)
            parameters = SubtractorParameters.of(subtractor.get_params())
            check_stream_memory(frames, parameters, queue_memory(source.size) + outputs.encoder_memory(job, source))
        check_links(job.output / FOLDER, job.output)
        make_sinks = partial(outputs.make_sinks, job, source, None, claims)
        if job.resume and not source.live:
            claims.take(job.output / FOLDER, f"another run with --resume works in '{job.output}'")
        if not job.resume:
            sinks, checkpoints = make_sinks(job.overwrite, datetime.now()), None
        else:
            subtractor, sinks, checkpoints = prepare(job, source, subtractor, make_sinks)
            if checkpoints is None:
                nothing, made = Summary(0, 0, 0, 0.0, "end"), _existing(sinks, job.save_model)
                return JobResult(source.name, source.live, nothing, Statistics(), made, already_done=True)
        targets = outputs.all_targets(sinks, job.save_model)
        if is_repeatable and not (job.resume or source.live):
            remove_record(job, targets)
        controls = controls or (Controls() if job.max_events else None)
        run = partial(execute, watch=watch, controls=controls, claims=claims, online=job.online)
        used = restricted(subtractor, job)
        result = run(source, used, sinks, save_model=job.save_model, checkpoints=checkpoints)
        if checkpoints is not None:
            finish(job, checkpoints, targets)
        return result


def open_options(job: Job) -> dict[str, Any]:
    """Return the arguments of `open_source` for the source of a job."""
    names = ("on_error", "fps", "start", "end", "duration", "every", "reconnect", "insecure")
    return {name: getattr(job, name) for name in names}


def execute(
    source: FrameSource,
    subtractor: "BackgroundSubtractor | RegionSubtractor",
    sinks: Sequence[Sink],
    *,
    save_model: Path | None = None,
    watch: Watch = _no_watch,
    controls: Controls | None = None,
    checkpoints: Checkpoints | None = None,
    claims: Claims | None = None,
    online: bool = True,
) -> JobResult:
    """Run the pipeline over an opened source and save the model; errors as `run_job`."""
    statistics = Statistics()
    if checkpoints is not None:
        checkpoints.follow(statistics)
    listing = next((sink for sink in sinks if isinstance(sink, MotionListSink)), None)
    raised: list[Exception] = []  # by the watcher, which belongs to the caller
    with ExitStack() as stack:
        claims = claims or stack.enter_context(Claims())
        with abort_on_error(sinks):
            outputs.take_all(claims, sinks)
            if save_model is not None:
                claims.take(save_model)
            watcher = stack.enter_context(watch(source))
        if checkpoints is not None:
            stack.enter_context(on_failure(checkpoints.withdraw))

        def after(frame: Frame, separation: Separation) -> None:
            statistics(frame, separation)
            try:
                watcher(frame, separation)
            except Exception as error:
                raised.append(error)
                raise
            if controls is not None and listing is not None and listing.is_full:
                controls.quit("limit")

        options: dict[str, Any] = {"controls": controls, "online": online, "checkpoints": checkpoints}
        broken: BrokenSourceError | None = None  # the outputs were finished after it
        stack.enter_context(_output_errors(raised))
        pipeline = Pipeline(source, subtractor, sinks, progress=after, **options)
        try:
            with nullcontext() if checkpoints is None else checkpoints.damage_reported(raised):
                summary = pipeline.run()
        except BrokenSourceError as error:
            summary, broken = error.result, error
        if checkpoints is not None and summary.stopped not in ("end", "limit", "broken"):
            frames = saved_frames(checkpoints.path.parent.parent)  # in the file: a second Ctrl-C may have come after it
            where = f"goes on after {frames} frames" if frames else "starts over"
            message = f"{source.name}: stopped after {summary.frames} frames; the same command {where}"
            result = JobResult(source.name, source.live, summary, statistics, [])
            raise StoppedError(message, summary.stopped, result)
        if save_model is not None and (summary.frames or summary.stopped == "end"):
            with finishing():
                subtractor.save(save_model)
    result = _result(source, summary, statistics, sinks, save_model)
    if broken is not None:
        broken.result = result
        raise broken
    return result


@contextmanager
def _output_errors(others: Sequence[Exception]) -> Iterator[None]:
    """Turn the SinkError of an open output into OutputError; except `others`."""
    try:
        yield
    except SinkError as error:
        if isinstance(error, OutputError) or error in others:
            raise
        raise OutputError(str(error)) from error


def _result(
    source: FrameSource, summary: Summary, statistics: Statistics, sinks: Sequence[Sink], save_model: Path | None
) -> JobResult:
    delivered = sum((sink.counts for sink in sinks if isinstance(sink, NotificationSink)), DeliveryCounts())
    clips = next((sink.count for sink in sinks if isinstance(sink, RecorderSink)), None)
    motion = next((sink.rows() for sink in sinks if isinstance(sink, MotionListSink)), None)
    made = _existing(sinks, save_model)
    return JobResult(source.name, source.live, summary, statistics, made, delivered, clips=clips, motion=motion)


def _existing(sinks: Sequence[Sink], save_model: Path | None) -> list[Path]:
    """Return the outputs of the sinks, the model and the folder of snapshots that exist and hold more than locks."""
    snapshots = [sink.snapshots for sink in sinks if isinstance(sink, NotificationSink) and sink.snapshots is not None]
    made = (*outputs.all_targets(sinks, save_model), *snapshots)
    return [path for path in made if (any(path.glob("[!.]*")) if path.is_dir() else path.exists())]


def make_subtractor(job: Job, source: FrameSource | None = None, any_roi: bool = False) -> BackgroundSubtractor:
    """Return the model of a job, made with its privacy regions and, unless `any_roi`, its roi; or a new subtractor."""
    model, parameters = job.model, job.parameters
    if model is None:
        if source is not None and "fps" not in parameters:
            parameters = {"fps": frames_per_second(source), **parameters}
        subtractor = BackgroundSubtractor(**parameters)
        subtractor.note = region_note(job.privacy, job.roi)
        return subtractor
    if parameters:
        raise ParameterError(f"a saved model brings its own parameters, so {next(iter(parameters))} cannot be given")
    subtractor = BackgroundSubtractor.load(model)
    hidden = subtractor.note.split(_SEPARATOR)
    for region in map(absolute_region, job.privacy):
        if region not in hidden:
            raise ParameterError(f"the model {model} was made without the privacy region '{region}' and contains it")
    made = sorted(line for line in hidden if line.startswith(_ROI))
    if not any_roi and made != (now := sorted(_ROI + absolute_region(text) for text in job.roi)):
        before, given = (" ".join(lines) or f"no {_ROI.strip()}" for lines in (made, now))
        raise ParameterError(f"the model {model} was made with {before}, got {given}")
    return subtractor


def region_note(privacy: Iterable[str], roi: Iterable[str] = ()) -> str:
    """Return the note of a model about its privacy regions and its regions of interest."""
    return _SEPARATOR.join([*map(absolute_region, privacy), *(_ROI + absolute_region(text) for text in roi)])


def restricted(subtractor: BackgroundSubtractor, job: Job) -> "BackgroundSubtractor | RegionSubtractor":
    """Return a subtractor of the regions of a job; the given one if it has none."""
    if not job.roi and not job.ignore:
        return subtractor
    return RegionSubtractor(subtractor, Regions.of(job.roi), Regions.of(job.ignore))


class RegionSubtractor:
    """Processes the surroundings of regions; outside of them, the mask is 0 and the background is the frame."""

    # With a `privacy` mask the whole frame is processed, and regions may be replaced.
    # The box is wide: an object that filled all pixels would look like a light change, a covered lens, another scene.

    def __init__(
        self, subtractor: Any, regions: Regions | None, ignored: Regions | None, privacy: PrivacyMask | None = None
    ) -> None:
        self._subtractor, self._given, self._privacy = subtractor, (regions, ignored), privacy
        self._used: tuple[Regions | None, Regions | None] | None = None  # of the newest frame
        self._hidden = None if privacy is None else privacy.regions  # of the newest frame
        self._shape: tuple[int, ...] = ()
        self._box: tuple[slice, slice] = (slice(0), slice(0))
        self._inside = np.empty((0, 0), bool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subtractor, name)

    def replace(self, regions: Regions | None, ignored: Regions | None) -> None:
        """Use other regions from the next frame on; needs a `privacy` mask; from any thread."""
        self._given = regions, ignored

    def rehearse(self, frames: Iterable[np.ndarray]) -> bool:
        """Learn the first frames, see `BackgroundSubtractor.rehearse`."""
        return self._subtractor.rehearse(map(self._box_of, frames))

    def process(self, image: np.ndarray, learningRate: float = -1) -> Separation:
        """Separate the next frame in its full size; ParameterError if a region is outside, or if its shape differs."""
        if self._privacy is not None:
            hidden = self._privacy.regions
            if hidden is not self._hidden:  # the model would keep what other regions have shown
                self._hidden, learningRate = hidden, 1
                self._subtractor.note = region_note(self._privacy.texts)
            image = self._privacy.apply(np.asarray(image))
            if self._given == (None, None):
                return self._subtractor.process(image, learningRate=learningRate)
        frame = np.array(image)  # a copy, like that of the inner subtractor
        part = self._subtractor.process(self._box_of(frame), learningRate=learningRate)
        mask, residual = self._placed(part.mask), self._placed(part.residual)
        background = frame.copy()
        inside = self._inside if frame.ndim == 2 else self._inside[:, :, np.newaxis]
        np.copyto(background[self._box], part.background.reshape(background[self._box].shape), where=inside)
        images = {"frame": frame, "mask": mask, "background": background, "residual": residual}
        return replace(part, **images, soft_vote=lambda: self._placed(part.probability))

    def _placed(self, part: np.ndarray) -> np.ndarray:
        """Return an image of the box in the size of the frame, (h, w), zero outside of the regions."""
        image: np.ndarray = np.zeros(self._shape[:2], part.dtype)
        np.copyto(image[self._box], part, where=self._inside)
        return image

    def _box_of(self, frame: np.ndarray) -> np.ndarray:
        """Return the box of a frame, in which the regions of the first one are; ParameterError for another shape."""
        given = self._given
        if given is not self._used:
            if frame.ndim not in (2, 3):
                raise ParameterError(f"image must have shape (h, w) or (h, w, c), got {frame.shape}")
            inside = processed(frame.shape, *given, or_nothing=self._privacy is not None)
            self._box = surroundings(inside) if self._privacy is None else (slice(None), slice(None))
            self._inside, self._shape, self._used = inside[self._box].copy(), frame.shape, given
        if frame.shape != self._shape:
            raise ParameterError(f"image must have shape {self._shape} like the first one, got {frame.shape}")
        return np.ascontiguousarray(frame[self._box])
