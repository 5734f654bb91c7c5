"""Privacy regions, blacked out before processing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from bgsub.errors import ParameterError
from bgsub.video.regions import Region, Regions, bounding_box
from bgsub.video.sources.base import Frame, FrameSource
from bgsub.video.sources.selection import SelectedSource
from bgsub.video.timecode import Part


class PrivateSource(SelectedSource):
    """The frames of a source with privacy regions blacked out before processing.

    So neither pictures nor models contain these regions. The sound is not changed.

    Parameters
    ----------
    source : FrameSource
        Source of the frames; closed together with this one, also if a region is invalid.
    regions : iterable of Region or str
        See `Regions`; may be none.

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
        self._hidden: np.ndarray | None = None
        try:
            self._regions = Regions.of(list(regions))
            self._fit(source.size[::-1])
        except BaseException:
            source.close()
            raise

    def replace(self, regions: Sequence[Region | str]) -> None:
        """Black out other regions from the next frame on; from any thread. ParameterError if one is invalid."""
        self._regions, self._shape = Regions.of(regions), ()

    def _frames(self) -> Iterator[Frame]:
        return map(self._blackened, self._source)

    def _part(self, part: Part) -> Iterator[Frame]:
        return map(self._blackened, self._source.take(part))

    def _fit(self, shape: tuple[int, ...]) -> None:
        """Compute the mask for frames of that height and width."""
        try:
            regions = self._regions
            hidden = None if regions is None else regions.union(shape)
        except ParameterError as error:
            raise ParameterError(f"privacy: {error}") from None
        self._shape, self._hidden = shape, None
        if hidden is not None:
            self._box = bounding_box(hidden)
            self._hidden = hidden[self._box]

    def _blackened(self, frame: Frame) -> Frame:
        if frame.image.shape[:2] != self._shape:
            self._fit(frame.image.shape[:2])
        if self._hidden is None:
            return frame
        image = frame.image.copy()
        hidden = self._hidden if image.ndim == 2 else self._hidden[:, :, np.newaxis]
        np.copyto(image[self._box], 0, where=hidden)
        return replace(frame, image=image)
