"""The summary of a run as a web page, and the sink that writes it; ``templates/summary.html`` draws it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np

from bgsub.errors import counted
from bgsub.events._state import dump, load
from bgsub.events.event import OBJECT, Event, Step
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.pictures import LONGEST, HeatMap, Highlights, draw_heat_map
from bgsub.separation import Separation
from bgsub.storage.durable_io import AnyPath, write_whole
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink, path_with_ending, prepare_folder
from bgsub.video.sources.base import Frame
from bgsub.video.timecode import clock_text
from bgsub.video.views import to_uint8
from bgsub.video.web_page import jpeg_of, link, render, shrunk

_MAP_QUALITY = 88

MOST_MARKS = 400  # most events of the whole frame on a page: the first ones
_LAST_BAR = 99.8  # per cent of the axis: a short bar further to the right would stick out


@dataclass
class RunFacts:
    """Numbers and events of a run."""

    frames: int = 0
    width: int = 0  # of the frames
    height: int = 0
    first: int = 0  # index of the first and the last frame
    last: int = 0
    stride: int = 0  # greatest common divisor of the distances of indices
    begin: float = 0.0  # start of the first frame and end of the last one on `Step.clock`
    end: float = 0.0
    timed: bool = True  # whether the time of all frames is known
    began: str | None = None  # when the first frame of a camera arrived, ISO with the time zone
    total: float = 0.0  # sum of the foreground shares
    tracked: bool = False  # whether the start phase has ended
    objects: int = 0
    whole: dict[str, int] = field(default_factory=dict)  # number of events of the whole frame, by kind
    marks: list[Event] = field(default_factory=list)  # the first of them that have ended

    def add(self, frame: Frame, step: Step, separation: Separation) -> None:
        if self.frames == 0:
            self.height, self.width = separation.mask.shape
            self.first = self.last = frame.index
            self.begin = step.clock
            self.began = None if frame.arrived is None else frame.arrived.isoformat()
        self.stride = math.gcd(self.stride, frame.index - self.last)
        self.last, self.end = frame.index, step.clock + step.interval
        self.timed &= step.time is not None
        self.frames += 1
        self.total += separation.share
        self.tracked |= separation.phase == "tracking"
        for event in step.begun:
            self.whole[event.kind] = self.whole.get(event.kind, 0) + 1
        self.add_events(step.finished)

    def add_events(self, finished: Iterable[Event]) -> None:
        """Add objects and events of the whole frame that have ended."""
        for event in finished:
            if event.kind == OBJECT:
                self.objects += 1
            elif len(self.marks) < MOST_MARKS:
                self.marks.append(event)

    @property
    def missing(self) -> int:
        """Number of frames between the first and the last one that were dropped or unreadable."""
        return (self.last - self.first) // max(self.stride, 1) + 1 - self.frames if self.frames else 0


class TimeAxis:
    """Names of times: time of day for a camera, time in the file, or frames."""

    def __init__(self, facts: RunFacts) -> None:
        self._timed = facts.timed
        self.began = None if facts.began is None else datetime.fromisoformat(facts.began)
        self.start = facts.begin if facts.timed else float(facts.first)
        self.end = facts.end if facts.timed else float(facts.last + 1)

    def span(self, event: Event) -> tuple[float, float]:
        """Return the places of start and end of an event."""
        if self._timed and event.start_time is not None and event.end_time is not None:
            return float(event.start_time), float(event.end_time)
        return event.start_frame, event.end_frame

    def at(self, place: float) -> str:
        if not self._timed:
            return f"frame {place:.0f}"
        if self.began is None:
            return clock_text(place, whole=True)
        date, first, last = (
            (self.began + timedelta(seconds=seconds - self.start)).astimezone()  # summer time may have begun or ended
            for seconds in (place, self.start, self.end)
        )
        return f"{date:%H:%M:%S}" if first.date() == last.date() else f"{date:%m-%d %H:%M:%S}"

    def length(self, amount: float) -> str:
        if not self._timed:
            return f"{amount:.0f} frames"
        return f"{amount:.1f} s" if amount < 60 else clock_text(amount, whole=True)

    def style(self, event: Event) -> str:
        """Return the place of an event on the time line as CSS."""
        left, right = (100 * (place - self.start) / ((self.end - self.start) or 1) for place in self.span(event))
        return f"left:{min(left, _LAST_BAR):.2f}%;width:{right - left:.2f}%"


@dataclass
class Summary:
    """The contents of the page."""

    facts: RunFacts = field(default_factory=RunFacts)
    highlights: Highlights = field(default_factory=Highlights)
    heat: HeatMap = field(default_factory=HeatMap)
    background: np.ndarray | None = None  # (h, w) or (h, w, 3), uint8, of the size of the heat map


def _heat_map(share: np.ndarray | None, background: np.ndarray | None) -> dict[str, Any] | None:
    if share is None or background is None:
        return None
    y, x = (int(place) for place in np.unravel_index(int(share.argmax()), share.shape))
    jpeg = jpeg_of(draw_heat_map(share, background), _MAP_QUALITY)
    return {"most": 100 * share[y, x], "x": 100 * (x / share.shape[1]), "y": 100 * (y / share.shape[0]), "jpeg": jpeg}


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
    fps, regions, feed : optional
        As for `EventSink`.

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
        path: AnyPath,
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
        page = render(
            "summary.html",
            title=self._title or "Summary",
            facts=summary.facts,
            highlights=summary.highlights,
            axis=TimeAxis(summary.facts),
            heat_map=_heat_map(summary.heat.share(), summary.background),
            regions=self._feed.regions.rows(),
            count=counted,
            link=partial(link, self.path.parent),
        )
        write_whole(self.path, page)
        self._done = True

    def abort(self) -> None:
        self._done = True

    def checkpoint(self) -> dict[str, Any]:
        self._keep_background()
        return {"feed": self._feed.checkpoint(self), "summary": dump(self._summary)}

    def resume(self, state: dict[str, Any]) -> None:
        self._feed.resume(state["feed"])
        self._summary = load(Summary, state["summary"])

    def _keep_background(self) -> None:
        """Reduce the newest background to the size of the heat map."""
        if self._newest is not None:
            self._summary.background, self._newest = shrunk(to_uint8(self._newest), LONGEST), None
