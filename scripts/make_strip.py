"""Write the picture strip of the README, datasets/strip.png: input, background and mask of the made scenes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.synthetic import scene

TARGET = Path(__file__).resolve().parent.parent / "datasets" / "strip.png"
ROWS = (("street", 152), ("lobby", 200))


def row(name: str, index: int) -> np.ndarray:
    """Return input, background and mask of one frame of a scene side by side."""
    subtractor = BackgroundSubtractor()
    for frame, _ in scene(name, size=(320, 240), length=index + 1, lamps=False):
        result = subtractor.process(frame)
    return np.hstack([frame, result.background, cv2.cvtColor(result.mask, cv2.COLOR_GRAY2BGR)])


if __name__ == "__main__":
    cv2.imwrite(str(TARGET), np.vstack([row(*choice) for choice in ROWS]), [cv2.IMWRITE_PNG_COMPRESSION, 9])
    print(TARGET)
