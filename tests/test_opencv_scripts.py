"""A script in the style of OpenCV's tutorials with another constructor, against ground truth."""

import re
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from cli_inputs import make_scene
from video_fakes import write_video

pytestmark = [pytest.mark.large, pytest.mark.slow]

SCRIPT = Path(__file__).parent / "opencv_scripts" / "line_counter.py"


@pytest.fixture
def video(tmp_path):
    """A square crosses the picture to the right and then to the left."""
    frames = make_scene(94, 96, 120, empty=40)
    return write_video(tmp_path / "street.avi", np.concatenate([frames, frames[:40:-1]]))


def test_crossings_are_counted(monkeypatch, video):
    for name in ("imshow", "destroyAllWindows"):
        monkeypatch.setattr(cv2, name, lambda *_: None)
    monkeypatch.setattr(cv2, "waitKey", lambda *_: -1)
    text, changed = re.subn(r"cv2\.createBackgroundSubtractorMOG2\(", "bgsub.BackgroundSubtractor(", SCRIPT.read_text())
    assert changed == 1
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, str(video)])
    variables = {"__name__": "__main__"}
    exec(compile(text.replace("import cv2\n", "import bgsub\nimport cv2\n", 1), SCRIPT.name, "exec"), variables)
    assert (variables["to_the_right"], variables["to_the_left"]) == (1, 1)
