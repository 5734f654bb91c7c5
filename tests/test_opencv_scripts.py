"""Scripts in the style of OpenCV's tutorials, unchanged and with another constructor, against ground truth."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from video_fakes import write_video

pytestmark = [pytest.mark.large, pytest.mark.slow]

SCRIPTS = Path(__file__).parent / "opencv_scripts"
EMPTY, COUNT, HEIGHT, WIDTH = 40, 160, 90, 120
# Width, height and top of each square, its left edge in the first frame that may show it, and its pace.
MOVERS = [(16, 20, 10, -30.0, 2.0), (20, 14, 40, 150.0, -2.5), (18, 18, 64, -60.0, 1.75)]
SETTLED = 60  # frames, from which on the boxes are looked at


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


@pytest.fixture(params=["OpenCV's", "ours"])
def run(request, monkeypatch, video):
    """Return a function that runs a script, optionally with our constructor, and returns its variables."""
    for name in ("imshow", "destroyAllWindows"):
        monkeypatch.setattr(cv2, name, lambda *_: None)
    monkeypatch.setattr(cv2, "waitKey", lambda *_: -1)

    def run(name, *arguments):
        text = (SCRIPTS / f"{name}.py").read_text()
        if request.param == "ours":
            text, changed = re.subn(r"cv2\.createBackgroundSubtractorMOG2\(", "bgsub.BackgroundSubtractor(", text)
            assert changed == 1
            text = text.replace("import cv2\n", "import bgsub\nimport cv2\n", 1)
        monkeypatch.setattr(sys, "argv", [name, str(video), *map(str, arguments)])
        variables = {"__name__": "__main__"}
        exec(compile(text, name, "exec"), variables)
        return variables

    run.is_ours = request.param == "ours"
    return run


def overlap(one, other):
    """Return the intersection over the union of two boxes."""
    (left, top), (right, bottom) = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    both = max(right - left, 0) * max(bottom - top, 0)
    sizes = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return both / (sum(sizes) - both)


def test_boxes_match_the_movers(run):
    boxes = run("moving_boxes")["boxes"]
    assert len(boxes) == COUNT
    seen = 0
    for index in range(SETTLED, COUNT):
        found = [(x, y, x + width, y + height) for x, y, width, height in boxes[index]]
        truth = list(places(index))
        assert len(found) == len(truth)
        assert all(max(overlap(place, box) for box in found) > 0.8 for place in truth)
        seen += len(truth)
    assert seen > 100


def test_crossings_are_counted(run):
    variables = run("line_counter")
    assert (variables["to_the_right"], variables["to_the_left"]) == (2, 1)
