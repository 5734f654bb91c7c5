"""One job: a source, what to make of it and where to; run by the command line, by a batch, and from Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgsub.errors import OutputError, ParameterError, SinkError, StoppedError
from bgsub.resumption import note_interruption, prepare, targets_of

if TYPE_CHECKING:
    from bgsub.regions import Regions
    from bgsub.separation import Separation
    from bgsub.subtractor import BackgroundSubtractor
    from bgsub.video import Controls, Frame, FrameSource, Sink, Summary
    from bgsub.video.checkpoints import Checkpoints

Watch = Callable[["FrameSource"], AbstractContextManager[Callable[["Frame", "Separation"], None]]]


@dataclass(frozen=True)
class Job:
    """What is to be done with one source; all fields can be stored as JSON once paths are texts.

    Attributes
    ----------
    source : str
        What `open_source` takes.
    output : Path
        Folder of the results.
    save : tuple of str
        Outputs by name and, if wanted, ending; see `create_sinks`. May be empty.
    format : {"auto", "video", "images"}
        Kind of the outputs without ending.
    name : str
        Template of the names of all outputs, see `bgsub.outputs.expand_name`.
    start, end, duration, every
        The part of the source, see `open_source`.
    backend, hardware
        What decodes video files, see `open_source`.
    roi : tuple of str
        Regions of interest, see `bgsub.regions.parse_region`; none for the whole frame.
    event_files : tuple of {"csv", "jsonl", "coco"}
        Files of events, see `bgsub.events.EventSink`.
    plot : bool
        Whether to draw the timeline.
    record : Path, optional
        Folder of clips of the moments with motion, see `bgsub.video.sinks.recorder.RecorderSink`; not with `resume`.
    recording : dict
        Parameters of the recorder that are not at their defaults: ``pre_roll``, ``post_roll``, ``min_share``.
    reconnect : float, optional
        Seconds for which a camera that was lost is tried again, see `CameraSource`.
    on_error : {"stop", "skip"}
        What a frame that cannot be read does.
    rate : float, optional
        Frames per second, where the source does not know or is wrong.
    model, save_model : Path, optional
        Model file to start from; file to write the model to at the end.
    parameters : dict
        Parameters of `BackgroundSubtractor`; none beside `model`.
    resume : bool
        Keep checkpoints in ``OUTPUT/.resume`` while it runs, and go on from there after an interruption; where all
        outputs are there already, do nothing.
    overwrite : bool
        Replace outputs that exist; with `resume`, begin anew.
    checkpoint_seconds : float
        Least time between two checkpoints.
    """

    source: str
    output: Path
    save: tuple[str, ...] = ("mask",)
    format: str = "auto"
    name: str = "{view}"
    start: str | None = None
    end: str | None = None
    duration: str | None = None
    every: int = 1
    backend: str = "auto"
    hardware: bool = False
    roi: tuple[str, ...] = ()
    event_files: tuple[str, ...] = ()
    plot: bool = False
    record: Path | None = None
    recording: dict[str, Any] = field(default_factory=dict)
    reconnect: float | None = None
    on_error: str = "stop"
    rate: float | None = None
    model: Path | None = None
    save_model: Path | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    resume: bool = False
    overwrite: bool = False
    checkpoint_seconds: float = 15.0


class Statistics:
    """Adds up what the frames of a run were separated into; a callback of the pipeline.

    Attributes
    ----------
    frames : int
        Frames seen.
    size : tuple of int
        Width and height of the frames, (0, 0) before the first.
    events : Counter of str
        Events of the whole frame by name.
    tracked : bool
        Whether the start phase came to its end.
    """

    def __init__(self) -> None:
        self.frames = 0
        self.size = (0, 0)
        self.events: Counter[str] = Counter()
        self.tracked = False
        self._share = 0.0

    def __call__(self, frame: Frame, separation: Separation) -> None:
        """Take one frame into account."""
        self.frames += 1
        self.size = (separation.mask.shape[1], separation.mask.shape[0])
        self._share += separation.share
        self.tracked |= separation.phase == "tracking"
        if separation.event is not None:
            self.events[separation.event] += 1

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, in types that JSON knows."""
        return {**vars(self), "size": list(self.size), "events": dict(self.events)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        vars(self).update(state, size=tuple(state["size"]), events=Counter(state["events"]))

    @property
    def share(self) -> float:
        """Mean share of the foreground, in [0, 1]."""
        return self._share / max(self.frames, 1)


@dataclass(frozen=True)
class JobResult:
    """What a job did.

    Attributes
    ----------
    name : str
        What messages call the source.
    live : bool
        Whether the source was live.
    summary : Summary
        Of the pipeline.
    statistics : Statistics
        Of the frames.
    outputs : list of Path
        Files and folders that were made.
    already_done : bool
        Whether they were there before, so that nothing was left to do.
    """

    name: str
    live: bool
    summary: Summary
    statistics: Statistics
    outputs: list[Path]
    already_done: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the result in types that JSON knows."""
        summary, statistics = self.summary, self.statistics
        return {
            "source": self.name,
            "frames": summary.frames,
            "width": statistics.size[0],
            "height": statistics.size[1],
            "dropped": summary.dropped,
            "skipped": summary.skipped,
            "seconds": round(summary.seconds, 3),
            "frames_per_second": round(summary.frames_per_second, 2),
            "foreground": round(statistics.share, 6),
            "tracked": statistics.tracked,
            "events": dict(statistics.events),
            "stopped": summary.stopped,
            "outputs": [str(path) for path in self.outputs],
            "resumed": summary.resumed,
            "already_done": self.already_done,
        }


def _unwatched(_source: FrameSource) -> AbstractContextManager[Callable[[Frame, Separation], None]]:
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
    StoppedError
        When the user has stopped a job with `resume`: the same job goes on.
    """
    from bgsub import job_sinks  # noqa: PLC0415

    make_subtractor(job.parameters, job.model)  # what is wrong shows before the source is opened
    if job.resume and job.record is not None:
        raise ParameterError("clips of motion cannot be resumed: record and resume exclude each other")
    regions = _regions(job)
    with _open(job) as source:
        subtractor = make_subtractor(job.parameters, job.model, source.rate)

        def make_sinks(overwrite: bool, started: datetime) -> list[Sink]:
            return job_sinks.make_sinks(job, source, overwrite, started, regions)

        if not job.resume:
            sinks, checkpoints = make_sinks(job.overwrite, datetime.now()), None
        else:
            subtractor, sinks, checkpoints = prepare(job, source, subtractor, make_sinks)
            if checkpoints is None:
                return _already_done(job, source, sinks)
        result = execute(
            source,
            _within(regions, subtractor),
            sinks,
            save_model=job.save_model,
            watch=watch,
            controls=controls,
            checkpoints=checkpoints,
        )
        if result.summary.stopped == "user" and not source.live:
            note_interruption(job, source, subtractor)
        return result


def _regions(job: Job) -> Regions | None:
    from bgsub.regions import Regions  # noqa: PLC0415

    return Regions(job.roi) if job.roi else None


def _within(regions: Regions | None, subtractor: BackgroundSubtractor) -> Any:
    """Return the subtractor, or one that looks at the regions only."""
    if regions is None:
        return subtractor
    from bgsub.region_subtractor import RegionSubtractor  # noqa: PLC0415

    return RegionSubtractor(subtractor, regions)


def _open(job: Job) -> FrameSource:
    from bgsub.video import open_source  # noqa: PLC0415 - it brings OpenCV along

    return open_source(
        job.source,
        on_error=job.on_error,
        rate=job.rate,
        backend=job.backend,
        hardware=job.hardware,
        start=job.start,
        end=job.end,
        duration=job.duration,
        every=job.every,
        reconnect=job.reconnect,
    )


def execute(
    source: FrameSource,
    subtractor: BackgroundSubtractor,
    sinks: Sequence[Sink],
    *,
    save_model: Path | None = None,
    watch: Watch = _unwatched,
    controls: Controls | None = None,
    checkpoints: Checkpoints | None = None,
) -> JobResult:
    """Run the pipeline over an opened source, save the model, and return what happened.

    Raises
    ------
    OutputError
        When an output that was open cannot be written any more.
    SourceError, ParameterError
        As the source and the subtractor raise them.
    StoppedError
        When the user has stopped a run with `checkpoints`.
    """
    from bgsub.video import Pipeline  # noqa: PLC0415

    statistics = Statistics()
    if checkpoints is not None:
        checkpoints.follow(statistics)
    with watch(source) as watcher:

        def after(frame: Frame, separation: Separation) -> None:
            statistics(frame, separation)
            watcher(frame, separation)

        try:
            pipeline = Pipeline(source, subtractor, sinks, progress=after, controls=controls, checkpoints=checkpoints)
            summary = pipeline.run()
            if checkpoints is not None and summary.stopped == "user":
                raise StoppedError(_stopped(source, summary, checkpoints))
            if save_model is not None:
                subtractor.save(save_model)
        except SinkError as error:
            raise OutputError(str(error)) from error
    if checkpoints is not None:
        checkpoints.remove()
    return JobResult(source.name, source.live, summary, statistics, _outputs(sinks, save_model))


def _already_done(job: Job, source: FrameSource, sinks: Sequence[Sink]) -> JobResult:
    from bgsub.video import Summary  # noqa: PLC0415

    outputs = _outputs(sinks, job.save_model)
    return JobResult(source.name, source.live, Summary(0, 0, 0, 0.0, "end"), Statistics(), outputs, already_done=True)


def _outputs(sinks: Sequence[Sink], save_model: Path | None) -> list[Path]:
    """Return what there is of the outputs of the sinks, and the model."""
    paths: list[Path | None] = []
    for sink in sinks:
        paths += targets_of(sink)
    return [path for path in (*paths, save_model) if path is not None and path.exists()]


def _stopped(source: FrameSource, summary: Summary, checkpoints: Checkpoints) -> str:
    safe = checkpoints.safe_frames()
    where = f"goes on after frame {safe}" if safe else "begins anew"
    return f"{source.name}: stopped after frame {summary.frames}; the same command {where}"


def make_subtractor(parameters: dict[str, Any], model: Path | None = None, rate: Any = None) -> BackgroundSubtractor:
    """Return a new subtractor, told the frame rate of its source unless ``fps`` was given, or the saved `model`.

    Raises
    ------
    ParameterError
        For a bad combination of parameters, and for parameters beside a saved model.
    """
    if model is not None and parameters:
        raise ParameterError(f"a saved model brings its own parameters, so {next(iter(parameters))} cannot be given")
    from bgsub.subtractor import BackgroundSubtractor  # noqa: PLC0415 - it brings Numba along

    if model is not None:
        return BackgroundSubtractor.load(model)
    paced = {"fps": float(rate), **parameters} if rate else parameters
    return BackgroundSubtractor(**paced)
