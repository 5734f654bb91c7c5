"""A part of a source."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.timecode import Part, Place, Selection


def _of_source(name: str, doc: str | None = None) -> Any:
    doc = doc or getattr(FrameSource, name).__doc__
    return property(
        lambda self: getattr(self._source, name), lambda self, value: setattr(self._source, name, value), doc=doc
    )


class SelectedSource(FrameSource):
    """A part of the frames of a source, with their indices, names and times there; it closes the source."""

    def __init__(
        self,
        source: FrameSource,
        start: Place | None = None,
        end: Place | None = None,
        duration: Place | None = None,
        every: int = 1,
    ) -> None:
        self._source, self._selection = source, Selection.parse(start, end, duration, every)
        super().__init__(source.name, source.on_error)
        self.live, self.numbered, self.has_audio = source.live, source.numbered, source.has_audio
        self.path, self.files, self.restartable = source.path, source.files, source.restartable

    size = _of_source("size")
    paths = _of_source("paths")
    is_copyable = _of_source("is_copyable")
    is_retimed = _of_source("is_retimed")
    dropped = _of_source("dropped")
    skipped = _of_source("skipped", "Number of frames that could not be read in the last iteration.")

    @property
    def fps(self) -> Fraction | None:
        """Frames per second of the part; None if unknown."""
        fps = self._source.fps
        return None if fps is None else fps / self._selection.every

    @property
    def length(self) -> int | None:
        """Number of frames, estimated from the length and frame rate of the source; None if unknown."""
        return self._selection.count(self._source.fps, self._source.length)

    def cancel(self) -> None:
        self._source.cancel()

    def close(self) -> None:
        super().close()
        self._source.close()

    def _frames(self) -> Iterator[Frame]:
        part = Part(self._selection, self.name)
        yield from self._source.take(part)
        part.check()
