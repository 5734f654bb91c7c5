"""A part of a source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from bgsub.video.sources.base import FilePart, Frame, FrameSource
from bgsub.video.timecode import Part, Place, Selection


class SelectedSource(FrameSource):
    """Some of the frames of a source, each with the index, name and time it has there.

    What is left out is not converted, and where the source allows it not even decoded. Of a live source the
    part counts from its first frame. Damage among frames that are left out is met all the same where they
    have to be decoded.

    Parameters
    ----------
    source : FrameSource
        Where the frames come from; closed together with the part.
    start : Timecode, str, int or float, optional
        First frame, as `bgsub.video.timecode.Timecode.parse` takes it: an int or digits are a frame number from 0,
        anything else is a time; by default the beginning.
    end : Timecode, str, int or float, optional
        The frame before which the part ends; by default the end.
    duration : Timecode, str, int or float, optional
        How many frames (int) or seconds from the start on; not beside `end`.
    every : int
        Of each `every` frames the first is taken, counted from the start of the part.

    Raises
    ------
    ParameterError
        If a place cannot be understood, `every` is below 1, `end` comes with `duration` or does not lie behind
        `start`; while iterating, if seconds are asked for and the frames have no times.
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

    @property
    def size(self) -> tuple[int, int]:
        return self._source.size

    @property
    def fps(self) -> Fraction | None:
        """Frames per second that are left; None if unknown."""
        fps = self._source.fps
        return None if fps is None else fps / self._selection.every

    @property
    def length(self) -> int | None:
        """Number of frames, estimated from the length and the rate of the source; None if unknown."""
        return self._selection.count(self._source.fps, self._source.length)

    @property
    def is_variable_rate(self) -> bool:
        return self._source.is_variable_rate

    @property
    def has_audio(self) -> bool:
        return self._source.has_audio

    @property
    def paths(self) -> Sequence[Path]:
        return self._source.paths

    @property
    def files(self) -> Sequence[FilePart]:
        return self._source.files

    @property
    def is_copyable(self) -> bool:
        return self._source.is_copyable

    @property
    def is_retimed(self) -> bool:
        return self._source.is_retimed

    @property
    def skipped(self) -> int:
        """Frames that could not be read in the last iteration."""
        return self._source.skipped

    @skipped.setter
    def skipped(self, count: int) -> None:
        self._source.skipped = count

    @property
    def dropped(self) -> int:
        return self._source.dropped

    def cancel(self) -> None:
        self._source.cancel()

    def close(self) -> None:
        super().close()
        self._source.close()

    def _frames(self) -> Iterator[Frame]:
        part = Part(self._selection, self.name)
        yield from self._source.take(part)
        part.check()
