"""The provisional background that serves until the batch start has its frames."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of

_SPREAD = 9  # frames in the median


class StartBuffer:
    """The first frames of a stream, and the median of a few of them spread over the time so far.

    Parameters
    ----------
    capacity : int
        Number of frames n of the batch start.
    size : int
        Entries m of a frame.
    dtype : str
        Type of the frames.
    """

    def __init__(self, capacity: int, size: int, dtype: str) -> None:
        self.frames = np.empty((capacity, size), dtype)
        self.count = 0
        self._median: np.ndarray | None = None

    def state(self) -> State:
        """Return the frames so far and their median, copied."""
        return {"frames": self.frames[: self.count].copy(), "median": self.median.copy()} if self.count else {}

    def set_state(self, state: State) -> None:
        """Go on where another buffer stood; ParameterError when the arrays do not fit."""
        if not state:
            return
        capacity, size = self.frames.shape
        frames = array_of(state, "frames", (None, size), self.frames.dtype.name)
        if not 1 <= len(frames) <= capacity:
            raise ParameterError(f"the start must hold 1 to {capacity} frames, got {len(frames)}")
        self.count = len(frames)
        self.frames[: self.count] = frames
        self._median = array_of(state, "median", (size,), self.frames.dtype.name)

    @property
    def is_full(self) -> bool:
        """Whether the batch start has its frames."""
        return self.count == self.frames.shape[0]

    def add(self, frame: np.ndarray) -> None:
        """Append one flattened frame, (m,)."""
        self.frames[self.count] = frame
        self.count += 1
        # every frame at first, then rarely: the median of a longer time changes slowly
        if self._median is None or self.count <= _SPREAD or self.count % _SPREAD == 0:
            self._median = median_of(self.spread())

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Replace every frame but the newest one, (m,), by what `change` makes of it."""
        for i in range(self.count - 1):
            self.frames[i] = change(self.frames[i])
        self._median = median_of(self.spread())

    def spread(self) -> np.ndarray:
        """Return an odd number of frames, at most nine, evenly spread over the buffer: (q, m)."""
        q = min(_SPREAD, self.count - (self.count + 1) % 2)
        return self.frames[np.linspace(0, self.count - 1, q).round().astype(int)]

    @property
    def median(self) -> np.ndarray:
        """The provisional background, (m,), type of the frames."""
        if self._median is None:
            raise IndexError("the start buffer holds no frame yet")
        return self._median


def median_of(frames: np.ndarray) -> np.ndarray:
    """Return the entrywise median of an odd number q of rows, (q, m), by odd-even transposition of whole rows.

    O(q^2 m), but with vectorised minima and maxima: for nine frames far faster than a partition per entry.
    """
    rows = list(frames)
    q = len(rows)
    for turn in range(q):
        for i in range(turn % 2, q - 1, 2):
            rows[i], rows[i + 1] = np.minimum(rows[i], rows[i + 1]), np.maximum(rows[i], rows[i + 1])
    return rows[q // 2]
