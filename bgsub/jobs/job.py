"""What a job is, and what came of it: plain data."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgsub.events.notifications.notification import DeliveryCounts

if TYPE_CHECKING:
    from bgsub.jobs.summary import Summary
    from bgsub.separation import Separation
    from bgsub.video.sources.base import Frame


@dataclass(frozen=True)
class Job:
    """What is to be done with one source; all fields can be stored as JSON once paths are texts.

    A text does for a path, and for a tuple with one text.

    Attributes
    ----------
    source : str or tuple of str
        What `open_source` takes: several are the files of one camera in a row.
    output : Path
        Folder of the results; ``"-"`` for the frames of one view on standard output.
    save : tuple of str
        Outputs by name and, if wanted, ending; see `create_sinks`. May be empty.
    name : str
        Template of the names of all outputs, without ending and below `output`; its fields are ``{view}``,
        ``{source}``, ``{date}`` (2026-01-31) and ``{time}`` (235959).
    start, end, duration, every
        The part of the source, see `open_source`.
    backend : {"auto", "opencv", "pyav", "hardware"}
        What decodes video files, see `open_source`.
    raw : str, optional
        What raw frames from a pipe are, see `open_source`.
    roi : tuple of str
        Regions of interest, texts as `bgsub.video.Regions` takes them; none for the whole frame.
    privacy : tuple of str
        Regions that are black in all that is made, written as those of `roi`.
    boxes : bool
        Whether overlay, contours and panel show the objects, as boxes does, see `bgsub.events.AnnotatingSink`.
    event_formats : tuple of {"csv", "jsonl", "coco", "html"}
        Files of events, see `bgsub.events.EventSink`, and their summary, see `bgsub.events.SummarySink`.
    motion : dict
        Fields of `bgsub.events.MotionRules` that are not at their defaults.
    record : Path, optional
        Folder of clips of the moments with motion, see `bgsub.events.RecorderSink`; not with `resume`.
    recording : dict
        Fields of `bgsub.events.ClipRules` that are not at their defaults.
    on_event : tuple of str
        Commands that are run when motion, or what befalls the whole frame, begins and ends; see
        `bgsub.events.CommandNotifier`.
    webhook : tuple of str
        Web addresses that are told the same, see `bgsub.events.WebhookNotifier`.
    snapshots : Path, optional
        Folder of a picture of each moment with motion, see `bgsub.events.NotificationSink`.
    reconnect : float, optional
        Seconds for which a camera that was lost is tried again, see `CameraSource`.
    on_error : {"stop", "skip"}, optional
        What a frame that cannot be read does, see `open_source`.
    fps : float, optional
        Frames per second, where the source does not know or is wrong.
    model, save_model : Path, optional
        Model file to start from; file to write the model to at the end.
    parameters : dict
        Parameters of `BackgroundSubtractor`; none beside `model`.
    resume : bool
        Keep checkpoints in ``OUTPUT/.resume`` while it runs, and go on from there after an interruption; where all
        outputs are there as a run with the same options has finished them, do nothing.
    overwrite : bool
        Replace outputs that exist; with `resume`, begin anew.
    checkpoint_seconds : float
        Least time between two checkpoints.

    Examples
    --------
    >>> from bgsub.jobs import Job
    >>> job = Job("video.mp4", "out", save=("mask.npz", "panel"), start="1s", parameters={"rank": 2})
    >>> job.output.name, job.every
    ('out', 1)
    """

    source: str | tuple[str, ...]
    output: Path
    save: tuple[str, ...] = ("mask",)
    name: str = "{view}"
    start: str | None = None
    end: str | None = None
    duration: str | None = None
    every: int = 1
    backend: str = "auto"
    raw: str | None = None
    roi: tuple[str, ...] = ()
    privacy: tuple[str, ...] = ()
    boxes: bool = False
    event_formats: tuple[str, ...] = ()
    motion: dict[str, Any] = field(default_factory=dict)
    record: Path | None = None
    recording: dict[str, Any] = field(default_factory=dict)
    on_event: tuple[str, ...] = ()
    webhook: tuple[str, ...] = ()
    snapshots: Path | None = None
    reconnect: float | None = None
    on_error: str | None = None
    fps: float | None = None
    model: Path | None = None
    save_model: Path | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    resume: bool = False
    overwrite: bool = False
    checkpoint_seconds: float = 15.0

    def __post_init__(self) -> None:
        for name in ("output", "record", "snapshots", "model", "save_model"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, Path(value))
        for name in ("save", "roi", "privacy", "event_formats", "on_event", "webhook"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, (value,))
        if isinstance(self.source, list):  # of JSON
            object.__setattr__(self, "source", tuple(self.source))


class Statistics:
    """Adds up what the frames of a run were separated into; a callback of the pipeline."""

    def __init__(self) -> None:
        self.frames = 0
        self.size = (0, 0)  # width and height of the frames
        self.events: Counter[str] = Counter()  # of the whole frame, by name
        self.tracked = False  # whether the start phase came to its end
        self._share = 0.0

    def __call__(self, frame: Frame, separation: Separation) -> None:
        self.frames += 1
        self.size = (separation.mask.shape[1], separation.mask.shape[0])
        self._share += separation.share
        self.tracked |= separation.phase == "tracking"
        if separation.event is not None:
            self.events[separation.event] += 1

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, as types that JSON knows."""
        return {**vars(self), "size": list(self.size), "events": dict(self.events)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
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
    notifications : DeliveryCounts
        What became of the notifications to other programs.
    already_done : bool
        Whether they were there before, so that nothing was left to do.
    clips : int or None
        How many clips were recorded; None where none were asked for.
    """

    name: str
    live: bool
    summary: Summary
    statistics: Statistics
    outputs: list[Path]
    notifications: DeliveryCounts = field(default_factory=DeliveryCounts)
    already_done: bool = False
    clips: int | None = None

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
            "seconds_for_kernels": round(summary.waited, 3),
            "frames_per_second": round(summary.frames_per_second, 2),
            "foreground": round(statistics.share, 6),
            "tracked": statistics.tracked,
            "events": dict(statistics.events),
            "stopped": summary.stopped,
            "outputs": [str(path) for path in self.outputs],
            "notifications": asdict(self.notifications),
            "resumed": summary.resumed,
            "already_done": self.already_done,
            **({} if self.clips is None else {"clips": self.clips}),
        }
