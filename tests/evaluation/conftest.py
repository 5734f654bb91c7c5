"""Tiny sequences on disk."""

import numpy as np
import pytest

from bgsub._opencv import cv2

SIZE = (12, 16)


@pytest.fixture
def make_sequence():
    """A function that writes a sequence and returns its folder.

    Its left `moving` columns move, by default as many as the number of the frame, or what `truth` says.
    """

    def make(folder, numbers=range(1, 5), masks=None, moving=None, truth=None, size=SIZE, name="in{:06d}.png"):
        for part in ("input", "groundtruth"):
            (folder / part).mkdir(parents=True)
        for number in numbers:
            cv2.imwrite(str(folder / "input" / name.format(number)), np.full((*size, 3), 10 * number, np.uint8))
            mask = np.zeros(size, np.uint8) if truth is None else truth
            if truth is None:
                mask[:, : number if moving is None else moving] = 255
            if masks is None or number in masks:
                cv2.imwrite(str(folder / "groundtruth" / f"gt{number:06d}.png"), mask)
        return folder

    return make


class LeftHalf:
    """A method that marks the left half, whatever it sees, and a column of shadow beside it; notes what it sees."""

    def __init__(self):
        self.seen = []

    def apply(self, image):
        self.seen.append(int(image[0, 0, 0]))
        mask = np.zeros(image.shape[:2], np.uint8)
        mask[:, :8] = 255
        mask[:, 8] = 127
        return mask


@pytest.fixture
def left_half():
    return LeftHalf
