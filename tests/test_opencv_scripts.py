"""A script in the style of OpenCV's tutorials with another constructor, against ground truth."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from video_fakes import write_video

pytestmark = [pytest.mark.large, pytest.mark.slow]

SCRIPT = Path(__file__).parent / "opencv_scripts" / "line_counter.py"
EMPTY, COUNT, HEIGHT, WIDTH = 40, 160, 90, 120
# Width, height and top of each square, its left edge in the first frame that may show it, and its pace.
MOVERS = [(16, 20, 10, -30.0, 2.0), (20, 14, 40, 150.0, -2.5), (18, 18, 64, -60.0, 1.75)]


def background():
    """Return a street of coarse texture, (HEIGHT, WIDTH, 3) uint8."""
    coarse = np.random.default_rng(3).integers(70, 150, (HEIGHT // 10, WIDTH // 10, 3), dtype=np.uint8)
    return cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)


def places(index):
    """Yield the boxes of the movers fully in view in a frame: left, top, right, bottom."""
    for width, height, top, left, pace in MOVERS:
        x = round(left + pace * (index - EMPTY))
        if index >= EMPTY and 0 <= x <= WIDTH - width:
            yield x, top, x + width, top + height


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    rng, frames = np.random.default_rng(4), []
    for index in range(COUNT):
        frame = background() + rng.normal(0, 2, (HEIGHT, WIDTH, 3))
        for x, y, right, bottom in places(index):
            frame[y:bottom, x:right] = (230, 40, 220)
        frames.append(np.clip(frame, 0, 255).astype(np.uint8))
    return write_video(tmp_path_factory.mktemp("video") / "street.avi", np.array(frames))


def test_crossings_are_counted(monkeypatch, video):
    for name in ("imshow", "destroyAllWindows"):
        monkeypatch.setattr(cv2, name, lambda *_: None)
    monkeypatch.setattr(cv2, "waitKey", lambda *_: -1)
    text, changed = re.subn(r"cv2\.createBackgroundSubtractorMOG2\(", "bgsub.BackgroundSubtractor(", SCRIPT.read_text())
    assert changed == 1
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, str(video)])
    variables = {"__name__": "__main__"}
    exec(compile(text.replace("import cv2\n", "import bgsub\nimport cv2\n", 1), SCRIPT.name, "exec"), variables)
    assert (variables["to_the_right"], variables["to_the_left"]) == (2, 1)
