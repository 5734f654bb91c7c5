"""When a recording of motion begins and ends."""

from __future__ import annotations

import math
from enum import Enum, auto

# Times this close, in seconds, are the same: most are rounded multiples of the time between two frames.
CLOSE = 1e-6


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

    Motion begins when every frame of `min_duration` shows it. The clip begins `pre_roll` before that and ends
    `post_roll` after the last frame with motion.

    Parameters
    ----------
    pre_roll, post_roll, min_duration : float
        Seconds, 0 or more.

    Attributes
    ----------
    recording : bool
        Whether a clip is growing.
    clip_from : float
        Earliest time that belongs to the clip that began last.
    keep_from : float
        Earliest time of a frame that may still be wanted.
    """

    def __init__(self, pre_roll: float, post_roll: float, min_duration: float) -> None:
        self._pre_roll, self._post_roll = pre_roll, post_roll
        self._min_duration = min_duration
        self.recording = False
        self.clip_from = self.keep_from = -math.inf
        self._onset: float | None = None
        self._last_motion = -math.inf

    def update(self, time: float, moving: bool) -> Gate:
        """Take the next frame into account and return what is to be done with it."""
        if self.recording:
            if time - self._last_motion <= self._post_roll + CLOSE:
                self._last_motion = time if moving else self._last_motion
                return Gate.RECORD
            self.recording, self._onset = False, None
        if not moving:
            self._onset = None
        elif self._onset is None:
            self._onset = time
        onset = self._onset
        self.keep_from = (time if onset is None else onset) - self._pre_roll - CLOSE
        if onset is None or time - onset < self._min_duration - CLOSE:
            return Gate.HOLD
        self.recording, self._last_motion, self.clip_from = True, time, self.keep_from
        return Gate.BEGIN
