"""The code that the README shows, and what it needs to run."""

import re
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(name):
    """Return the lines of the code block between the markers `name` and `end`."""
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```\n<!-- end -->", README, re.DOTALL)
    assert found, f"README has no block {name}"
    return found[1].strip()


def write_video_of_100_seconds(path, fps=1):
    """Write frames of 32x24 at `fps` per second, each of its second as grey level."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), fps, (32, 24))
    for second in np.arange(0, 100, 1 / fps):
        writer.write(np.full((24, 32, 3), second, np.uint8))
    writer.release()
