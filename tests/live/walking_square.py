"""A camera that shows a walking square, and a subtractor that takes changes of its parameters."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "video"))

from video_fakes import ThresholdSubtractor

from bgsub.video import Frame, FrameSource

WIDTH, HEIGHT = 320, 240
SQUARE = (90, 200, 240)  # blue, green, red
RATE = 25
_SECONDS = 120  # a test quits long before


class WalkingSquare(FrameSource):
    """A bright square that walks over a dim ramp, 25 times a second; silent while the event is set."""

    live = True

    def __init__(self, name: str = "test camera", fail_at: int | None = None) -> None:
        super().__init__(name)
        self.silent = threading.Event()
        self._fail_at = fail_at
        self._cancelled = threading.Event()

    @property
    def size(self):
        return WIDTH, HEIGHT

    @property
    def length(self):
        return None

    def cancel(self) -> None:
        self._cancelled.set()

    def _frames(self):
        ramp = np.tile(np.linspace(20, 110, WIDTH).astype(np.uint8), (HEIGHT, 1))
        still = np.dstack([ramp, np.full_like(ramp, 60), ramp])
        index = 0
        while index < _SECONDS * RATE and not self._cancelled.wait(1 / RATE):
            if self.silent.is_set():
                continue
            if index == self._fail_at:
                raise RuntimeError(f"{self.name} broke")
            image = still.copy()
            left = 3 * index % (WIDTH - 60)
            image[90:150, left : left + 60] = SQUARE
            yield Frame(index, f"{index + 1:06d}", index / RATE, image)
            index += 1


class Tunable(ThresholdSubtractor):
    """Keeps the changes of its parameters; works on one frame while `late` is cleared."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: dict[str, object] = {}
        self.late = threading.Event()
        self.late.set()

    def process(self, image, learningRate=-1):
        assert self.late.wait(60)
        return super().process(image, learningRate)

    def tune(self, **parameters) -> None:
        self.changes.update(parameters)
