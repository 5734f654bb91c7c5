"""The same loop with OpenCV's subtractors: only the constructor changes.

python scripts/examples/compare_with_mog2.py datasets/sample/input
"""

from __future__ import annotations

import argparse

import cv2
import numpy as np

import bgsub


def moving_share(
    subtractor: cv2.BackgroundSubtractor | bgsub.BackgroundSubtractor, frames: list[np.ndarray]
) -> list[float]:
    """Return the share of foreground pixels in each frame, shadows (127) left out."""
    return [float((subtractor.apply(frame) == 255).mean()) for frame in frames]


def main(arguments: list[str] | None = None) -> None:
    """Print a table: frame, share of the foreground by MOG2, KNN and bgsub."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    options = parser.parse_args(arguments)

    with bgsub.open_source(options.source) as source:
        frames = [frame.image for frame in source]
    methods = {
        "MOG2": cv2.createBackgroundSubtractorMOG2(),
        "KNN": cv2.createBackgroundSubtractorKNN(),
        "bgsub": bgsub.BackgroundSubtractor(),
    }
    shares = {name: moving_share(method, frames) for name, method in methods.items()}
    print("frame " + " ".join(f"{name:>8}" for name in shares))
    for index in range(0, len(frames), max(len(frames) // 20, 1)):
        print(f"{index:5d} " + " ".join(f"{100 * values[index]:7.2f}%" for values in shares.values()))


if __name__ == "__main__":
    main()
