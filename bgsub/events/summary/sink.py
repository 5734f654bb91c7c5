"""The sink that writes the summary of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.events._state import dump, load
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.region_counts import RegionCounter
from bgsub.events.summary.highlights import LONGEST
from bgsub.events.summary.page import Summary, summary_page
from bgsub.events.summary.timeline import Timeline
from bgsub.separation import Separation
from bgsub.storage.durable_io import write_whole
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources.base import Frame
from bgsub.video.views import to_uint8
from bgsub.video.web_page import shrunk


class SummarySink(Sink):
    """Writes a web page with a timeline, a heat map and a picture of each motion event.

    The page is one file that loads nothing. It has at most 200 pictures, of the events with the most motion. Times
    are those of the source, the time of day for cameras, or frames if neither the frames nor `fps` give a time.

    Parameters
    ----------
    path : str or path
        The file, ``.html``; its folder is created if missing.
    title : str
        Heading, such as the name of the source.
    fps : float, optional
        Frames per second for frames without time.
    regions : Regions, optional
        Regions in which objects are counted.
    feed : EventFeed, optional
        Shared with other sinks; by default the sink creates one.

    Raises
    ------
    ParameterError
        If the file name does not end in ``.html``.
    SinkError
        If the file cannot be written.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.events import SummarySink
    >>> summary = bgsub.process_video("video.mp4", SummarySink("summary.html", "the street"))
    >>> "the street" in open("summary.html", encoding="utf-8").read()
    True
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        title: str = "",
        *,
        fps: float | None = None,
        regions: Regions | None = None,
        feed: EventFeed | None = None,
    ) -> None:
        self.path, self._title = Path(path), title
        if self.path.suffix.lower() != ".html":
            raise ParameterError(f"a summary is a file .html, got '{self.path}'")
        self._feed = feed or EventFeed(ObjectLinker(fps, regions=regions))
        self._counter = RegionCounter(regions)
        self._summary = Summary(Timeline(self._counter.names))
        self._newest: np.ndarray | None = None  # background
        self._done = False
        prepare_folder(self.path.parent)

    def write(self, frame: Frame, separation: Separation) -> None:
        step, summary = self._feed.step(frame, separation), self._summary
        summary.facts.add(frame, step, separation)
        summary.timeline.add(step, separation)
        summary.timeline.add_counts(self._counter.step(step))
        summary.heat.add(separation)
        summary.highlights.add(step, separation)
        self._newest = separation.background

    def close(self) -> None:
        """Write the page, also after a run without frames."""
        if self._done:
            return
        summary, last = self._summary, self._feed.finish_motion()
        summary.highlights.finish(last)
        summary.timeline.add_events([*self._feed.finish(), *last])
        summary.timeline.add_counts(self._counter.finish())
        self._keep_background()
        write_whole(self.path, summary_page(self.path, self._title, summary, self._counter.rows()))
        self._done = True

    def abort(self) -> None:
        self._done = True

    def checkpoint(self) -> dict[str, Any]:
        self._keep_background()
        feed = self._feed.checkpoint(self)
        return {"feed": feed, "counter": self._counter.state(), "summary": dump(self._summary)}

    def resume(self, state: dict[str, Any]) -> None:
        if state:
            self._feed.resume(state["feed"])
            self._counter.set_state(state["counter"])
            self._summary = load(Summary, state["summary"])

    def _keep_background(self) -> None:
        """Reduce the newest background to the size of the heat map."""
        if self._newest is not None:
            self._summary.background, self._newest = shrunk(to_uint8(self._newest), LONGEST), None
