"""The sink that writes files of events."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bgsub.errors import ParameterError
from bgsub.events.event import Event
from bgsub.events.feed import REGION_COLUMNS, EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.motion import MotionRules
from bgsub.events.pictures import ObjectPictureSink
from bgsub.events.summary_page import SummarySink
from bgsub.events.tables import COLUMNS, csv_line, csv_row, json_line
from bgsub.separation import Separation
from bgsub.storage.durable_io import AnyPath, GrowingFile
from bgsub.video.output_names import EVENT_FORMATS
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources.base import Frame, FrameSource

FORMATS = ("csv", "jsonl")


class EventSink(Sink):
    """Writes files of objects and events of the whole frame.

    ``csv`` writes ``events.csv``, and ``regions.csv`` if there are regions; ``jsonl`` writes ``events.jsonl`` with the
    tracks. The files are called ``NAME.partial`` until the end; `abort` leaves them.

    Parameters
    ----------
    folder : str or path
        Output folder, created if missing.
    formats : sequence of {"csv", "jsonl"}
        At least one.
    fps : float, optional
        Frames per second for frames without time.
    regions : Regions, optional
        Regions in which objects are counted; with a `feed`, those of its linker are used.
    feed : EventFeed, optional
        Shared with other sinks; by default the sink creates one.
    locate : callable, optional
        Returns the path of a file from its name, such as ``events.csv``; by default in `folder`.

    Raises
    ------
    ParameterError
        If a format is unknown or there is none.
    SinkError
        If a file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> import bgsub
    >>> from bgsub.events import EventSink
    >>> summary = bgsub.process_video("video.mp4", EventSink("events"))
    >>> sorted(path.name for path in Path("events").iterdir())
    ['events.csv', 'events.jsonl']
    """

    def __init__(
        self,
        folder: AnyPath,
        formats: Sequence[str] = FORMATS,
        *,
        fps: float | None = None,
        regions: Regions | None = None,
        feed: EventFeed | None = None,
        locate: Callable[[str], Path] | None = None,
    ) -> None:
        wrong = [name for name in formats if name not in FORMATS]
        if wrong or not formats:
            came = repr(wrong[0]) if wrong else "none"
            raise ParameterError(f"formats of events must be of {', '.join(FORMATS)}, got {came}")
        self.folder = Path(folder)
        self._feed = feed or EventFeed(ObjectLinker(fps, regions=regions))
        locate = locate or self.folder.joinpath
        targets = {name: locate(EVENT_FORMATS[name]) for name in dict.fromkeys(formats)}
        if self._feed.regions.names and "csv" in targets:
            targets["regions"] = locate("regions.csv")
        #: The final paths of the files.
        self.paths = list(targets.values())
        self._files = {name: GrowingFile(path) for name, path in targets.items()}
        self._done = False
        for place in dict.fromkeys(path.parent for path in self.paths):
            prepare_folder(place)

    def write(self, frame: Frame, separation: Separation) -> None:
        if finished := self._feed.step(frame, separation).finished:
            self._append(finished)

    def close(self) -> None:
        if self._done:
            return
        self._done = True  # after an error, nothing is written twice
        self._append(self._feed.finish())
        if "regions" in self._files:
            self._feed.regions.finish()
            self._files["regions"].append("".join(map(csv_row, [REGION_COLUMNS, *self._feed.regions.rows()])))
        for file in self._files.values():
            file.finish()

    def abort(self) -> None:
        self._done = True
        for file in self._files.values():
            file.close()

    def checkpoint(self) -> dict[str, Any]:
        sizes = {name: file.sync() for name, file in self._files.items()}
        return {"feed": self._feed.checkpoint(self), "files": sizes}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore what `checkpoint` returned; ParameterError for other formats, SinkError without the partial files."""
        if set(state["files"]) != set(self._files):
            raise ParameterError(f"event formats must be {', '.join(state['files'])}, got {', '.join(self._files)}")
        self._feed.resume(state["feed"])
        for name, file in self._files.items():
            file.cut(state["files"][name])

    def _append(self, events: list[Event]) -> None:
        """Write a line for each event, in the order of the ends."""
        if file := self._files.get("csv"):
            file.append(("" if file.size else csv_row(COLUMNS)) + "".join(map(csv_line, events)))
        if file := self._files.get("jsonl"):
            file.append("".join(json_line(event, file.path.parent) for event in events))


def make_feed(
    source: FrameSource, rules: MotionRules | None = None, regions: Regions | None = None, **limits: Any
) -> EventFeed:
    """Return the event feed for all sinks of a source; `limits` are parameters of `ObjectLinker`."""
    return EventFeed(ObjectLinker(source.fps, regions=regions, **limits), rules)


def create_event_sinks(
    formats: Sequence[str], source: FrameSource, feed: EventFeed, locate: Callable[[str], Path]
) -> list[Sink]:
    """Return the sinks of `formats`, some of `EVENT_FORMATS`; `locate` returns the path from a name."""
    sinks: list[Sink] = []
    if "pictures" in formats:  # before the events, which refer to them
        sinks.append(ObjectPictureSink(locate(EVENT_FORMATS["pictures"]), feed))
    if lists := [name for name in formats if name in FORMATS]:
        sinks.append(EventSink("", lists, feed=feed, locate=locate))
    if "html" in formats:
        title = source.name if source.path is None else source.path.name
        sinks.append(SummarySink(locate(EVENT_FORMATS["html"]), title, feed=feed))
    return sinks
