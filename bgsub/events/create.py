"""The sinks of events that a run asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from bgsub.errors import ParameterError
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.motion import MotionRules
from bgsub.events.sink import EventSink
from bgsub.events.summary.sink import SummarySink
from bgsub.video.output_names import EVENT_FORMATS
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import FrameSource


def make_feed(source: FrameSource, rules: MotionRules | None = None, regions: Regions | None = None) -> EventFeed:
    """Return the one feed of events for all outputs of a source, at its rate."""
    return EventFeed(ObjectLinker(None if source.fps is None else float(source.fps), regions=regions), rules)


def create_event_sinks(
    output_folder: str | os.PathLike[str],
    formats: Sequence[str],
    source: FrameSource,
    feed: EventFeed,
    regions: Regions | None = None,
    locate: Callable[[str], Path] | None = None,
) -> list[Sink]:
    """Create the files of events.

    Parameters
    ----------
    output_folder : str or path
        Created if missing.
    formats : sequence of {"csv", "jsonl", "coco", "html"}
        Lists, and the page of `SummarySink`; may be empty.
    source : FrameSource
        What the results come from: it gives the title.
    feed : EventFeed
        Shared with the other outputs of the run, see `make_feed`.
    regions : Regions, optional
        Where to count.
    locate : callable, optional
        Returns the path of the file that is called ``events.csv`` and so on; by default it lies in `output_folder`.

    Returns
    -------
    list of Sink

    Raises
    ------
    ParameterError
        If a format is none of the allowed.
    SinkError
        If the folder cannot be written.
    """
    wrong = next((name for name in formats if name not in EVENT_FORMATS), None)
    if wrong is not None:
        raise ParameterError(f"formats of events must be of {', '.join(EVENT_FORMATS)}, got {wrong!r}")
    sinks: list[Sink] = []
    place = locate or Path(output_folder).joinpath
    title = source.name if source.path is None else source.path.name
    lists = [name for name in formats if name != "html"]
    if lists:
        sinks.append(EventSink(output_folder, lists, source=title, regions=regions, feed=feed, locate=place))
    if "html" in formats:
        sinks.append(SummarySink(place(EVENT_FORMATS["html"]), title, regions=regions, feed=feed))
    return sinks
