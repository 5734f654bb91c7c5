"""The peer of scripts/vibe.py behaves as its paper says."""

import numpy as np
import pytest
import vibe

from bgsub._opencv import cv2

pytestmark = pytest.mark.large


def square(inside, side=60):
    frame = np.full((side, side, 3), 100, np.uint8)
    frame[20:40, 20:40] = inside
    return frame


def test_one_frame_is_enough_and_samples_decay_exponentially():
    method, rng = vibe.ViBe(), np.random.default_rng(0)
    frame = cv2.GaussianBlur(rng.integers(60, 200, (60, 80, 3)).astype(np.uint8), (0, 0), 5)
    assert not method.apply(frame).any()
    before = method.samples.copy()
    for _ in range(160):  # a sample is replaced with the chance 1/20 of 1/16, by the pixel and by its neighbours
        assert not method.apply(frame + 5).any()
    kept = (method.samples == before).all(axis=3)[1:-1, 1:-1].mean()
    assert kept == pytest.approx(np.exp(-1), abs=0.01)


def test_a_ghost_dissolves_from_its_edge_and_an_object_stays():
    ghost, found = vibe.ViBe(), vibe.ViBe()
    ghost.apply(square(200))
    found.apply(square(100))
    masks = [ghost.apply(square(100)) for _ in range(400)]
    assert masks[200][30, 30] == 255
    counts = [np.count_nonzero(masks[i]) for i in (0, 100, 399)]
    assert counts[0] > counts[1] > counts[2]
    for _ in range(200):
        mask = found.apply(square(200))
    np.testing.assert_array_equal(mask, 255 * (square(200)[..., 0] == 200))
