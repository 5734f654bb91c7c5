"""Privacy regions, blacked out before processing."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from bgsub.errors import ParameterError, on_failure
from bgsub.video.regions import Region, Regions, bounding_box
from bgsub.video.sources.base import Frame, FrameSource, SelectedSource
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
        with on_failure(source.close):
            self.mask = PrivacyMask(list(regions))  # the regions, which may be replaced while the source is read
            self.mask.apply(np.empty(source.size[::-1], np.uint8))  # check the regions

    def _part(self, part: Part) -> Iterator[Frame]:
        return map(self._blackened, self._source.take(part))

    def _blackened(self, frame: Frame) -> Frame:
        image = self.mask.apply(frame.image)
        return frame if image is frame.image else replace(frame, image=image)


def _pixels_of(regions: Regions, shape: tuple[int, ...]) -> tuple[tuple[slice, slice], np.ndarray]:
    """Return the bounding box of regions and their pixels in it, bool; ParameterError if a region is outside."""
    try:
        hidden = regions.union(shape)
    except ParameterError as error:
        raise ParameterError(f"privacy: {error}") from None
    box = bounding_box(hidden)
    return box, hidden[box]


class PrivacyMask:
    """Blacks out regions, if there are any; they may be replaced from any thread."""

    def __init__(self, regions: Sequence[Region | str]) -> None:
        self.replace(regions)

    def replace(self, regions: Sequence[Region | str]) -> None:
        """Black out other regions from now on. ParameterError if one is invalid."""
        given = Regions.of(regions)
        self.texts = [region for region in regions if isinstance(region, str)]
        self._pixels = lru_cache(2)(_pixels_of)  # a new one, because a mask image may have changed
        self.regions = given  # another object each time

    def apply(self, image: np.ndarray) -> np.ndarray:
        """Return an image, (h, w) or (h, w, c), with the regions black: a copy, or the image if there are none."""
        regions = self.regions
        if regions is None:
            return image
        box, hidden = self._pixels(regions, image.shape[:2])
        image = image.copy()
        np.copyto(image[box], 0, where=hidden if image.ndim == 2 else hidden[:, :, np.newaxis])
        return image
