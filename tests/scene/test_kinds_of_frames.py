"""One scene in all types, with one channel or three: similar masks."""

from functools import cache

import cv2
import numpy as np
import pytest

from bgsub import BackgroundSubtractor
from bgsub.scene.frame_format import FrameFormat
from bgsub.separation import FOREGROUND
from bgsub.synthetic import scene

KINDS = {
    "uint16": (lambda frame: frame.astype(np.uint16) * 257, {}),
    "12 of 16 bits": (lambda frame: (frame.astype(np.uint32) * 4095 // 255).astype(np.uint16), {"max_value": 4095}),
    "float16": (lambda frame: (frame / 255).astype(np.float16), {}),
    "float32": (lambda frame: (frame / 255).astype(np.float32), {}),
    "float64": (lambda frame: frame / 255, {}),
    "0 to 255 in float32": (lambda frame: frame.astype(np.float32), {"max_value": 255}),
}


SEEDS = range(1, 5)


@cache
def street(colour, seed):
    frames = scene("street", size=(128, 104), length=90, seed=seed, lamps=False).frames()
    return [frame if colour else cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY) for frame in frames]


@cache
def masks_of(colour):
    return run(lambda frame: frame, {}, colour)


def run(convert, options, colour):
    """Return the masks from frame 60 on of one scene for each seed."""
    masks = []
    for seed in SEEDS:
        subtractor = BackgroundSubtractor(threads=1, **options)
        masks += [subtractor.apply(convert(frame)) == FOREGROUND for frame in street(colour, seed)][60:]
    return masks


def differing(masks, others):
    """Return the differing pixels as a share of the foreground of both."""
    masks, others = np.array(masks), np.array(others)
    return np.count_nonzero(masks != others) / np.count_nonzero(masks | others)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "colour"), [*zip(KINDS, [True, False] * 3, strict=True)])
def test_types_give_similar_masks(kind, colour):
    assert differing(run(*KINDS[kind], colour), masks_of(colour)) < 0.01


def test_alpha_is_ignored():
    colour, alpha = BackgroundSubtractor(threads=1), BackgroundSubtractor(threads=1)
    for i, frame in enumerate(street(True, 1)):
        given = np.dstack([frame, np.full(frame.shape[:2], i, np.uint8)])
        np.testing.assert_array_equal(alpha.apply(given), colour.apply(frame))
    background = alpha.getBackgroundImage()
    np.testing.assert_array_equal(background[..., :3], colour.getBackgroundImage())
    assert (background[..., 3] == 255).all()


def test_joint_unit():
    for channels, shape in ((1, (4, 5)), (1, (4, 5, 1)), (3, (4, 5, 3)), (4, (4, 5, 4))):
        joint = FrameFormat.of(np.zeros(shape, np.uint8)).joint
        assert joint == pytest.approx(np.linalg.norm(np.full(channels, 3**-0.5)))
