"""Events of a run: objects in single frames, events that have ended, and all events of one frame."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import numpy as np

Box = tuple[int, int, int, int]


OBJECT, MOTION = "object", "motion"  # kinds of events; others are a `FrameEvent`


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
        only frames and times; motion events also have the peak and the regions.
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
        Left, top, width, height in this frame; of motion: those of the largest connected part.
    peak_share : float
        Largest `Motion.share` of a motion event, in [0, 1].
    step : int
        Number of frames per point of the track; see `ObjectLinker`.
    boxes : list of (int, int, int, int, int)
        Track: frame, left, top, width, height.
    centroids : list of (float, float)
        Track: mean position of the pixels.
    areas : list of int
        Track: number of pixels.
    times : list of float or None
        Track: seconds, if known.
    frame_size : (int, int)
        Width and height of the frame of an object; (0, 0) otherwise.
    regions : list of str
        Regions visited, or in which motion was, in the order of the first visit.
    clip : str or None
        Path of the clip of a motion event, set when the file is complete; the first one of several. None without
        a recorder.
    picture : str or None
        Path of the picture of an object; of the snapshot of a motion event, or else of the thumbnail of its clip.
    began : str or None
        Date and time of the start, ISO 8601, of an event in front of a camera that has ended.

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
    peak_share: float = 0.0
    step: int = 1
    boxes: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    centroids: list[tuple[float, float]] = field(default_factory=list)
    areas: list[int] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)
    frame_size: tuple[int, int] = (0, 0)
    regions: list[str] = field(default_factory=list)
    clip: str | None = None
    picture: str | None = None
    began: str | None = None


class Motion(NamedTuple):
    """Motion in a frame, and the motion event that lasts; times are those of `Step.clock`."""

    begun: list[Event]  # the event that has become certain with this frame
    ended: list[Event]  # the event that has ended, because the gap after it is too long
    share: float  # of the frame, or of the fullest region, that is foreground, in [0, 1]
    moving: bool  # whether the frame shows motion
    since: float | None  # start of the current motion, which may still be too short for an event
    until: float | None  # last frame with motion of the event that lasts
    lasting: Event | None  # the current motion, with ID 0 until it is certain


@dataclass
class FrameCount:
    """The objects of a frame in each region; final when all its objects are known."""

    frame: int
    clock: float
    gap: float  # seconds since the frame before
    interval: float  # seconds that it represents
    objects: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Step:
    """Events of one frame.

    Attributes
    ----------
    frame : int
        Index of the frame.
    time : float or None
        Seconds, if known.
    clock : float
        Seconds, always known: at 25 frames per second if `time` is None.
    gap, interval : float
        Seconds since the frame before, and seconds that the frame represents.
    mask : ndarray, (h, w), uint8
        As of `Separation`.
    objects : list of ObjectInFrame
        As of `ObjectLinker.update`.
    started : list of ObjectInFrame
        Objects confirmed in this frame, as seen in it.
    begun : list of Event
        Events of the whole frame that begin.
    finished : list of Event
        Objects and events of the whole frame that have ended.
    motion : Motion
        Motion events: `begun` have become certain and `ended` have ended with this frame; `share` is the share of
        the foreground.
    settled : int
        Index of the first frame whose objects are not all known yet.
    recent : tuple of str
        Names of motion and of events of the whole frame that last or ended at most two seconds ago.
    date : datetime, optional
        When the frame of a camera arrived.
    """

    frame: int
    time: float | None
    clock: float
    gap: float
    interval: float
    mask: np.ndarray
    objects: list[ObjectInFrame]
    started: list[ObjectInFrame]
    begun: list[Event]
    finished: list[Event]
    motion: Motion
    settled: int
    recent: tuple[str, ...] = ()
    date: datetime | None = None
