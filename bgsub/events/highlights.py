"""Pictures of a run: one for each motion event, and a heat map of the motion."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bgsub._opencv import cv2
from bgsub.events.event import Event, Step
from bgsub.separation import FOREGROUND, Separation
from bgsub.video.views import to_bgr8
from bgsub.video.web_page import THUMBNAIL, jpeg_of, shrunk

#: Most motion events with a picture: those with the most motion.
MOST_PICTURES = 200
#: Largest side of the heat map in pixels.
LONGEST = 480

_QUALITY = 75
_BOX = (0, 170, 255)  # BGR
_OPACITY = 0.8  # of the heat map over the background


@dataclass
class Highlight:
    """A motion event that has ended, and its picture."""

    event: Event
    share: float  # of the frame that was foreground at the peak
    objects: int
    regions: list[str]  # of the objects
    jpeg: bytes  # the frame at the peak

    @property
    def amount(self) -> int:
        """Amount of motion: frames times peak area."""
        return self.event.frames * self.event.peak_area


@dataclass
class _Current:
    """The motion event that lasts."""

    start: int  # its first frame
    picture: np.ndarray = field(default_factory=lambda: np.zeros((1, 1, 3), np.uint8))  # the frame at the peak so far
    scale: float = 1.0  # of the picture
    share: float = 0.0
    objects: int = 0
    present: list[int] = field(default_factory=list)  # IDs of the objects that have not ended
    regions: list[str] = field(default_factory=list)


@dataclass
class Highlights:
    """Collects a picture with boxes of each motion event."""

    kept: list[Highlight] = field(default_factory=list)  # in the order of the ends
    count: int = 0  # motion events, including those without a picture
    current: _Current | None = None

    def add(self, step: Step, separation: Separation) -> None:
        """Add one frame."""
        self.finish(step.motion.ended)
        event = step.motion.lasting
        if event is None:
            self.current = None
            return
        if self.current is None or self.current.start != event.start_frame:
            self.current = _Current(event.start_frame)
        if event.peak_frame == step.frame:
            image = to_bgr8(separation.frame)
            self.current.picture = shrunk(image, THUMBNAIL).copy()
            self.current.scale = self.current.picture.shape[1] / image.shape[1]
            self.current.share = event.peak_area / separation.mask.size
        current = self.current
        for one in step.objects:
            if not event.start_frame <= one.frame <= event.end_frame:
                continue
            if one.id not in current.present:
                current.present.append(one.id)
                current.objects += 1
            current.regions += [name for name in one.regions if name not in current.regions]
            if one.frame == event.peak_frame:
                x, y, w, h = (round(current.scale * value) for value in one.box)
                cv2.rectangle(current.picture, (x - 1, y - 1), (x + w, y + h), _BOX, 1)
        over = {ended.id for ended in step.finished}
        current.present = [number for number in current.present if number not in over]

    def finish(self, ended: list[Event]) -> None:
        """Keep the highlights of events that have ended."""
        for event in ended:
            current, self.current = self.current, None
            if current is None:  # forgotten
                continue
            jpeg = jpeg_of(current.picture, _QUALITY)
            self.kept.append(Highlight(event, current.share, current.objects, current.regions, jpeg))
            self.count += 1
            if len(self.kept) > MOST_PICTURES:
                self.kept.remove(min(self.kept, key=lambda one: one.amount))


@dataclass
class HeatMap:
    """Counts how often each pixel is foreground, in at most 480 pixels on the larger side."""

    total: np.ndarray | None = None  # 255 for each frame in which the whole pixel was foreground: exact
    frames: int = 0

    def add(self, separation: Separation) -> None:
        """Add one frame."""
        if separation.event is not None:
            return
        foreground = shrunk(cv2.compare(separation.mask, FOREGROUND, cv2.CMP_EQ), LONGEST)
        if self.total is None:
            self.total = np.zeros(foreground.shape)
        cv2.accumulate(foreground, self.total)
        self.frames += 1

    def share(self) -> np.ndarray | None:
        """Return the share of frames in which each pixel was foreground, (h, w) float64; None without frames."""
        return None if self.total is None else self.total / (255 * self.frames)


def draw_heat_map(share: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Return a heat map, (h, w, 3) uint8, BGR, of the square root of a share, (h, w), over a background."""
    level = np.sqrt(share / (share.max() or 1))
    colours = cv2.applyColorMap(np.rint(255 * level).astype(np.uint8), cv2.COLORMAP_INFERNO)
    grey = cv2.cvtColor(cv2.cvtColor(to_bgr8(background), cv2.COLOR_BGR2GRAY), cv2.COLOR_GRAY2BGR)
    weight = np.minimum(6 * level, 1)[..., np.newaxis] * _OPACITY
    return np.rint(weight * colours + (1 - weight) * grey).astype(np.uint8)
