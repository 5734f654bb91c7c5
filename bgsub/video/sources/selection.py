"""Sources made of another source: a part of its frames, or its frames without privacy regions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.video.regions import Region, Regions, bounding_box
from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.timecode import Part, Place, Selection


def _of_source(name: str) -> Any:
    return property(lambda self: getattr(self._source, name), lambda self, value: setattr(self._source, name, value))


class SelectedSource(FrameSource):
    """A part of the frames of a source, with their indices, names and times in that source.

    The other frames are not converted and, where possible, not decoded. The part of a live source counts from its first
    frame. Closing it closes the source.
    """

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
        self.path, self.files = source.path, source.files

    size = _of_source("size")
    is_variable_rate = _of_source("is_variable_rate")
    paths = _of_source("paths")
    is_copyable = _of_source("is_copyable")
    is_retimed = _of_source("is_retimed")
    dropped = _of_source("dropped")
    skipped = _of_source("skipped")

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


class PrivateSource(SelectedSource):
    """The frames of a source with privacy regions blacked out before processing.

    So neither pictures nor models contain these regions. The sound is not changed.

    Parameters
    ----------
    source : FrameSource
        Source of the frames; closed together with this one, also if a region is invalid.
    regions : iterable of Region or str
        See `Regions`.

    Raises
    ------
    ParameterError
        If a region is invalid or outside of the frame; while iterating, if it is for frames of another size.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.video import PrivateSource
    >>> with PrivateSource(bgsub.open_source("video.mp4"), ["window=0,0,50%,100%"]) as source:
    ...     print(max(frame.image[:, :32].max() for frame in source))
    0
    """

    is_copyable = False  # copied packets would show the privacy regions

    def __init__(self, source: FrameSource, regions: Iterable[Region | str]) -> None:
        super().__init__(source)
        self._shape: tuple[int, ...] = ()
        try:
            self._regions = Regions(regions)
            self._fit(source.size[::-1])
        except BaseException:
            source.close()
            raise

    def _frames(self) -> Iterator[Frame]:
        return map(self._blackened, self._source)

    def _part(self, part: Part) -> Iterator[Frame]:
        return map(self._blackened, self._source.take(part))

    def _fit(self, shape: tuple[int, ...]) -> None:
        """Compute the mask for frames of that height and width."""
        try:
            hidden = self._regions.union(shape)
        except ParameterError as error:
            raise ParameterError(f"privacy: {error}") from None
        self._shape, self._box = shape, bounding_box(hidden)
        self._hidden = hidden[self._box]

    def _blackened(self, frame: Frame) -> Frame:
        if frame.image.shape[:2] != self._shape:
            self._fit(frame.image.shape[:2])
        image = frame.image.copy()
        hidden = self._hidden if image.ndim == 2 else self._hidden[:, :, np.newaxis]
        np.copyto(image[self._box], 0, where=hidden)
        return replace(frame, image=image)
