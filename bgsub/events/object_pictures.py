"""Pictures of objects: the best sight of each."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import logger
from bgsub.events.event import Event, EventKind, ObjectInFrame
from bgsub.events.feed import EventFeed
from bgsub.separation import Separation
from bgsub.storage.durable_io import as_sink_error, partial_name, sync_files, sync_folder, write_whole
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources.base import Frame
from bgsub.video.views import to_bgr8
from bgsub.video.web_page import THUMBNAIL, jpeg_of, shrunk

#: Most pictures of a run.
MOST = 20_000

_MARGIN, _LEAST_SIDE = 0.25, 0.2  # of the larger side of the box, around it; of the shorter side of the frame
_BETTER = 1.1  # ratio of the scores from which a sight replaces another one
_AT_BORDER = 0.3  # of the score of an object that touches the border of the frame
_SHARP = 300.0  # variance of the Laplacian of a sharp picture
_QUALITY = 85
_NAME = re.compile(r"\d{6}\.jpg")


@dataclass
class _Best:
    """The best sight of an object so far."""

    score: float
    jpeg: bytes


class ObjectPictureSink(Sink):
    """Writes a picture of each object, ``000012.jpg``: its largest, sharpest sight away from the edge of the frame."""

    def __init__(self, folder: Path, feed: EventFeed) -> None:
        self.folder, self._feed = folder, feed
        self._best: dict[int, _Best] = {}
        self._written = 0
        self._done = False
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
        self._sync()
        with as_sink_error(self.folder):
            for folder in (self._partial, self.folder):
                for path in folder.glob("*.jpg"):
                    if _NAME.fullmatch(path.name) and int(path.stem) > self._written and path.is_file():
                        path.unlink(missing_ok=True)
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

    def checkpoint(self) -> dict[str, Any]:
        self._sync()
        best = {number: [one.score, base64.b64encode(one.jpeg).decode()] for number, one in self._best.items()}
        return {"feed": self._feed.checkpoint(self), "best": best, "written": self._written}

    def resume(self, state: dict[str, Any]) -> None:
        if state:
            self._feed.resume(state["feed"])
            self._best = {
                int(key): _Best(score, base64.b64decode(jpeg)) for key, (score, jpeg) in state["best"].items()
            }
            self._written = state["written"]

    def _sync(self) -> None:
        paths, self._not_synced = self._not_synced, []
        with as_sink_error(self.folder):
            sync_files(paths)
            sync_folder(self._partial)

    def _see(self, one: ObjectInFrame, image: np.ndarray) -> None:
        """Keep the picture of a sight if it is the best one so far."""
        x, y, w, h = one.box
        rows, columns = image.shape[:2]
        is_whole = x > 0 and y > 0 and x + w < columns and y + h < rows
        most = 2 * one.area * (1 if is_whole else _AT_BORDER)
        best = self._best.get(one.id)
        if best is not None and most < _BETTER * best.score:
            return
        margin = round(max(_MARGIN * max(w, h), (_LEAST_SIDE * min(rows, columns) - min(w, h)) / 2))
        part = to_bgr8(image[max(y - margin, 0) : y + h + margin, max(x - margin, 0) : x + w + margin])
        sharpness = min(float(cv2.Laplacian(cv2.cvtColor(part, cv2.COLOR_BGR2GRAY), cv2.CV_32F).var()) / _SHARP, 1)
        score = most * (1 + sharpness) / 2
        if best is None or score > _BETTER * best.score:
            self._best[one.id] = _Best(score, jpeg_of(shrunk(part, THUMBNAIL), _QUALITY))

    def _store(self, finished: list[Event]) -> None:
        """Write the pictures of objects that have ended."""
        for event in finished:
            best = self._best.pop(event.id, None) if event.kind == EventKind.OBJECT else None
            if best is None:
                continue
            if event.id > MOST:
                if event.id == MOST + 1:
                    logger.warning("only the first %d objects get pictures", MOST)
                continue
            path = self._partial / f"{event.id:06d}.jpg"
            write_whole(path, best.jpeg, durable=False)
            self._not_synced.append(path)
            event.picture = str(self.folder / path.name)
            self._written = max(self._written, event.id)
