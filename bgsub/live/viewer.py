"""The pictures of a live run, for windows, browsers and snapshots, and its last motion events."""

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SinkError, check_choice, logger
from bgsub.events.feed import EventFeed
from bgsub.events.pictures import Highlight, Highlights
from bgsub.jobs.controls import LIVE_VIEWS, SETTINGS, Controls
from bgsub.separation import Separation
from bgsub.video import views
from bgsub.video.sinks.base import Sink
from bgsub.video.sinks.images import write_image
from bgsub.video.sources.base import Frame
from bgsub.video.timecode import clock_text
from bgsub.video.web_page import jpeg_of, shrunk

Shown = Separation | Frame  # a separation, or a frame without one yet, which is shown as it is in each view

_EMPTY_SIZE = 640, 360

#: Keys of the window and their commands.
KEYS = (
    ("q, Esc", "quit"),
    ("space, p", "pause"),
    ("f", "freeze the model"),
    ("r", "reset the model"),
    ("s", "snapshot"),
    ("v, 0..9", "view"),
    ("b", "boxes"),
    ("+ -", "threshold"),
    ("[ ]", "noise factor"),
    ("< >", "least area"),
    ("i", "statistics"),
    ("h", "help"),
)


class Viewer:
    """Composes the pictures of one run, of at most `longest_side` pixels; for a browser without `words`."""

    def __init__(
        self, controls: Controls, name: str = "camera", *, longest_side: int | None = None, words: bool = True
    ) -> None:
        self._controls = controls
        self._longest, self._words = longest_side, words
        self._waits = f"waiting for {name} ..."

    def picture(self, shown: Shown | None, view: str = "") -> np.ndarray:
        """Return the current or another view, (h, w, 3) uint8, also before the first frame; see `LEAST_SIZE`."""
        if shown is None:
            image = np.full((_EMPTY_SIZE[1], _EMPTY_SIZE[0], 3), 32, np.uint8)
            return self._with_words(image) if self._words else views.add_label(image, self._waits)
        image = self.view(shown, view or self._controls.view)
        return self._with_words(image) if self._words else image

    def view(self, shown: Shown, name: str) -> np.ndarray:
        """Return a view without text, (h, w, 3) uint8, reduced to the longest side."""
        if isinstance(shown, Frame):
            return views.to_bgr8(self._small(shown.image, 1))
        check_choice("view", name, LIVE_VIEWS)
        tiles = views.PANEL_TILES if name == "panel" else 1
        separation = self._reduced(shown, tiles)
        picture = views.to_bgr8(views.get_view(name)(replace(separation, annotate=None)))
        return views.annotated(separation, picture, tiles) if self._controls.boxes or name == "boxes" else picture

    def _small(self, image: np.ndarray, tiles: int, how: int = cv2.INTER_AREA) -> np.ndarray:
        """Reduce an image so that `tiles` of them side by side fit into the longest side."""
        if self._longest is None or max(image.shape[:2]) * tiles <= self._longest:
            return image
        wide = image.astype(np.float32) if image.dtype == np.float16 else image
        return shrunk(wide, self._longest / tiles, how)

    def _reduced(self, separation: Separation, tiles: int) -> Separation:
        """Reduce all images of a separation, see `_small`."""
        names = ("frame", "background", "residual")
        images: dict[str, Any] = {name: self._small(getattr(separation, name), tiles) for name in names}
        mask = self._small(separation.mask, tiles, cv2.INTER_NEAREST)
        return replace(separation, mask=mask, soft_vote=lambda: self._small(separation.probability, tiles), **images)

    def _with_words(self, image: np.ndarray) -> np.ndarray:
        controls = self._controls
        image = views.enlarged(image)
        below, right = max(views.LEAST_SIZE[1] - image.shape[0], 0), max(views.LEAST_SIZE[0] - image.shape[1], 0)
        if below or right:
            image = cv2.copyMakeBorder(image, 0, below, 0, right, cv2.BORDER_CONSTANT)
        scale = views.text_scale(image)
        states = [word for word in ("paused", "frozen") if getattr(controls, word)]
        if controls.statistics.is_silent and not controls.paused:
            states.append(self._waits)
        if states := [word for word in (*states, controls.busy, controls.notice) if word]:
            image = views.add_label(image, ", ".join(states), scale)
        if controls.show_help:
            parameters = controls.parameters
            values = [(setting.name.replace("_", " "), f"{parameters[setting.name]:g}") for setting in SETTINGS]
            image = views.add_box(image, [*KEYS, ("", ""), *values], scale)
        if controls.show_statistics:
            image = views.add_bar(image, statistics_words(controls.statistics.as_dict()), scale)
        return image


def statistics_words(numbers: dict[str, Any]) -> list[str]:
    """Return the numbers of `LiveStatistics.as_dict` as text of constant width."""
    delay = numbers["latency_ms"]
    return [
        f"{numbers['frames_per_second']:5.1f} frames/s",
        f"delay {'    -' if delay is None else f'{delay:5.0f}'} ms",
        f"dropped {numbers['dropped']:5d}",
        f"foreground {100 * numbers['foreground']:5.1f} %",
        f"{numbers['phase']:8s}",
        f"{numbers['event'] or '':12s}",
    ]


class SnapshotSink(Sink):
    """Writes view, mask and background in full size as ``NAME-TIME-FRAME-VIEW.png`` when `Controls` asks for it."""

    def __init__(self, controls: Controls, name: str = "snapshot") -> None:
        self._controls, self._name = controls, name
        self._viewer = Viewer(controls, words=False)
        self._newest: tuple[Frame, Separation] | None = None

    def write(self, frame: Frame, separation: Separation) -> None:
        self._newest = frame, separation
        self.idle()

    def idle(self) -> None:
        if self._newest is not None and self._controls.take_snapshot_request():
            self._store(*self._newest)

    def close(self) -> None:
        self._newest = None

    def _store(self, frame: Frame, separation: Separation) -> None:
        views = dict.fromkeys((self._controls.view, "mask", "background"))
        stem = f"{self._name}-{time.strftime('%Y%m%d-%H%M%S')}-{frame.name}"
        paths = [Path(f"{stem}-{view}.png") for view in views]
        try:
            for view, path in zip(views, paths, strict=True):
                write_image(path, separation.mask if view == "mask" else self._viewer.view(separation, view))
        except SinkError as error:
            logger.warning("no snapshot: %s", error)
            self._controls.notice = "the snapshot cannot be written"
        else:
            logger.info("snapshot: %s", ", ".join(map(str, paths)))
            self._controls.notice = f"snapshot: {stem}"
            if self._controls.on_snapshot is not None:
                self._controls.on_snapshot(frame, paths[0])


BOUNDARY = "frame"
_LONGEST_SIDE = 1280  # pixels of a JPEG picture
_QUALITY = 80  # of JPEG, in percent

MULTIPART_TYPE = f"multipart/x-mixed-replace; boundary={BOUNDARY}"
#: HTTP header fields of an endless Motion JPEG stream.
MULTIPART = {"Content-Type": MULTIPART_TYPE, "Cache-Control": "no-store", "Connection": "close"}


def encode_part(jpeg: bytes) -> bytes:
    """Return one part of a Motion JPEG stream: boundary, header fields and picture."""
    head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode("ascii") + jpeg + b"\r\n"


class Broadcast(Sink):
    """Keep the newest frame of a run and encode it on request; as a sink it never waits for a browser."""

    def __init__(self, controls: Controls, name: str = "camera") -> None:
        self.controls, self.name = controls, name
        self.newest: Shown | None = None
        self.number = 0
        self.ended = False
        self.recent: RecentEvents | None = None  # set when the run begins
        self._changed, self._encoding, self._saving = threading.Condition(), threading.Lock(), threading.Lock()
        self._full = Viewer(controls, name, words=False)
        self._reduced = Viewer(controls, name, longest_side=_LONGEST_SIDE, words=False)
        self._jpegs: dict[str, bytes] = {}  # the newest picture that was encoded, by view: all clients share it
        self._encoded, self.count = -1, 0  # its number; how many were encoded

    def write(self, frame: Frame, separation: Separation) -> None:
        self._put(separation)

    def preview(self, frame: Frame) -> None:
        self._put(frame)

    def close(self) -> None:
        """Keep the last frame until `end`: the page outlives the run."""

    def refresh(self) -> None:
        """Encode the newest frame again, since its view may have changed."""
        with self._changed:
            self.number += 1
            self._changed.notify_all()

    def next_jpeg(self, view: str, number: int = -1, timeout: float | None = None) -> tuple[int, bytes] | None:
        """Wait for a frame newer than `number`; return number and picture (empty if it fails), None without one."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended or self.number > number, timeout)
            if self.ended or self.number <= number:
                return None
            newest = self.number
        try:
            return self._jpeg(view)
        except Exception:  # this must not end the stream
            logger.exception("%s: the view %s cannot be shown", self.name, view)
            return newest, b""

    def png(self, view: str) -> bytes:
        """Return a view of the newest frame in full size."""
        with self._saving:  # not the lock of the streams, which a large picture would delay
            picture = self._full.picture(self.newest, view)
            good, data = cv2.imencode(".png", picture)
        if not good:
            raise SinkError(f"a picture of {picture.shape} cannot be encoded as .png")
        return bytes(data)

    def forget(self) -> None:
        """Show no picture until the next frame, and no events of before."""
        if self.recent is not None:
            self.recent.clear()
        self._put(None)

    def end(self) -> None:
        with self._changed:
            self.ended, self.newest = True, None
            self._changed.notify_all()

    def _jpeg(self, view: str) -> tuple[int, bytes]:
        """Return number and picture of a frame that is at least as new as the newest one at the call."""
        wanted = self.number
        with self._encoding:
            if self._encoded < wanted or view not in self._jpegs:
                number = self.number
                jpeg = jpeg_of(self._reduced.picture(self.newest, view), _QUALITY)
                self._jpegs = {**(self._jpegs if self._encoded == number else {}), view: jpeg}
                self._encoded, self.count = number, self.count + 1
            return self._encoded, self._jpegs[view]

    def _put(self, shown: Shown | None) -> None:
        with self._changed:
            self.newest, self.number = shown, self.number + 1
            self._changed.notify_all()


COUNT = 12  # number of events on the page


class RecentEvents(Sink):
    """Keeps the last motion events that have ended, with a picture of each; read from any thread."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed, self._highlights = feed, Highlights()
        self._lock = threading.Lock()

    def write(self, frame: Frame, separation: Separation) -> None:
        step = self._feed.step(frame, separation)
        with self._lock:
            self._highlights.add(step, separation)
            del self._highlights.kept[:-COUNT]

    def close(self) -> None:
        ended = self._feed.finish_motion()
        with self._lock:
            self._highlights.finish(ended)
            del self._highlights.kept[:-COUNT]

    def clear(self) -> None:
        """Forget all events, also the one that lasts; from any thread."""
        with self._lock:
            self._highlights = Highlights()

    def describe(self) -> list[dict[str, Any]]:
        """Return the events, newest first, in JSON types."""
        with self._lock:
            kept = list(self._highlights.kept)
        return [
            {
                "number": one.event.id,
                "time": _time(one),
                "seconds": _length(one),
                "objects": one.objects,
                "regions": one.regions,
                "clip": one.event.clip is not None,
            }
            for one in reversed(kept)
        ]

    def find(self, number: int) -> Highlight | None:
        """Return an event by its number; None if it is not kept."""
        with self._lock:
            return next((one for one in self._highlights.kept if one.event.id == number), None)


def _time(one: Highlight) -> str:
    event = one.event
    if event.began is not None:
        return event.began[11:19]
    return f"frame {event.start_frame}" if event.start_time is None else clock_text(event.start_time, whole=True)


def _length(one: Highlight) -> float | None:
    start, end = one.event.start_time, one.event.end_time
    return None if start is None or end is None else round(float(end - start), 1)
