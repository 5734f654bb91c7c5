"""Drawing of detected objects, regions, time and events onto pictures of a frame."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.events.event import ObjectInFrame, Step
from bgsub.events.feed import EventFeed
from bgsub.separation import Separation
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame
from bgsub.video.timecode import clock_text
from bgsub.video.views import enlarged, label_size, put_label, text_scale

# Colours of Okabe and Ito, distinguishable with colour vision deficiency; BGR.
COLOURS = (
    (0, 159, 230), (233, 180, 86), (115, 158, 0), (66, 228, 240), (178, 114, 0), (0, 94, 213), (167, 121, 204),
)  # fmt: skip
_BLACK, _WHITE = (0, 0, 0), (255, 255, 255)
_SHARE_OF_WIDTH = 0.75  # pictures that are narrower, relative to their height, have smaller text

_Place = tuple[int, int, int, int]  # left, top, width, height
Outlines = dict[str, list[np.ndarray]]  # borders of each region, (n, 2) float32 in pixels of the frame


def outlines_of(regions: Regions | None, shape: tuple[int, ...]) -> Outlines:
    """Return the outlines of regions in frames of `shape`; errors as `Regions.masks`."""
    found = {}
    for name, inside in (regions.masks(shape) if regions is not None else {}).items():
        borders, _ = cv2.findContours(inside.view(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        found[name] = [border.reshape(-1, 2).astype(np.float32) for border in borders]
    return found


def annotate(step: Step, outlines: Outlines, picture: np.ndarray, tiles: int = 1) -> np.ndarray:
    """Return a new picture, (h, w, 3) uint8, with boxes, regions, time and events; it may have several `tiles`."""
    picture = enlarged(picture).copy()
    height, width = picture.shape[0] // tiles, picture.shape[1] // tiles
    when = f"frame {step.frame}" if step.time is None else clock_text(step.time)
    when = when if step.date is None else f"{step.date:%Y-%m-%d %H:%M:%S}"
    text = "  ".join([when, *step.recent])
    scale = _scale(picture)
    scale *= min(1, picture.shape[1] / label_size(text, scale)[0])
    objects = [one for one in step.objects if one.id and one.frame == step.frame]
    for row in range(tiles):
        for column in range(tiles):
            tile = picture[row * height : (row + 1) * height, column * width : (column + 1) * width]
            _Tile(tile, step.mask.shape).draw(objects, outlines)
    put_label(picture, text, max(picture.shape[1] - label_size(text, scale)[0], 0), 0, scale)
    return picture


def _scale(picture: np.ndarray) -> float:
    return text_scale(picture[: max(round(_SHARE_OF_WIDTH * picture.shape[1]), 1)])


class _Tile:
    def __init__(self, picture: np.ndarray, shape: tuple[int, ...]) -> None:
        self._picture = picture
        self._zoom = np.array([picture.shape[1] / shape[1], picture.shape[0] / shape[0]])
        self._scale = _scale(picture)
        self._line = max(1, round(3.5 * self._scale))
        self._edge = max(1, round(self._line / 3))  # border of a line

    def draw(self, objects: Sequence[ObjectInFrame], outlines: Outlines) -> None:
        """Draw regions, then boxes from far to near, then labels."""
        regions = {name: self._outlined(borders) for name, borders in outlines.items()}
        nearer_last = sorted(objects, key=lambda one: one.box[1] + one.box[3])
        boxes = [(self._boxed(one), one) for one in nearer_last]
        for box, one in boxes:
            self._put_label(str(one.id), box, _colour(one))
        for name, place in regions.items():
            self._put_label(name, place, _WHITE)

    def _outlined(self, borders: list[np.ndarray]) -> _Place:
        """Draw a region; return the place of its topmost point."""
        borders = [np.rint((border + 0.5) * self._zoom - 0.5).astype(np.int32) for border in borders]
        cv2.polylines(self._picture, borders, True, _WHITE, 3 * self._edge)
        cv2.polylines(self._picture, borders, True, _BLACK, self._edge)
        left, top = min(np.vstack(borders).tolist(), key=lambda point: (point[1], point[0]))
        return left, top, 0, 0

    def _boxed(self, one: ObjectInFrame) -> _Place:
        corner = np.array(one.box[:2])
        left, top = np.rint(corner * self._zoom).astype(int).tolist()
        right, bottom = (np.rint((corner + one.box[2:]) * self._zoom).astype(int) - 1).tolist()
        right, bottom = max(left, right), max(top, bottom)
        for ink, line in ((_BLACK, self._line + 2 * self._edge), (_colour(one), self._line)):
            cv2.rectangle(self._picture, (left, top), (right, bottom), ink, line)
        return left, top, right - left + 1, bottom - top + 1

    def _put_label(self, text: str, box: _Place, ground: tuple[int, int, int]) -> None:
        """Draw a label above a box, or inside it at the upper edge of the picture."""
        left, top, *_ = box
        wide, high = label_size(text, self._scale)
        rows, columns = self._picture.shape[:2]
        if wide > columns or high > rows:
            return
        gap = self._line // 2 + self._edge
        above = top - high - gap
        top = above if above >= 0 else min(top + gap, rows - high)
        put_label(self._picture, text, min(max(left - gap, 0), columns - wide), top, self._scale, ground)


def _colour(one: ObjectInFrame) -> tuple[int, int, int]:
    return COLOURS[one.id % len(COLOURS)]


class AnnotatingSink(Sink):
    """Adds drawings of objects, regions, time and events to the frames of another sink.

    The views ``boxes``, ``panel``, ``overlay`` and ``contours`` show them.

    Parameters
    ----------
    sink : Sink
        The other sink.
    feed : EventFeed
        Shared with the other sinks of the run; its regions are drawn.

    Attributes
    ----------
    path, folder : Path or None
        Outputs of the other sink.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.events import AnnotatingSink, EventFeed, ObjectLinker
    >>> from bgsub.video import VideoSink
    >>> feed = EventFeed(ObjectLinker(fps=25))
    >>> summary = bgsub.process_video("video.mp4", AnnotatingSink(VideoSink("boxes.mp4", "boxes", 25), feed))
    """

    def __init__(self, sink: Sink, feed: EventFeed) -> None:
        self._sink, self._feed, self._outlines = sink, feed, lru_cache(1)(outlines_of)
        self.path, self.folder = getattr(sink, "path", None), getattr(sink, "folder", None)

    def write(self, frame: Frame, separation: Separation) -> None:
        step = self._feed.step(frame, separation)
        outlines = self._outlines(self._feed.linker.regions, separation.mask.shape)
        self._sink.write(frame, replace(separation, annotate=partial(annotate, step, outlines)))

    def preview(self, frame: Frame) -> None:
        self._sink.preview(frame)

    def idle(self) -> None:
        self._sink.idle()

    def close(self) -> None:
        self._sink.close()

    def abort(self) -> None:
        self._sink.abort()

    def checkpoint(self) -> dict[str, Any]:
        return {"feed": self._feed.checkpoint(self), "sink": self._sink.checkpoint()}

    def resume(self, state: dict[str, Any]) -> None:
        self._feed.resume(state["feed"])
        self._sink.resume(state["sink"])
