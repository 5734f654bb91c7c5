"""A part of a source."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.timecode import Part, Place, Selection


def _of_source(name: str) -> Any:
    return property(lambda self: getattr(self._source, name), doc=getattr(FrameSource, name).__doc__)


class SelectedSource(FrameSource):
    """A part of the frames of a source, with their indices, names and times in that source.

    Other frames are not converted and, where possible, not decoded; damage in frames that must be decoded is reported.
    The part of a live source counts from its first frame.

    Parameters
    ----------
    source : FrameSource
        Source of the frames; closed together with the part.
    start : Timecode, str, int or float, optional
        First frame: an int or digits are a frame number from 0, anything else is a time (see
        `bgsub.video.timecode.Timecode.parse`).
    end : Timecode, str, int or float, optional
        The frame before which the part ends.
    duration : Timecode, str, int or float, optional
        Number of frames (int) or seconds; not together with `end`.
    every : int
        Take the first of each `every` frames, counted from the start of the part.

    Raises
    ------
    ParameterError
        If a place is invalid, `every` is below 1, `end` is given with `duration` or does not come after `start`; while
        iterating, if a place is in seconds and the frames have no times.
    SourceError
        While iterating, if the source ends before the part begins.
    """

    def __init__(
        self,
        source: FrameSource,
        start: Place | None = None,
        end: Place | None = None,
        duration: Place | None = None,
        every: int = 1,
    ) -> None:
        self._source = source
        self._selection = Selection.parse(start, end, duration, every)
        super().__init__(source.name, source.on_error)
        self.live, self.numbered = source.live, source.numbered
        self.path: Path | None = source.path

    size = _of_source("size")
    is_variable_rate = _of_source("is_variable_rate")
    has_audio = _of_source("has_audio")
    paths = _of_source("paths")
    files = _of_source("files")
    is_copyable = _of_source("is_copyable")
    is_retimed = _of_source("is_retimed")
    dropped = _of_source("dropped")

    @property
    def fps(self) -> Fraction | None:
        """Frames per second of the part; None if unknown."""
        fps = self._source.fps
        return None if fps is None else fps / self._selection.every

    @property
    def length(self) -> int | None:
        """Number of frames, estimated from the length and frame rate of the source; None if unknown."""
        return self._selection.count(self._source.fps, self._source.length)

    @property
    def skipped(self) -> int:
        """Number of frames that could not be read in the last iteration."""
        return self._source.skipped

    @skipped.setter
    def skipped(self, count: int) -> None:
        self._source.skipped = count

    def cancel(self) -> None:
        self._source.cancel()

    def close(self) -> None:
        super().close()
        self._source.close()

    def _frames(self) -> Iterator[Frame]:
        part = Part(self._selection, self.name)
        yield from self._source.take(part)
        part.check()
