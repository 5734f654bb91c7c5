"""The live state of a run: commands from a window, a browser or another thread, and live statistics."""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgsub.errors import check_choice, logger
from bgsub.numerics import compilation
from bgsub.parameters import SUBTRACTOR, check_live

if TYPE_CHECKING:
    from bgsub.separation import Separation
    from bgsub.video.sources.base import Frame

#: Views of a window or a browser; in the order of the keys 1 to 9 and 0.
LIVE_VIEWS = (
    "panel", "input", "mask", "overlay", "contours", "foreground", "background", "residual", "probability", "boxes",
)  # fmt: skip

_NOTICE_SECONDS = 4.0
_EVENT_SECONDS = 3.0  # an event lasts one frame, too short to be read
_WINDOW = 2.0  # seconds over which rate and delay are averaged
_SILENT = 1.5  # seconds without a frame after which one is late, and twice the usual interval


@dataclass(frozen=True)
class Setting:
    """A parameter that keys and sliders change by `step`."""

    name: str
    low: float  # ends of the slider; the range of the parameter may be wider
    high: float
    step: float
    keys: str  # to decrease and to increase it


#: The parameters of the keys, and of the sliders on the page.
SETTINGS = (
    Setting("threshold", 0.01, 0.5, 0.01, "-+"),
    Setting("noise_factor", 0, 10, 0.25, "[]"),
    Setting("min_area", 0, 0.01, 0.0001, "<>"),
)


class LiveStatistics:
    """Rate, delay, drops and foreground of a run, for any thread; `clock` is that of `Frame.received`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: float | None = None  # when a frame came last, separated or not
        self.is_late = False  # the newest frame is shown without its separation
        self._times: deque[tuple[float, float | None]] = deque()  # of the latest frames, with their delay
        self._frames = self._dropped = 0
        self._newest: tuple[Frame, Separation] | None = None
        self._event: tuple[str, float] | None = None

    def update(self, frame: "Frame", separation: "Separation", dropped: int = 0) -> None:
        """Add a frame at the moment when it goes to the outputs; `dropped` is the number of frames dropped so far."""
        now = self._clock()
        received = getattr(frame, "received", None)
        with self._lock:
            self._frames += 1
            self._seen, self.is_late = now, False
            self._dropped = dropped
            self._newest = frame, separation
            if separation.event is not None:
                self._event = separation.event, now
            self._times.append((now, None if received is None else now - received))
            while now - self._times[0][0] > _WINDOW and len(self._times) > 2:
                self._times.popleft()

    def note_preview(self) -> None:
        """Add a frame that is shown before its separation, because that takes long."""
        with self._lock:
            self._seen, self.is_late = self._clock(), True

    @property
    def is_silent(self) -> bool:
        """Whether the first frame, or the next one, is late."""
        with self._lock:
            return self._seen is None or self._clock() - self._seen > max(_SILENT, 2 * self._interval())

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers in JSON types; ``latency_ms`` is from the arrival of a frame to its output."""
        with self._lock:
            now = self._clock()
            frame, separation = self._newest or (None, None)
            recent = self._event is not None and now - self._event[1] < _EVENT_SECONDS
            delays = [delay for _, delay in self._times if delay is not None]
            return {
                "frames": self._frames,
                "dropped": self._dropped,
                "frames_per_second": round(self._fps(now), 2),
                "latency_ms": round(1000 * sum(delays) / len(delays), 1) if delays else None,
                "foreground": 0.0 if separation is None else round(separation.share, 6),
                "width": 0 if separation is None else separation.mask.shape[1],
                "height": 0 if separation is None else separation.mask.shape[0],
                "phase": "start" if separation is None else separation.phase,
                "event": self._event[0] if recent and self._event else None,
                "frame": "" if frame is None else frame.name,
                "date": None if frame is None or frame.arrived is None else frame.arrived.isoformat(timespec="seconds"),
            }

    def _interval(self) -> float:
        """Return the mean seconds between two of the last frames; 0 without any."""
        return (self._times[-1][0] - self._times[0][0]) / (len(self._times) - 1) if len(self._times) > 1 else 0.0

    def _fps(self, now: float) -> float:
        if len(self._times) < 2:
            return 0.0
        # The rate of a silent camera decreases to 0.
        span = max(self._times[-1][0], now - max(1.0, self._interval())) - self._times[0][0]
        return (len(self._times) - 1) / span if span > 0 else 0.0


class Controls:
    """Live state of one run, shared by its pipeline, windows and browsers; safe to use from any thread.

    Parameters
    ----------
    view : str
        First view to show, one of `bgsub.video.VIEWS`.
    boxes : bool
        Whether every view shows the objects at first.

    Examples
    --------
    >>> from bgsub.jobs import Controls, Job, run_job
    >>> controls = Controls()
    >>> controls.tune(threshold=0.1)  # from any thread, while the job runs
    >>> result = run_job(Job("video.mp4", "out", save="mask.npz"), controls=controls)
    >>> controls.parameters["threshold"]
    0.1
    """

    def __init__(self, view: str = "panel", boxes: bool = False) -> None:
        self.frozen = False  # the model does not learn
        self.paused = False  # the run waits; frames of a camera are dropped meanwhile
        self.boxes = boxes  # objects are drawn onto every view
        self.show_help, self.show_statistics = False, True  # over the picture in a window
        self.statistics = LiveStatistics()  # updated by the pipeline
        self.view = view
        self._lock = threading.Lock()
        self._quit, self.quit_by = threading.Event(), ""  # the `by` of the first `quit`
        self._reset = self._snapshot = False  # requests
        self._parameters: dict[str, Any] = {name: parameter.default for name, parameter in SUBTRACTOR.items()}
        self._changes: dict[str, Any] = {}
        self._notice = ("", 0.0)
        self.watch_ahead: Callable[[Iterator[Frame]], Generator[Frame, None, None]]  # of a rehearsal
        self.watch_ahead = lambda frames: (frame for frame in frames)
        self.on_snapshot: Callable[[Frame, Path], None] | None = None  # called with each stored snapshot

    def quit(self, by: str = "user") -> None:
        """End the run after the current frame and finish its outputs; `by` is "user" or the name of a signal."""
        self.quit_by = self.quit_by or by
        self._quit.set()

    @property
    def quitting(self) -> bool:
        """Whether `quit` was called."""
        return self._quit.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for some time, or until `quit` is called; return whether it was."""
        return self._quit.wait(seconds)

    def reset(self) -> None:
        """Restart the model with the next frame."""
        self._reset = True

    def toggle(self, switch: str) -> bool:
        """Turn a switch ("frozen", "paused", "boxes", "show_help" or "show_statistics"); return its new state."""
        with self._lock:
            now = not getattr(self, switch)
            setattr(self, switch, now)
            return now

    def take_learning_rate(self) -> float:
        """Return the learning rate of the next frame and clear a reset: 1 reset, 0 frozen, -1 otherwise."""
        if self._reset:
            self._reset = False
            return 1.0
        return 0.0 if self.frozen else -1.0

    @property
    def view(self) -> str:
        """The view to show, one of `bgsub.video.VIEWS`."""
        return self._view

    @view.setter
    def view(self, name: str) -> None:
        check_choice("view", name, LIVE_VIEWS)
        self._view = name

    def request_snapshot(self) -> None:
        """Request to store the current picture."""
        self._snapshot = True

    def take_snapshot_request(self) -> bool:
        """Return whether a snapshot was requested, and clear the request."""
        requested, self._snapshot = self._snapshot, False
        return requested

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the subtractor from the next frame on."""
        with self._lock:
            return dict(self._parameters)

    def tune(self, **parameters: Any) -> None:
        """Change parameters with the next frame; see `BackgroundSubtractor.tune`.

        ParameterError for a parameter that is fixed during the run, and for a value outside its range.
        """
        checked = check_live(parameters)
        with self._lock:
            self._parameters.update(checked)
            self._changes.update(checked)

    def follow(self, parameters: Mapping[str, Any]) -> None:
        """Set the parameters with which a subtractor begins, see `BackgroundSubtractor.get_params`."""
        with self._lock:
            self._parameters = {**parameters, **self._changes}

    def nudge(self, setting: Setting, steps: int) -> None:
        """Move a slider by some of its steps."""
        value = self.parameters[setting.name]  # may be beyond the slider, and does not move against the key then
        moved = round((round(value / setting.step) + steps) * setting.step, 6)
        moved = max(min(moved, setting.high), value) if steps > 0 else min(max(moved, setting.low), value)
        self.tune(**{setting.name: moved})

    def tune_subtractor(self, subtractor: Any) -> None:
        """Apply the new changes to the subtractor, in the tracking thread between two frames."""
        with self._lock:
            changes, self._changes = self._changes, {}
        if not changes:
            return
        if hasattr(subtractor, "tune"):
            subtractor.tune(**changes)
        else:
            logger.warning("%s cannot change %s while it runs", type(subtractor).__name__, ", ".join(changes))

    @property
    def busy(self) -> str:
        """Why masks are missing at the moment, as a message; empty if they are not."""
        kernels = compilation.progress()
        if not kernels.is_complete:
            return str(kernels)
        return "the mask is late" if self.statistics.is_late else ""

    @property
    def notice(self) -> str:
        """A message for the user, such as the path of a snapshot; empty after some seconds."""
        text, until = self._notice
        return text if time.monotonic() < until else ""

    @notice.setter
    def notice(self, text: str) -> None:
        self._notice = text, time.monotonic() + _NOTICE_SECONDS
