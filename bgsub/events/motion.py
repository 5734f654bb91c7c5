"""What is motion, and when a recording of it begins and ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from bgsub.errors import ParameterError
from bgsub.separation import Separation

# Times this close, in seconds, are the same: most are rounded multiples of the time between two frames.
CLOSE = 1e-6


@dataclass(frozen=True)
class MotionRules:
    """What is motion, and how much around it is recorded.

    Attributes
    ----------
    min_share : float
        Share of the frame, in [0, 1], that must be foreground.
    min_area : int, optional
        The same in pixels, instead of `min_share`.
    pre_roll, post_roll : float
        Seconds recorded before and after the motion.
    min_duration : float
        Seconds that motion must last to be recorded.
    max_duration : float, optional
        Seconds after which a clip ends and the next one begins; by default never.

    Raises
    ------
    ParameterError
        If one of them is out of range.
    """

    min_share: float = 0.002
    min_area: int | None = None
    pre_roll: float = 2.0
    post_roll: float = 3.0
    min_duration: float = 0.3
    max_duration: float | None = None

    def __post_init__(self) -> None:
        for name in ("pre_roll", "post_roll", "min_duration"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ParameterError(f"{name} must be a number of seconds, 0 or more, got {getattr(self, name)!r}")
        if self.max_duration is not None and not self.max_duration > 0:
            raise ParameterError(
                f"max_duration must be a positive number of seconds or None, got {self.max_duration!r}"
            )
        if not 0 <= self.min_share <= 1:
            raise ParameterError(f"min_share must lie in [0, 1], got {self.min_share!r}")
        if self.min_area is not None and self.min_area < 0:
            raise ParameterError(f"min_area must be a number of pixels, 0 or more, got {self.min_area!r}")

    def is_motion(self, separation: Separation, share: float) -> bool:
        """Whether a frame of which this share is foreground shows motion."""
        if separation.phase != "tracking" or separation.event is not None:
            return False
        if self.min_area is not None:
            return share > 0 and share * separation.mask.size >= self.min_area
        return share > 0 and share >= self.min_share


class Gate(Enum):
    """What is to be done with a frame."""

    HOLD = auto()
    """Keep the frame: it may become part of what precedes motion."""
    BEGIN = auto()
    """Motion is certain: record what was held, from `MotionGate.clip_from` on, and this frame."""
    RECORD = auto()
    """Record this frame."""


class MotionGate:
    """Decides frame by frame what is recorded; knows times in seconds and no pictures.

    Motion begins when every frame of `min_duration` shows it. The clip begins `pre_roll` before that, at `clip_from`,
    and ends `post_roll` after the last frame with motion. Frames before `keep_from` are not wanted any more.
    """

    def __init__(self, rules: MotionRules) -> None:
        self._rules = rules
        self.recording = False
        self.clip_from = self.keep_from = -math.inf
        self._onset: float | None = None
        self._last_motion = -math.inf

    def update(self, time: float, moving: bool) -> Gate:
        """Take the next frame into account and return what is to be done with it."""
        if self.recording:
            if time - self._last_motion <= self._rules.post_roll + CLOSE:
                self._last_motion = time if moving else self._last_motion
                return Gate.RECORD
            self.recording, self._onset = False, None
        if not moving:
            self._onset = None
        elif self._onset is None:
            self._onset = time
        onset = self._onset
        self.keep_from = (time if onset is None else onset) - self._rules.pre_roll - CLOSE
        if onset is None or time - onset < self._rules.min_duration - CLOSE:
            return Gate.HOLD
        self.recording, self._last_motion, self.clip_from = True, time, self.keep_from
        return Gate.BEGIN

    def state(self) -> dict[str, Any]:
        """Return what `set_state` needs, as types that JSON knows."""
        times = (self.clip_from, self.keep_from, self._last_motion)
        return {"recording": self.recording, "onset": self._onset, "times": [max(time, -1e9) for time in times]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        self.recording, self._onset = state["recording"], state["onset"]
        self.clip_from, self.keep_from, self._last_motion = state["times"]
