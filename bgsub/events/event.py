"""What the events of a run are: an object in one frame, and something that has begun and ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from bgsub.separation import FrameEvent

Box = tuple[int, int, int, int]


class EventKind(StrEnum):
    """What an event can be: the way of an object, a moment with motion, or one of the whole frame."""

    OBJECT = "object"
    MOTION = "motion"
    LIGHT_CHANGE = FrameEvent.LIGHT_CHANGE
    COVERED = FrameEvent.COVERED
    SCENE_CHANGE = FrameEvent.SCENE_CHANGE
    SCENE_RETURN = FrameEvent.SCENE_RETURN


@dataclass(frozen=True, eq=False)
class ObjectInFrame:
    """One object in one frame.

    Attributes
    ----------
    id : int
        Identity, from 1; the same in all frames of the object. 0 while it is not known to be an object.
    frame : int
        Index of the frame.
    time : float or None
        Its time in seconds, where it is known.
    box : (int, int, int, int)
        Left, top, width, height in pixels.
    centroid : (float, float)
        Mean position (x, y) of the pixels.
    area : int
        Number of pixels.
    mask : ndarray, (height, width) of the box, bool
        Its pixels.
    regions : tuple of str
        Regions it is in.
    """

    id: int
    frame: int
    time: float | None
    box: Box
    centroid: tuple[float, float]
    area: int
    mask: np.ndarray
    regions: tuple[str, ...] = ()


@dataclass
class Event:
    """Something that has begun and ended: an object's way, a moment with motion, or what befell the whole frame.

    Attributes
    ----------
    kind : str
        "object", "motion", one of `bgsub.FrameEvent`, or what else a subtractor calls its events; those of the whole
        frame have only frames and times, moments with motion their peak as well, without a box.
    id : int
        Identity of an object, or number of a moment with motion, from 1; 0 otherwise.
    start_frame, end_frame : int
        Index of the first and the last frame.
    start_time, end_time : float or None
        Their times in seconds, where they are known.
    frames : int
        Number of frames in which it was seen.
    peak_area, peak_frame : int
        Largest area in pixels (of a moment: all foreground), and the first frame with it.
    peak_box : (int, int, int, int)
        Left, top, width, height there.
    step : int
        A point of the track stands for so many frames in which the object was seen; see `ObjectLinker`.
    boxes : list of (int, int, int, int, int)
        Track: frame, left, top, width, height.
    centroids : list of (float, float)
        Track: mean position of the pixels.
    areas : list of int
        Track: number of pixels.
    regions : list of str
        Regions visited, in the order of the first visit.
    clip : str or None
        Path of the clip that a moment with motion is in, set once the file is complete, which is up to the post-roll
        after its end; the first one of several. None where nothing is recorded.

    See Also
    --------
    ObjectLinker.take_finished, EventFeed.step : What gives them.
    """

    kind: str
    id: int
    start_frame: int
    end_frame: int
    start_time: float | None
    end_time: float | None
    frames: int = 0
    peak_area: int = 0
    peak_frame: int = 0
    peak_box: Box = (0, 0, 0, 0)
    step: int = 1
    boxes: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    centroids: list[tuple[float, float]] = field(default_factory=list)
    areas: list[int] = field(default_factory=list)
    regions: list[str] = field(default_factory=list)
    clip: str | None = None
