"""One job: a source, what to make of it and where to; run by the command line, by a batch, and from Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgsub.errors import OutputError, ParameterError, SinkError

if TYPE_CHECKING:
    from bgsub.separation import Separation
    from bgsub.subtractor import BackgroundSubtractor
    from bgsub.video import Controls, Frame, FrameSource, Sink, Summary

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
        Outputs by name and, if wanted, ending; see `create_sinks`.
    format : {"auto", "video", "images"}
        Kind of the outputs without ending.
    on_error : {"stop", "skip"}
        What a frame that cannot be read does.
    rate : float, optional
        Frames per second, where the source does not know or is wrong.
    model, save_model : Path, optional
        Model file to start from; file to write the model to at the end.
    parameters : dict
        Parameters of `BackgroundSubtractor`; none beside `model`.
    """

    source: str
    output: Path
    save: tuple[str, ...] = ("mask",)
    format: str = "auto"
    on_error: str = "stop"
    rate: float | None = None
    model: Path | None = None
    save_model: Path | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


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
    """

    name: str
    live: bool
    summary: Summary
    statistics: Statistics
    outputs: list[Path]

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
    """
    from bgsub.video import create_sinks, open_source  # noqa: PLC0415 - they bring OpenCV along

    make_subtractor(job.parameters, job.model)  # what is wrong shows before the source is opened
    with open_source(job.source, on_error=job.on_error, rate=job.rate) as source:
        subtractor = make_subtractor(job.parameters, job.model, source.rate)
        sinks = create_sinks(job.output, job.save, source, job.format)
        return execute(source, subtractor, sinks, save_model=job.save_model, watch=watch, controls=controls)


def execute(
    source: FrameSource,
    subtractor: BackgroundSubtractor,
    sinks: Sequence[Sink],
    *,
    save_model: Path | None = None,
    watch: Watch = _unwatched,
    controls: Controls | None = None,
) -> JobResult:
    """Run the pipeline over an opened source, save the model, and return what happened.

    Raises
    ------
    OutputError
        When an output that was open cannot be written any more.
    SourceError, ParameterError
        As the source and the subtractor raise them.
    """
    from bgsub.video import Pipeline  # noqa: PLC0415

    statistics = Statistics()
    with watch(source) as watcher:

        def after(frame: Frame, separation: Separation) -> None:
            statistics(frame, separation)
            watcher(frame, separation)

        try:
            summary = Pipeline(source, subtractor, sinks, progress=after, controls=controls).run()
            if save_model is not None:
                subtractor.save(save_model)
        except SinkError as error:
            raise OutputError(str(error)) from error
    targets = [getattr(sink, "path", None) or getattr(sink, "folder", None) for sink in sinks]
    outputs = [path for path in (*targets, save_model) if path is not None and path.exists()]
    return JobResult(source.name, source.live, summary, statistics, outputs)


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
