"""The live state of a run: the commands that reach it from a window, a browser or another thread, and its numbers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgsub.errors import ParameterError
from bgsub.jobs.statistics import LiveStatistics
from bgsub.numerics import compilation
from bgsub.parameters import SUBTRACTOR, check_live

if TYPE_CHECKING:
    from bgsub.video.sources.base import Frame

logger = logging.getLogger("bgsub")

LIVE_VIEWS = (
    "panel", "input", "mask", "overlay", "contours", "foreground", "background", "residual", "cutout", "probability",
    "boxes",
)  # fmt: skip
"""What a window or a browser can show; the first ten in the order of the keys 1 to 9 and 0."""

_NOTICE_SHOWN = 4.0  # seconds


@dataclass(frozen=True)
class Setting:
    """A parameter with a slider of its own: multiples of `step` from `low` to `high`."""

    name: str
    low: float  # ends of the slider; the parameter itself may lie beyond them
    high: float
    step: float
    keys: str  # for less and for more

    @property
    def positions(self) -> int:
        """Number of the last position; the first one is 0."""
        return round(self.high / self.step)

    def position(self, value: float) -> int:
        """Return the position that is nearest to a value."""
        return min(max(round(value / self.step), 0), self.positions)

    def value(self, position: int) -> float:
        """Return the value at a position."""
        return max(round(position * self.step, 6), self.low)


SETTINGS = (
    Setting("threshold", 0.01, 0.5, 0.01, "-+"),
    Setting("noise_factor", 0, 10, 0.25, "[]"),
    Setting("min_area", 0, 0.01, 0.0001, "<>"),
)
"""The parameters that have sliders: what counts as foreground, how noise is told from it, and its least size."""


class Controls:
    """Live state of one run, shared by its pipeline, windows and browsers; safe to use from any thread.

    Parameters
    ----------
    view : str
        View that is shown first, one of `bgsub.video.VIEWS`.
    parameters : mapping, optional
        Parameters of the subtractor, those of `BackgroundSubtractor.get_params`; by default the defaults.
    boxes : bool
        Whether every view shows what was found, at first.

    Examples
    --------
    >>> from bgsub.jobs import Controls, Job, run_job
    >>> controls = Controls()
    >>> controls.tune(threshold=0.1)  # from any thread, while the job runs
    >>> result = run_job(Job("video.mp4", "out", save="mask.npz"), controls=controls)
    >>> controls.parameters["threshold"]
    0.1
    """

    def __init__(self, view: str = "panel", parameters: Mapping[str, Any] | None = None, boxes: bool = False) -> None:
        self.frozen = False  # the model learns nothing
        self.paused = False  # the run stands still; frames of a camera are dropped meanwhile
        self.boxes = boxes  # what was found is drawn onto every view
        self.show_help, self.show_statistics = False, True  # over the picture in a window
        self.statistics = LiveStatistics()  # kept up to date by the pipeline
        self.view = view
        self._lock = threading.Lock()
        self._quit, self._quit_by = threading.Event(), ""
        self._reset = threading.Event()
        self._snapshot = threading.Event()
        defaults = {name: parameter.default for name, parameter in SUBTRACTOR.items()}
        self._parameters = {**defaults, **(parameters or {})}
        self._changes: dict[str, Any] = {}
        self._notice = ("", 0.0)
        self.on_snapshot: Callable[[Frame, Path], None] | None = None  # told of each one that was stored

    # -- commands ------------------------------------------------------------------------------------------------

    def quit(self, by: str = "user") -> None:
        """End the run after the frame at hand, on behalf of the "user" or a signal; its outputs are finished."""
        self._quit_by = self._quit_by or by
        self._quit.set()

    @property
    def quitting(self) -> bool:
        """Whether the end of the run has been asked for."""
        return self._quit.is_set()

    @property
    def quit_by(self) -> str:
        """Who has asked for the end of the run, see `quit`; empty while nobody has."""
        return self._quit_by

    def wait(self, seconds: float) -> bool:
        """Wait for some time, or until the end of the run is asked for; return whether it is."""
        return self._quit.wait(seconds)

    def reset(self) -> None:
        """Start the model anew with the next frame."""
        self._reset.set()

    def toggle(self, switch: str) -> bool:
        """Turn a switch and return how it stands now.

        Parameters
        ----------
        switch : {"frozen", "paused", "boxes", "show_help", "show_statistics"}
        """
        with self._lock:
            now = not getattr(self, switch)
            setattr(self, switch, now)
            return now

    def take_learning_rate(self) -> float:
        """Return the learning rate of the next frame and forget a reset: 1 reset, 0 frozen, -1 otherwise."""
        if self._reset.is_set():
            self._reset.clear()
            return 1.0
        return 0.0 if self.frozen else -1.0

    @property
    def view(self) -> str:
        """What is shown, one of `bgsub.video.VIEWS`."""
        return self._view

    @view.setter
    def view(self, name: str) -> None:
        if name not in LIVE_VIEWS:
            raise ParameterError(f"view must be one of {', '.join(LIVE_VIEWS)}, got {name!r}")
        self._view = name

    def request_snapshot(self) -> None:
        """Ask for the picture at hand to be stored."""
        self._snapshot.set()

    def take_snapshot_request(self) -> bool:
        """Return whether a snapshot was asked for, and forget it."""
        asked = self._snapshot.is_set()
        self._snapshot.clear()
        return asked

    # -- parameters ----------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the subtractor as they are, or will be with the next frame."""
        with self._lock:
            return dict(self._parameters)

    def tune(self, **parameters: Any) -> None:
        """Change parameters with the next frame; see `BackgroundSubtractor.tune`.

        Raises
        ------
        ParameterError
            For a parameter that is fixed while it runs, and for a value outside its range.
        """
        checked = check_live(parameters)
        with self._lock:
            self._parameters.update(checked)
            self._changes.update(checked)

    def follow(self, parameters: Mapping[str, Any]) -> None:
        """Take over the parameters that a subtractor begins with, those of `BackgroundSubtractor.get_params`."""
        with self._lock:
            self._parameters = {**parameters, **self._changes}

    def nudge(self, setting: Setting, steps: int) -> None:
        """Move a parameter that has a slider by some of its steps."""
        value = self.parameters[setting.name]
        self.tune(**{setting.name: setting.value(setting.position(value + steps * setting.step))})

    def tune_subtractor(self, subtractor: Any) -> None:
        """Hand the changes that have come in to the subtractor; for the thread that separates, between two frames."""
        with self._lock:
            changes, self._changes = self._changes, {}
        if not changes:
            return
        if hasattr(subtractor, "tune"):
            subtractor.tune(**changes)
        else:
            logger.warning("%s cannot change %s while it runs", type(subtractor).__name__, ", ".join(changes))

    # -- messages ------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> str:
        """What keeps the masks from being there, in words; empty if nothing does."""
        kernels = compilation.progress()
        if not kernels.is_complete:
            return str(kernels)
        return "the mask is late" if self.statistics.is_late else ""

    @property
    def notice(self) -> str:
        """What the person at the screen should know, such as where a snapshot is; empty after some seconds."""
        text, until = self._notice
        return text if time.monotonic() < until else ""

    @notice.setter
    def notice(self, text: str) -> None:
        self._notice = text, time.monotonic() + _NOTICE_SHOWN
