"""Snapshots: one frame of a live run as pictures, when somebody asks for it."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from bgsub.errors import SinkError
from bgsub.jobs.controls import Controls
from bgsub.live.viewer import Viewer
from bgsub.separation import Separation
from bgsub.video.sinks.base import Sink
from bgsub.video.sinks.images import write_image
from bgsub.video.sources.base import Frame

logger = logging.getLogger("bgsub")


class SnapshotSink(Sink):
    """Stores the frame at hand when `Controls.request_snapshot` asks for it.

    The pictures are ``snapshot-TIME-FRAME-VIEW.png`` for the view that is shown, in full size and without words, and
    for the mask and the background. A failure is logged and shown; it does not end the run.

    Parameters
    ----------
    controls : Controls
        Where the request and the view come from, and the notice goes.
    folder : str or path
        Where the pictures go.
    name : str
        What stands before the time; cameras of one run need different ones.
    """

    def __init__(self, controls: Controls, folder: str | os.PathLike[str] = ".", name: str = "snapshot") -> None:
        self._controls, self._folder, self._name = controls, Path(folder), name
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
        paths = [self._folder / f"{stem}-{view}.png" for view in views]
        try:
            for view, path in zip(views, paths, strict=True):
                write_image(path, separation.mask if view == "mask" else self._viewer.view(separation, view))
        except SinkError as error:
            logger.warning("no snapshot: %s", error)
            self._controls.notice = "no snapshot: it cannot be written"
        else:
            logger.info("snapshot: %s", ", ".join(map(str, paths)))
            self._controls.notice = f"snapshot: {stem}"
            if self._controls.on_snapshot is not None:
                self._controls.on_snapshot(frame, paths[0])
