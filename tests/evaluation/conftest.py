"""Tiny sequences on disk."""

from __future__ import annotations

import numpy as np
import pytest

from bgsub._opencv import cv2

SIZE = (12, 16)


@pytest.fixture
def make_sequence():
    """A function that writes a sequence whose left `moving` columns move, and returns its folder."""

    def make(folder, frames=4, moving=4, masks=None):
        for part in ("input", "groundtruth"):
            (folder / part).mkdir(parents=True)
        truth = np.zeros(SIZE, np.uint8)
        truth[:, :moving] = 255
        for number in range(1, frames + 1):
            frame = np.full((*SIZE, 3), 10 * number, np.uint8)
            cv2.imwrite(str(folder / "input" / f"in{number:06d}.png"), frame)
            if masks is None or number in masks:
                cv2.imwrite(str(folder / "groundtruth" / f"gt{number:06d}.png"), truth)
        return folder

    return make


class LeftHalf:
    """A method that marks the left half, whatever it sees, and a column of shadow beside it."""

    def apply(self, image):
        mask = np.zeros(image.shape[:2], np.uint8)
        mask[:, :8] = 255
        mask[:, 8] = 127
        return mask


@pytest.fixture
def left_half():
    return LeftHalf
