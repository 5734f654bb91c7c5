"""Pictures of objects and of motion events, and a heat map of the motion."""

import base64
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import logger
from bgsub.events.event import OBJECT, Event, ObjectInFrame, Step
from bgsub.events.feed import EventFeed
from bgsub.separation import FOREGROUND, Separation
from bgsub.storage.durable_io import as_sink_error, partial_name, sync_folder, sync_written, write_whole
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources.base import Frame
from bgsub.video.views import to_bgr8
from bgsub.video.web_page import THUMBNAIL, jpeg_of, shrunk

MOST = 20_000  # most pictures of a run

_MARGIN, _LEAST_SIDE = 0.25, 0.2  # of the larger side of the box, around it; of the shorter side of the frame
_BETTER = 1.1  # ratio of the scores from which a sight replaces another one
_AT_BORDER = 0.3  # of the score of an object that touches the border of the frame
_SHARP = 300.0  # variance of the Laplacian of a sharp picture
_QUALITY = 85
_NAME = re.compile(r"(\d{6})\.jpg(\.partial)?")


def remove_pictures(folder: Path, after: int = 0) -> None:
    """Remove partial pictures, and those of objects with larger numbers, from a folder; OSError if that fails."""
    for path in folder.glob("*.jpg*"):
        match = _NAME.fullmatch(path.name)
        if match and (match[2] or int(match[1]) > after) and path.is_file():
            path.unlink(missing_ok=True)


class ObjectPictureSink(Sink):
    """Writes a picture of each object, ``000012.jpg``: its largest, sharpest sight away from the edge of the frame."""

    def __init__(self, folder: Path, feed: EventFeed) -> None:
        self.folder, self._feed = folder, feed
        self._best: dict[int, tuple[float, bytes]] = {}  # score and JPEG of the best sight of each object so far
        self._written = 0
        self._partial, self._not_synced = partial_name(folder), list[Path]()
        prepare_folder(self._partial)

    def write(self, frame: Frame, separation: Separation) -> None:
        step = self._feed.step(frame, separation)
        for one in step.objects:
            if one.frame == step.frame and one.id:
                self._see(one, separation.frame)
        self._store(step.finished)

    def close(self) -> None:
        if self._done:
            return
        self._done = True
        self._store(self._feed.finish())
        sync_written(self._partial, self._not_synced)
        with as_sink_error(self.folder):
            for folder in (self._partial, self.folder):
                remove_pictures(folder, after=self._written)
            if not self.folder.exists():
                self._partial.rename(self.folder)
            else:
                for path in self._partial.glob("*.jpg"):
                    path.replace(self.folder / path.name)
                self._partial.rmdir()
            sync_folder(self.folder)
            sync_folder(self.folder.parent)

    def abort(self) -> None:
        self._done = True
        with suppress(OSError):  # it has pictures
            self._partial.rmdir()

    def checkpoint(self) -> dict[str, Any]:
        sync_written(self._partial, self._not_synced)
        best = {number: [score, base64.b64encode(jpeg).decode()] for number, (score, jpeg) in self._best.items()}
        return {"feed": self._feed.checkpoint(self), "best": best, "written": self._written}

    def resume(self, state: dict[str, Any]) -> None:
        self._feed.resume(state["feed"])
        self._best = {int(key): (score, base64.b64decode(jpeg)) for key, (score, jpeg) in state["best"].items()}
        self._written = state["written"]
        prepare_folder(self._partial)  # the interrupted run removes an empty one

    def _see(self, one: ObjectInFrame, image: np.ndarray) -> None:
        """Keep the picture of a sight if it is the best one so far."""
        x, y, w, h = one.box
        rows, columns = image.shape[:2]
        is_whole = x > 0 and y > 0 and x + w < columns and y + h < rows
        most = 2 * one.area * (1 if is_whole else _AT_BORDER)
        best, _ = self._best.get(one.id, (-1.0, b""))
        if most < _BETTER * best:
            return
        margin = round(max(_MARGIN * max(w, h), (_LEAST_SIDE * min(rows, columns) - min(w, h)) / 2))
        part = to_bgr8(image[max(y - margin, 0) : y + h + margin, max(x - margin, 0) : x + w + margin])
        sharpness = min(float(cv2.Laplacian(cv2.cvtColor(part, cv2.COLOR_BGR2GRAY), cv2.CV_32F).var()) / _SHARP, 1)
        score = most * (1 + sharpness) / 2
        if score > _BETTER * best:
            self._best[one.id] = (score, jpeg_of(shrunk(part, THUMBNAIL), _QUALITY))

    def _store(self, finished: list[Event]) -> None:
        for event in finished:
            best = self._best.pop(event.id, None) if event.kind == OBJECT else None
            if best is None:
                continue
            if event.id > MOST:
                if event.id == MOST + 1:
                    logger.warning("only the first %d objects get pictures", MOST)
                continue
            path = self._partial / f"{event.id:06d}.jpg"
            write_whole(path, best[1], durable=False)
            self._not_synced.append(path)
            event.picture = str(self.folder / path.name)
            self._written = max(self._written, event.id)


MOST_PICTURES = 200  # most motion events with a picture: those with the most motion
LONGEST = 480  # largest side of the heat map in pixels

_PEAK_QUALITY = 75
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
            jpeg = jpeg_of(current.picture, _PEAK_QUALITY)
            self.kept.append(Highlight(event, current.share, current.objects, current.regions, jpeg))
            self.count += 1
            if len(self.kept) > MOST_PICTURES:
                self.kept.remove(min(self.kept, key=lambda one: one.event.frames * one.event.peak_area))


@dataclass
class HeatMap:
    """Counts how often each pixel is foreground, in at most 480 pixels on the larger side."""

    total: np.ndarray | None = None  # 255 for each frame in which the whole pixel was foreground: exact
    frames: int = 0

    def add(self, separation: Separation) -> None:
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
