"""Clips of the moments with motion."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import SinkError
from bgsub.events.clips.files import Clip, ClipNames, append_to_list
from bgsub.events.clips.pre_roll import PreRoll
from bgsub.events.motion import CLOSE, Gate, MotionGate, MotionRules
from bgsub.separation import Separation
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sinks.video import DEFAULT_RATE
from bgsub.video.sinks.videos import as_separation, video_sink
from bgsub.video.sources.base import Frame
from bgsub.video.views import get_view, to_bgr8, to_uint8

logger = logging.getLogger("bgsub")

MakeSink = Callable[[Path, str, Fraction], Sink]

_MEMORY = 256 << 20


class RecorderSink(Sink):
    """Records a clip of each moment with motion, from a little before it to a little after it.

    Motion is a share of foreground above a threshold for some time. Frames of the start phase, and those with an
    event of the whole frame such as a light that is switched, are no motion. Moments whose clips would overlap
    share one. Clips have the times of the source if PyAV is installed, and one frame after the other at `rate`
    otherwise; they appear when they are complete. ``clips.csv`` in the folder lists file, start, end (seconds of
    the source), peak share, and date and time of a camera's clips. Clips that exist are never replaced: their numbers
    go on.

    Parameters
    ----------
    folder : str or path
        Created if missing.
    rules : MotionRules, optional
        What is motion, and how much around it is recorded.
    view : str
        ``"input"``, the frames as they are, or one of `VIEWS`; ``cutout`` without its transparency.
    name : str, optional
        Name of the clips; see `ClipNames`.
    source : str
        Name of the source in it.
    rate : float or Fraction, optional
        Frames per second, where the frames have no times; 25 if unknown.
    make_sink : callable, optional
        Called with path, view and rate for each clip; by default an `AvVideoSink`, or a `VideoSink` without PyAV.
    memory : int
        Bytes that the frames before a motion may take; see `PreRoll`.

    Attributes
    ----------
    clips : list of Clip
        What was recorded.

    Raises
    ------
    ParameterError
        If a parameter is none of the allowed.
    SinkError
        If the folder or a clip cannot be written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        rules: MotionRules | None = None,
        *,
        view: str = "input",
        name: str | None = None,
        source: str = "video",
        rate: float | Fraction | None = None,
        make_sink: MakeSink | None = None,
        memory: int = _MEMORY,
    ) -> None:
        self.folder = Path(folder)
        self.clips: list[Clip] = []
        self._rules = rules or MotionRules()
        self._view: Callable[[Separation], np.ndarray] = _input if view == "input" else get_view(view)
        self._exact = view == "mask"
        self._names = ClipNames(self.folder, name, source, ".mkv" if self._exact else ".mp4")
        self._rate = Fraction(rate).limit_denominator(1001) if rate else DEFAULT_RATE
        self._make_sink = make_sink or video_sink
        self._gate = MotionGate(self._rules)
        self._max_duration = self._rules.max_duration or math.inf
        self._held = PreRoll(self._exact, memory)
        self._clip: _GrowingClip | None = None
        prepare_folder(self.folder)

    def write(self, frame: Frame, separation: Separation) -> None:
        moment = frame.time if frame.time is not None else float(frame.index / self._rate)
        share = separation.share
        action = self._gate.update(moment, self._rules.is_motion(separation, share))
        picture = self._picture(separation)
        if action is not Gate.RECORD and self._clip is not None and self._is_over(self._clip, action):
            self._finish_clip()
        if action is Gate.BEGIN:
            self._record_held()
        if action is not Gate.HOLD:
            self._record(frame, moment, share, picture)
            return
        self._held.put(frame, moment, share, picture)
        # While a clip may still be continued, what comes after it must not be lost.
        self._held.forget_before(self._gate.keep_from if self._clip is None else self._clip.end)

    def close(self) -> None:
        self._finish_clip()

    def abort(self) -> None:
        clip, self._clip = self._clip, None
        if clip is not None:
            clip.sink.abort()

    def checkpoint(self) -> dict[str, Any]:
        raise SinkError("recordings of motion cannot be continued")

    def _is_over(self, clip: _GrowingClip, action: Gate) -> bool:
        """Whether the clip at hand can no longer be continued: the next one would begin after its end."""
        begin = self._gate.clip_from if action is Gate.BEGIN else self._gate.keep_from
        return begin > clip.end

    def _picture(self, separation: Separation) -> np.ndarray:
        image = to_uint8(self._view(separation))
        return image if image.ndim == 2 else to_bgr8(image)

    def _record_held(self) -> None:
        if self._clip is None:
            self._held.forget_before(self._gate.clip_from)
        for frame, moment, share, picture in self._held.take():
            self._record(frame, moment, share, picture)

    def _record(self, frame: Frame, moment: float, share: float, picture: np.ndarray) -> None:
        if self._clip is not None and moment - self._clip.start >= self._max_duration - CLOSE:
            self._finish_clip()
        if self._clip is None:
            began = _date_of(frame)
            path = self._names.next(moment, began)
            sink = self._make_sink(path, "mask" if self._exact else "background", self._rate)
            self._clip = _GrowingClip(path, sink, moment, began)
        self._clip.add(frame, moment, share, picture)

    def _finish_clip(self) -> None:
        growing, self._clip = self._clip, None
        if growing is None:
            return
        try:
            growing.sink.close()
        except BaseException:
            growing.sink.abort()
            raise
        clip = growing.clip
        append_to_list(self.folder, clip)
        self.clips.append(clip)
        logger.info("recorded %s: %.1f s, %.1f %% in motion", clip.path, clip.end - clip.start, 100 * clip.peak_share)


class _GrowingClip:
    """A clip that is being written."""

    def __init__(self, path: Path, sink: Sink, start: float, began: datetime | None) -> None:
        self.path, self.sink, self.start, self.end, self.began = path, sink, start, start, began
        self._peak = 0.0

    @property
    def clip(self) -> Clip:
        return Clip(self.path, self.start, self.end, self._peak, self.began)

    def add(self, frame: Frame, moment: float, share: float, picture: np.ndarray) -> None:
        self.sink.write(frame, as_separation(picture))
        self.end, self._peak = moment, max(self._peak, share)


def _input(separation: Separation) -> np.ndarray:
    return separation.frame


def _date_of(frame: Frame) -> datetime | None:
    """Return when a frame of a camera arrived."""
    if frame.received is None:
        return None
    return datetime.now().astimezone() - timedelta(seconds=time.monotonic() - frame.received)
