"""Events of a run: objects in single frames, and events that have ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from bgsub.separation import FrameEvent

Box = tuple[int, int, int, int]


class EventKind(StrEnum):
    """Kinds of events: objects, motion, and the events of the whole frame."""

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
        ID from 1, the same in all frames of the object; 0 before its confirmation.
    frame : int
        Index of the frame.
    time : float or None
        Seconds, if known.
    box : (int, int, int, int)
        Left, top, width, height in pixels.
    centroid : (float, float)
        Mean position (x, y) of the pixels.
    area : int
        Number of pixels.
    mask : ndarray, (height, width) of the box, bool
        Pixels of the object.
    regions : tuple of str
        Regions that contain it.
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
    """An event with start and end: an object, motion, or an event of the whole frame.

    Attributes
    ----------
    kind : str
        "object", "motion", or an event of the whole frame such as `bgsub.FrameEvent`. Events of the whole frame have
        only frames and times; motion events also have the peak area and frame.
    id : int
        ID of an object or number of a motion event, from 1; 0 otherwise.
    start_frame, end_frame : int
        Index of the first and the last frame.
    start_time, end_time : float or None
        Their times in seconds, if known.
    frames : int
        Number of frames with the event.
    peak_area, peak_frame : int
        Largest area in pixels (of motion: all foreground), and the first frame with it.
    peak_box : (int, int, int, int)
        Left, top, width, height in this frame.
    step : int
        Number of frames per point of the track; see `ObjectLinker`.
    boxes : list of (int, int, int, int, int)
        Track: frame, left, top, width, height.
    centroids : list of (float, float)
        Track: mean position of the pixels.
    areas : list of int
        Track: number of pixels.
    regions : list of str
        Regions visited, in the order of the first visit.
    clip : str or None
        Path of the clip of a motion event, set when the file is complete; the first one of several. None without
        a recorder.

    See Also
    --------
    ObjectLinker.take_finished, EventFeed.step : Return events.
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
