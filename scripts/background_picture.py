"""Compare the background picture with the known background of synthetic scenes, beside MOG2 and KNN.

    python scripts/background_picture.py [--frames 300] [--size 320x240] [--seeds 2]

Every scene has people and cars from the first frame on. Error is the mean absolute difference from the true background
in grey levels, over the frames of the second half; wrong is the share of pixels off by more than ten.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.synthetic import scene

_WRONG = 10  # grey levels
_EVERY = 5  # frames between two pictures that are measured
SCENES: dict[str, tuple[str, dict[str, Any]]] = {
    "street": ("street", {}),
    "busy street": ("street", {"walkers": 12}),
    "lobby": ("lobby", {"lamps": False}),
    "lobby, lamps": ("lobby", {}),
}
METHODS: dict[str, Callable[[], Any]] = {
    "bgsub": BackgroundSubtractor,
    "MOG2": cv2.createBackgroundSubtractorMOG2,
    "KNN": cv2.createBackgroundSubtractorKNN,
}


def errors(picture: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return the mean absolute error of a background, (h, w, 3) uint8, and the share of pixels that are wrong."""
    difference = np.abs(picture.astype(np.int16) - truth)
    return float(difference.mean()), float(np.mean(difference.max(axis=2) > _WRONG))


def measure(method: str, name: str, size: tuple[int, int], frames: int, seed: int) -> np.ndarray:
    """Return mean error and mean share of wrong pixels of a method on a scene, (2,)."""
    kind, options = SCENES[name]
    stage = scene(kind, size=size, length=frames, seed=seed, empty_start=0, **options)
    subtractor, found = METHODS[method](), []
    for i, (frame, _) in enumerate(stage):
        subtractor.apply(frame)
        if i >= frames // 2 and i % _EVERY == 0:
            found.append(errors(subtractor.getBackgroundImage(), stage.background(i)))
    return np.mean(found, axis=0)


def table(size: tuple[int, int], frames: int, seeds: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"{'scene':16}" + "".join(f"{method:>8} error  wrong" for method in METHODS)
    for name in SCENES:
        cells = [np.mean([measure(m, name, size, frames, seed) for seed in range(seeds)], axis=0) for m in METHODS]
        yield f"{name:16}" + "".join(f"{error:14.2f} {100 * wrong:5.2f}%" for error, wrong in cells)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--size", default="320x240")
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    width, height = (int(number) for number in arguments.size.split("x"))
    for line in table((width, height), arguments.frames, arguments.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
