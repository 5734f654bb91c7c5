"""A run as one picture."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bgsub.errors import ParameterError, SinkError, import_optional
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.region_counts import RegionCounter
from bgsub.events.timeline import Timeline, longest
from bgsub.separation import Separation
from bgsub.storage.atomic import replacing
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sources.base import Frame


class TimelineSink(Sink):
    """Draws a run over time as a PNG: foreground, coefficients, events, objects, and objects by region.

    The axis has seconds, or frames where neither frames nor `fps` tell the time. Long runs keep the smallest
    and the largest value of each stretch of time.

    Parameters
    ----------
    path : str or path
        The file, ``.png``; its folder is created if missing.
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
    DependencyError
        If matplotlib is missing.
    ParameterError
        If the file is no ``.png``.
    SinkError
        If it cannot be written.
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
        # What is missing shows before the work.
        import_optional("matplotlib", "a timeline needs the package matplotlib: pip install 'bgsub[plot]'")
        self.path = Path(path)
        if self.path.suffix.lower() != ".png":
            raise ParameterError(f"a timeline is a file .png, got '{self.path}'")
        self.timeline = Timeline(title, () if regions is None else regions.names)
        self._feed = feed or EventFeed(ObjectLinker(fps, regions=regions))
        self._counter = None if regions is None else RegionCounter(regions)
        self._done = False
        prepare_folder(self.path.parent)

    def write(self, frame: Frame, separation: Separation) -> None:
        step = self._feed.step(frame, separation)
        self.timeline.add(step, separation)
        if self._counter is not None:
            self.timeline.add_counts(self._counter.step(step))

    def close(self) -> None:
        """Draw the picture; without any frame there is none."""
        if self._done:
            return
        self.timeline.add_events(self._feed.finish())
        if self._counter is not None:
            self.timeline.add_counts(self._counter.finish())
        if self.timeline.share.points()[0].size:
            self._draw()
        self._done = True

    def abort(self) -> None:
        self._done = True

    def checkpoint(self) -> dict[str, Any]:
        counter = None if self._counter is None else self._counter.state()
        return {"feed": self._feed.checkpoint(self), "counter": counter, **self.timeline.state()}

    def resume(self, state: dict[str, Any]) -> None:
        if not state:
            return
        self._feed.resume(state["feed"])
        if self._counter is not None:
            self._counter.set_state(state["counter"])
        self.timeline.set_state(state)

    def _draw(self) -> None:
        from bgsub.events.drawing import draw  # noqa: PLC0415 - it brings matplotlib along

        self.timeline.bars = longest(self.timeline.bars)
        try:
            with replacing(self.path) as partial:
                draw(self.timeline, partial)
        except OSError as error:
            raise SinkError(f"'{self.path}' cannot be written: {error.strerror or error}") from None
