"""A run at a glance."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.events._pack import pack, unpack
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.region_counts import RegionCounter
from bgsub.events.summary.cards import Cards
from bgsub.events.summary.course import Course
from bgsub.events.summary.heat_map import LONGEST, HeatMap
from bgsub.events.summary.page import Summary
from bgsub.events.summary.timeline import Timeline
from bgsub.separation import Separation
from bgsub.storage.durable_io import write_whole
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources.base import Frame
from bgsub.video.views import to_uint8
from bgsub.video.web_page import shrunk


class SummarySink(Sink):
    """Writes one page of HTML: a timeline, where things moved, and a picture of each moment with motion.

    All is in the one file, which takes neither a server nor anything from elsewhere; 200 pictures, those of the
    moments with most motion, are the most it holds. Times are those of the source, of the day for cameras, or frames
    where neither frames nor `fps` tell the time.

    Parameters
    ----------
    path : str or path
        The file, ``.html``; its folder is created if missing.
    title : str
        What stands above, such as the name of the source.
    fps : float, optional
        Frames per second where frames have no time.
    regions : Regions, optional
        Where to count.
    feed : EventFeed, optional
        Shared with other sinks; by default one of its own.

    Raises
    ------
    ParameterError
        If the file is no ``.html``.
    SinkError
        If it cannot be written.

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
        self.path = Path(path)
        if self.path.suffix.lower() != ".html":
            raise ParameterError(f"a summary is a file .html, got '{self.path}'")
        self._feed = feed or EventFeed(ObjectLinker(fps, regions=regions))
        self._timeline = Timeline(title, () if regions is None else regions.names)
        self._counter = None if regions is None else RegionCounter(regions)
        self._course, self._cards, self._heat = Course(), Cards(), HeatMap()
        self._background: np.ndarray | None = None
        self._newest: np.ndarray | None = None
        self._done = False
        prepare_folder(self.path.parent)

    def write(self, frame: Frame, separation: Separation) -> None:
        step = self._feed.step(frame, separation)
        self._course.add(frame, step, separation)
        self._timeline.add(step, separation)
        if self._counter is not None:
            self._timeline.add_counts(self._counter.step(step))
        self._heat.add(separation)
        self._cards.add(step, separation)
        self._newest = separation.background

    def close(self) -> None:
        """Write the page, also of a run without frames."""
        if self._done:
            return
        last = self._feed.finish_motion()
        self._cards.finish(last)
        self._timeline.add_events([*self._feed.finish(), *last])
        if self._counter is not None:
            self._timeline.add_counts(self._counter.finish())
        rows = [] if self._counter is None else self._counter.rows()
        parts = self._course, self._timeline, self._cards, self._heat, self._reduced_background(), rows
        write_whole(self.path, Summary(self.path, *parts).page())
        self._done = True

    def abort(self) -> None:
        self._done = True

    def checkpoint(self) -> dict[str, Any]:
        background = self._reduced_background()
        return {
            "feed": self._feed.checkpoint(self),
            "counter": None if self._counter is None else self._counter.state(),
            "timeline": self._timeline.state(),
            "course": self._course.state(),
            "cards": self._cards.state(),
            "heat": self._heat.state(),
            "background": None if background is None else pack(background),
        }

    def resume(self, state: dict[str, Any]) -> None:
        if not state:
            return
        self._feed.resume(state["feed"])
        if self._counter is not None:
            self._counter.set_state(state["counter"])
        self._timeline.set_state(state["timeline"])
        self._course = Course(**state["course"])
        self._cards.set_state(state["cards"])
        self._heat.set_state(state["heat"])
        self._background = None if state["background"] is None else unpack(state["background"])

    def _reduced_background(self) -> np.ndarray | None:
        """Return the newest background in the size of the heat map."""
        if self._newest is not None:
            self._background, self._newest = shrunk(to_uint8(self._newest), LONGEST), None
        return self._background
