"""Frames that are in memory already."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from bgsub.errors import ParameterError
from bgsub.video.sources.base import Frame, FrameSource, number_name, without_alpha


class ArraySource(FrameSource):
    """The frames of an array.

    Parameters
    ----------
    array : ndarray, (n, h, w) or (n, h, w, c) with c in {1, 3, 4}, uint8, uint16 or floating
        The frames; the alpha channel of four is dropped. Frames are views into it, not copies.
    fps : float or Fraction, optional
        Frames per second.

    Raises
    ------
    ParameterError
        If the shape or the type of the array is another one.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub.video import ArraySource
    >>> source = ArraySource(np.zeros((10, 48, 64, 3), np.uint8), fps=25)
    >>> [frame.time for frame in source][:3]
    [0.0, 0.04, 0.08]
    """

    def __init__(self, array: np.ndarray, *, fps: float | Fraction | None = None) -> None:
        super().__init__("array", fps=fps)
        array = np.asarray(array)
        layout = array.ndim == 3 or (array.ndim == 4 and array.shape[3] in (1, 3, 4))
        if not layout or array.size == 0:
            raise ParameterError(f"array must have shape (n, h, w) or (n, h, w, c) with c 1, 3 or 4, got {array.shape}")
        if array.dtype not in (np.uint8, np.uint16) and not np.issubdtype(array.dtype, np.floating):
            raise ParameterError(f"array must be uint8, uint16 or floating, got {array.dtype}")
        self._array = array

    @property
    def size(self) -> tuple[int, int]:
        return self._array.shape[2], self._array.shape[1]

    @property
    def length(self) -> int:
        return len(self._array)

    def _frames(self) -> Iterator[Frame]:
        for index, image in enumerate(self._array):
            yield Frame(index, number_name(index), self._time(index), without_alpha(image))
