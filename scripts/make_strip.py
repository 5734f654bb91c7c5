"""Write datasets/street.webp (boxes and mask of a street) and datasets/strip.png (two scenes) of README and docs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.events import EventFeed, ObjectLinker
from bgsub.events.annotation import annotate
from bgsub.synthetic import scene
from bgsub.video import Frame

DATASETS = Path(__file__).resolve().parent.parent / "datasets"
ROWS = (("street", 152), ("lobby", 200))
FIRST, COUNT, EVERY, FPS = 130, 160, 4, 25.0  # of the moving picture


def row(name: str, index: int) -> np.ndarray:
    """Return input, background and mask of one frame of a scene side by side."""
    subtractor = BackgroundSubtractor()
    for frame, _ in scene(name, size=(320, 240), length=index + 1, lamps=False):
        result = subtractor.process(frame)
    return np.hstack([frame, result.background, cv2.cvtColor(result.mask, cv2.COLOR_GRAY2BGR)])


def moving() -> list[np.ndarray]:
    """Return boxes and mask side by side of some frames of a street."""
    subtractor, feed, pictures = BackgroundSubtractor(), EventFeed(ObjectLinker(FPS)), []
    for index, (image, _) in enumerate(scene("street", size=(400, 300), length=FIRST + COUNT, walkers=5, sway=1.0)):
        result = subtractor.process(image)
        step = feed.step(Frame(index, "", index / FPS, image), result)
        if index >= FIRST and index % EVERY == 0:
            boxes = cv2.resize(annotate(step, {}, image), image.shape[1::-1], interpolation=cv2.INTER_AREA)
            pictures.append(np.hstack([boxes, cv2.cvtColor(result.mask, cv2.COLOR_GRAY2BGR)]))
    return pictures


if __name__ == "__main__":
    cv2.imwrite(str(DATASETS / "strip.png"), np.vstack([row(*one) for one in ROWS]), [cv2.IMWRITE_PNG_COMPRESSION, 9])
    animation = cv2.Animation()
    animation.frames = moving()
    animation.durations = np.full(len(animation.frames), round(1000 * EVERY / FPS), np.int32)
    cv2.imwriteanimation(str(DATASETS / "street.webp"), animation, [cv2.IMWRITE_WEBP_QUALITY, 40])
