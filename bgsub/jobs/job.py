"""A job and its result: plain data."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgsub.events.notifications.notification import DeliveryCounts

if TYPE_CHECKING:
    from bgsub.separation import Separation
    from bgsub.video.sources.base import Frame


@dataclass(frozen=True)
class Job:
    """What to do with one source; JSON can store all fields once paths are strings.

    A string is accepted as a path, and as a tuple of one string.

    Attributes
    ----------
    source : str or tuple of str
        A source for `open_source`; several are the files of one camera in a row.
    output : Path
        Folder of the results; ``"-"`` for the frames of one view on standard output.
    save : tuple of str
        Views to write, with an optional ending; see `create_sinks`. May be empty.
    name : str
        Template of the names of all outputs, without ending and below `output`; its fields are ``{view}``,
        ``{source}``, ``{date}`` (2026-01-31) and ``{time}`` (235959).
    start, end, duration, every
        The part of the source, see `open_source`.
    roi : tuple of str
        Regions of interest, strings as `bgsub.video.Regions` takes them; none for the whole frame.
    ignore : tuple of str
        Regions in which foreground is not reported; they are not blacked out. Written as those of `roi`.
    privacy : tuple of str
        Regions that are blacked out before processing, written as those of `roi`.
    boxes : bool
        Whether overlay, contours and panel show the objects, see `bgsub.events.AnnotatingSink`.
    event_formats : tuple of {"csv", "jsonl", "html", "pictures"}
        Files of events, see `bgsub.events.EventSink`, their summary, see `bgsub.events.SummarySink`, and pictures of
        the objects.
    motion : dict
        Fields of `bgsub.events.MotionRules` that are not at their defaults.
    objects : dict
        Limits of objects that are not at their defaults, see `bgsub.events.ObjectLinker`: ``min_duration``, and
        ``max_area``, ``max_width`` and ``max_height`` as shares of the frame.
    list_motion : bool
        Whether the result lists the motion events.
    max_events : int, optional
        End the run after so many motion events.
    record : Path, optional
        Folder of clips of motion, see `bgsub.events.RecorderSink`; not with `resume`.
    recording : dict
        Fields of `bgsub.events.ClipRules` that are not at their defaults.
    on_event : tuple of str
        Commands to run when an event begins and ends, see `bgsub.events.CommandNotifier`.
    webhook : tuple of str
        Web addresses to notify of events, see `bgsub.events.WebhookNotifier`.
    snapshots : Path, optional
        Folder of a picture of each event, see `bgsub.events.NotificationSink`.
    reconnect : float, optional
        Seconds for which to try to reopen a lost camera, see `CameraSource`.
    insecure : bool
        Whether to skip the verification of certificates of cameras, see `CameraSource`.
    on_error : {"stop", "skip"}, optional
        How to treat a frame that cannot be read, see `open_source`.
    fps : float, optional
        Frames per second, where the source has no frame rate or a wrong one.
    model, save_model : Path, optional
        Model file to start from; file to write the model to at the end.
    online : bool
        Whether each mask depends only on the frames so far, see `bgsub.process_video`.
    parameters : dict
        Parameters of `BackgroundSubtractor`; not with `model`.
    resume : bool
        Keep checkpoints in ``OUTPUT/.resume`` while the job runs, and continue there after an interruption. Do
        nothing if a run with the same options has finished all outputs.
    overwrite : bool
        Replace outputs that exist; with `resume`, start over.
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
    roi: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    privacy: tuple[str, ...] = ()
    boxes: bool = False
    event_formats: tuple[str, ...] = ()
    motion: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)
    list_motion: bool = False
    max_events: int | None = None
    record: Path | None = None
    recording: dict[str, Any] = field(default_factory=dict)
    on_event: tuple[str, ...] = ()
    webhook: tuple[str, ...] = ()
    snapshots: Path | None = None
    reconnect: float | None = None
    insecure: bool = False
    on_error: str | None = None
    fps: float | None = None
    model: Path | None = None
    save_model: Path | None = None
    online: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    resume: bool = False
    overwrite: bool = False
    checkpoint_seconds: float = 15.0

    def __post_init__(self) -> None:
        for name in ("output", "record", "snapshots", "model", "save_model"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, Path(value))
        for name in ("save", "roi", "ignore", "privacy", "event_formats", "on_event", "webhook"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        if isinstance(self.source, list):  # of JSON
            object.__setattr__(self, "source", tuple(self.source))


class Statistics:
    """Counts over the separations of a run; a callback of the pipeline."""

    def __init__(self) -> None:
        self.frames = 0
        self.size = (0, 0)  # width and height of the frames
        self.events: Counter[str] = Counter()  # of the whole frame, by name
        self.tracked = False  # whether the start phase has ended
        self._share = 0.0
        self._event: str | None = None  # of the newest frame

    def __call__(self, frame: "Frame", separation: "Separation") -> None:
        self.frames += 1
        self.size = (separation.mask.shape[1], separation.mask.shape[0])
        self._share += separation.share
        self.tracked |= separation.phase == "tracking"
        # An event that lasts counts once, but each covered frame counts.
        event = separation.event
        if event is not None and (event == "covered" or event != self._event):
            self.events[event] += 1
        self._event = event

    def state(self) -> dict[str, Any]:
        """Return the state in JSON types."""
        return {**vars(self), "size": list(self.size), "events": dict(self.events)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        vars(self).update(state, size=tuple(state["size"]), events=Counter(state["events"]))

    @property
    def share(self) -> float:
        """Mean share of the foreground, in [0, 1]."""
        return self._share / max(self.frames, 1)


@dataclass(frozen=True)
class Summary:
    """Frames and times of a run.

    Attributes
    ----------
    frames : int
        Frames separated and written.
    dropped : int
        Frames that a live source delivered too fast.
    skipped : int
        Frames that could not be read.
    seconds : float
        Duration of the run, without the time of looking ahead.
    stopped : {"end", "user", "limit", "SIGINT", "SIGTERM", "SIGHUP", "broken"}
        The source ended; the user ended the run (a key, the window's close button, a number of frames);
        `Job.max_events` was reached; Ctrl-C or another signal ended it; or the source failed.
    resumed : int
        Frames written by an earlier run that this one continued.
    waited : float
        Seconds of the duration spent waiting for kernels, which are compiled once per installation.
    """

    frames: int
    dropped: int
    skipped: int
    seconds: float
    stopped: str
    resumed: int = 0
    waited: float = 0.0

    @property
    def frames_per_second(self) -> float:
        """Frames separated per second of the run, without the wait for kernels."""
        worked = self.seconds - self.waited
        return (self.frames - self.resumed) / worked if worked > 0 else 0.0


@dataclass(frozen=True)
class JobResult:
    """What a job did.

    Attributes
    ----------
    name : str
        Name of the source in messages.
    live : bool
        Whether the source was live.
    summary : Summary
        Of the pipeline.
    statistics : Statistics
        Of the frames.
    outputs : list of Path
        Files and folders of the results.
    notifications : DeliveryCounts
        Counts of the notifications to other programs.
    already_done : bool
        Whether the outputs were finished before, so that nothing was left to do.
    clips : int or None
        Number of recorded clips; None if the job records none.
    motion : list of dict, optional
        The motion events, see `bgsub.events.tables.MotionListSink.rows`; None without `Job.list_motion`.
    """

    name: str
    live: bool
    summary: Summary
    statistics: Statistics
    outputs: list[Path]
    notifications: DeliveryCounts = field(default_factory=DeliveryCounts)
    already_done: bool = False
    clips: int | None = None
    motion: list[dict[str, Any]] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the result in JSON types."""
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
            **({} if self.motion is None else {"motion": self.motion}),
        }
