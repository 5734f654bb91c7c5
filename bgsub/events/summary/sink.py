"""The summary of a run as a web page, and the sink that writes it; ``templates/summary.html`` draws it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from bgsub.errors import counted
from bgsub.events._state import dump, load
from bgsub.events.event import Event
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.summary.facts import RunFacts, TimeAxis
from bgsub.events.summary.highlights import LONGEST, HeatMap, Highlights, draw_heat_map
from bgsub.separation import Separation
from bgsub.storage.durable_io import write_whole
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink, path_with_ending, prepare_folder
from bgsub.video.sources.base import Frame
from bgsub.video.views import to_uint8
from bgsub.video.web_page import jpeg_of, render, shrunk

_MAP_QUALITY = 88


@dataclass
class Summary:
    """The contents of the page."""

    facts: RunFacts = field(default_factory=RunFacts)
    highlights: Highlights = field(default_factory=Highlights)
    heat: HeatMap = field(default_factory=HeatMap)
    background: np.ndarray | None = None  # (h, w) or (h, w, 3), uint8, of the size of the heat map


def summary_page(path: Path, title: str, summary: Summary, regions: list[list[Any]]) -> bytes:
    """Return the page; `path` is its file, `regions` are the rows of `RegionCounter`."""
    return render(
        "summary.html",
        title=title or "Summary",
        facts=summary.facts,
        highlights=summary.highlights,
        axis=TimeAxis(summary.facts),
        heat_map=_heat_map(summary.heat.share(), summary.background),
        regions=[[*map(_cell, row[:-1]), _percent(float(row[-1]))] for row in regions],
        count=counted,
        clip_link=partial(_clip_link, path.parent),
    )


def _heat_map(share: np.ndarray | None, background: np.ndarray | None) -> dict[str, Any] | None:
    if share is None or background is None:
        return None
    top = float(share.max())
    y, x = (int(place) for place in np.unravel_index(int(share.argmax()), share.shape))
    where = f"{x / share.shape[1]:.0%} from the left and {y / share.shape[0]:.0%} from above"
    most = f"most, {_percent(top)}, at {where}" if top else "nothing moved"
    return {
        "text": f"Heat map of motion over the background: {most}",
        "jpeg": jpeg_of(draw_heat_map(share, background), _MAP_QUALITY),
        "most": _percent(top),
    }


def _clip_link(folder: Path, event: Event) -> str:
    """Return the link from a page in `folder` to the clip of an event; empty without a clip."""
    clip = "" if event.clip is None else Path(os.path.relpath(event.clip, folder)).as_posix()
    return quote(clip, errors="surrogateescape")


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


class SummarySink(Sink):
    """Writes a web page with a time line, a heat map and a picture of each motion event.

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
        Regions in which objects are counted; with a `feed`, those of its linker are used.
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
        self.path, self._title = path_with_ending(path, "a summary", (".html",)), title
        self._feed = feed or EventFeed(ObjectLinker(fps, regions=regions))
        self._summary = Summary()
        self._newest: np.ndarray | None = None  # background
        self._done = False
        prepare_folder(self.path.parent)

    def write(self, frame: Frame, separation: Separation) -> None:
        step, summary = self._feed.step(frame, separation), self._summary
        summary.facts.add(frame, step, separation)
        summary.heat.add(separation)
        summary.highlights.add(step, separation)
        self._newest = separation.background

    def close(self) -> None:
        """Write the page, also after a run without frames."""
        if self._done:
            return
        summary = self._summary
        summary.highlights.finish(self._feed.finish_motion())
        summary.facts.add_events(self._feed.finish())
        self._feed.regions.finish()
        self._keep_background()
        write_whole(self.path, summary_page(self.path, self._title, summary, self._feed.regions.rows()))
        self._done = True

    def abort(self) -> None:
        self._done = True

    def checkpoint(self) -> dict[str, Any]:
        self._keep_background()
        return {"feed": self._feed.checkpoint(self), "summary": dump(self._summary)}

    def resume(self, state: dict[str, Any]) -> None:
        if state:
            self._feed.resume(state["feed"])
            self._summary = load(Summary, state["summary"])

    def _keep_background(self) -> None:
        """Reduce the newest background to the size of the heat map."""
        if self._newest is not None:
            self._summary.background, self._newest = shrunk(to_uint8(self._newest), LONGEST), None
