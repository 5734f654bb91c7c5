"""The typed face: mypy finds each wrong use, and nothing wrong in the right ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

RIGHT = """
import cv2
import numpy as np
import bgsub

subtractor = bgsub.BackgroundSubtractor(threshold=0.1, shadows="off", mu=None, absorb_after=float("inf"))
frame = np.zeros((4, 5, 3), np.uint8)
mask: np.ndarray = subtractor.apply(frame)
on_device: cv2.UMat = bgsub.BackgroundSubtractor(500, 16, True).apply(cv2.UMat(4, 5, cv2.CV_8UC3))
history: int = bgsub.BackgroundSubtractor(history=200, shadows=False, dist2Threshold=900).getHistory()
result: bgsub.Separation = subtractor.process(frame, learningRate=0)
share: float = result.share
if result.event == bgsub.FrameEvent.COVERED or result.phase == "start":
    print(result.residual.max(), result.probability.max(), result.coefficients @ result.coefficients)
loaded: bgsub.BackgroundSubtractor = bgsub.BackgroundSubtractor.load("model.npz")
for seen, separation in bgsub.separate("video.mp4", subtractor=loaded):
    print(seen.index, separation.mask.shape, bgsub.find_objects(separation, min_area=50).area)
tracker = bgsub.SubspaceTracker(3, surrogate="log").partial_fit(np.zeros(9))
model = bgsub.RobustPCA(rank=2, quality="fast").fit(np.zeros((4, 5)))
print(tracker.components_, model.low_rank_)
"""

WRONG = """
bgsub.BackgroundSubtractor(thresold=0.1)
bgsub.BackgroundSubtractor("3")
bgsub.BackgroundSubtractor(500, 16, True, 400)
bgsub.BackgroundSubtractor(detectShadows="on")
subtractor.setNMixtures(3)
subtractor.setHistory("long")
bgsub.BackgroundSubtractor(threshold="high")
bgsub.BackgroundSubtractor(rank=2.5)
bgsub.BackgroundSubtractor(shadows="yes")
bgsub.BackgroundSubtractor(light="off")
bgsub.BackgroundSubtractor(fps=None)
bgsub.BackgroundSubtractor().apply()
bgsub.BackgroundSubtractor().apply("frame.png")
bgsub.BackgroundSubtractor().process(frame, learning_rate=0)
subtractor.get_background_image()
bgsub.SubspaceTracker(surrogate="l1")
bgsub.SubspaceTracker(rang=3)
bgsub.RobustPCA(quality="good", ranks=3)
bgsub.find_objects(mask)
bgsub.open_source("video.mp4", star=3)
bgsub.process_video("video.mp4", sink=3)
result.mask = mask
result.fase
later: int = result.event
late: str = result.coefficients
result.phase == "end"
bgsub.Background
for only in bgsub.separate(3.5): pass
"""


@pytest.mark.extras
def test_mypy_finds_each_wrong_use(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(RIGHT + WRONG)
    first = RIGHT.count("\n") + 2
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    options = ["--strict-equality", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache"), str(program)]
    answer = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=ROOT)
    found = {int(line) for line in re.findall(r"^\S*program\.py:(\d+): error", answer.stdout, re.MULTILINE)}
    expected = {first + i for i, line in enumerate(WRONG.strip().splitlines())}
    lines = ("\n" + (RIGHT + WRONG)).splitlines()
    assert {lines[line] for line in expected - found} == set(), answer.stdout
    assert {lines[line] for line in found - expected} == set(), answer.stdout
