"""Tiny scenes and cameras for the command line."""

from pathlib import Path

import numpy as np
from video_fakes import write_images

HEIGHT, WIDTH, SQUARE, QUICK = 32, 48, 10, ("--start-frames", 10)
# A shell may make a background process ignore Ctrl-C.
PROGRAM = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom bgsub.cli import main\n"
PROGRAM += "if __name__ == '__main__': main()\n"


def make_scene(count, height=HEIGHT, width=WIDTH, empty=0) -> np.ndarray:
    """A still, slightly noisy picture; after `empty` frames a bright square crosses it: (count, height, width, 3)."""
    rng = np.random.default_rng(3)
    picture = rng.uniform(0.1, 0.4, (height, width, 3))
    frames = picture + rng.normal(0, 0.005, (count, height, width, 3))
    for index in range(empty, count):
        left = 2 * (index - empty) % max(width - SQUARE, 1)
        frames[index, height // 4 : height // 4 + SQUARE, left : left + SQUARE] = 0.9
    return (255 * frames.clip(0, 1)).astype(np.uint8)


def write_sequence(root: Path, frames: np.ndarray, scored: str) -> None:
    """A sequence in the layout of changedetection.net, with the exact masks of a scene."""
    root.mkdir(parents=True)
    write_images(root / "input", frames)
    write_images(root / "groundtruth", np.where(frames.min(axis=3) > 200, 255, 0).astype(np.uint8), "gt{:06d}.png")
    (root / "temporalROI.txt").write_text(scored)


def names(folder: str | Path) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())
