"""The first frames of a stream, kept until the batch start."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.state import State, array_of
from bgsub.numerics.threads import copied, cores, in_bands
from bgsub.scene import _start_colours_kernels


class StartBuffer:
    """The first frames of a stream.

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

    def state(self) -> State:
        """Return the frames so far, copied."""
        return {"frames": copied(self.frames[: self.count])} if self.count else {}

    def set_state(self, state: State) -> None:
        """Go on where another buffer stood; ParameterError when the frames do not fit."""
        if not state:
            return
        capacity, size = self.frames.shape
        frames = array_of(state, "frames", (None, size), self.frames.dtype.name)
        if not 1 <= len(frames) <= capacity:
            raise ParameterError(f"the start must hold 1 to {capacity} frames, got {len(frames)}")
        self.count = len(frames)
        self.frames[: self.count] = frames

    @property
    def is_full(self) -> bool:
        """Whether the batch start has its frames."""
        return self.count == self.frames.shape[0]

    @property
    def is_nearly_full(self) -> bool:
        """Whether the batch start needs one more frame at most."""
        return self.count + 1 >= self.frames.shape[0]

    @property
    def newest(self) -> np.ndarray | None:
        """The last frame, (m,), None before the first."""
        return self.frames[self.count - 1] if self.count else None

    def add(self, frame: np.ndarray) -> None:
        """Append one flattened frame, (m,)."""
        self.frames[self.count] = frame
        self.count += 1

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Replace every frame but the newest one, (m,), by what `change` makes of it."""
        for i in range(self.count - 1):
            self.frames[i] = change(self.frames[i])

    def fill_in(self, background: np.ndarray, limit: np.ndarray) -> None:
        """Put a background, (m,) float32, in the place of what differs from it by more than `limit`, (h * w,)."""
        pixels = self.frames[: self.count].reshape(self.count, limit.size, -1)
        half = np.float32(0.5 if pixels.dtype == np.uint8 else 0)
        colours, squares = background.reshape(limit.size, -1), limit * limit

        def fill(begin: int, end: int, _: int) -> None:
            _start_colours_kernels.fill_in(begin, end, colours, squares, half, pixels)

        in_bands(fill, limit.size, cores())
