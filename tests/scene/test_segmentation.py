"""The segmenter against its twins, and its noise scale."""

import numpy as np
import pytest
import reference_tracking as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.parameters import SegmenterParameters
from bgsub.scene.segmentation import Segmenter


def frame_of(d):
    """Return a grey frame that differs from a black background by `d`."""
    return np.repeat(d[:, :, np.newaxis] / np.sqrt(np.float32(3)), 3, axis=2)


def segment(segmenter, d):
    """Return the mask of that frame."""
    x = frame_of(d)
    return segmenter.segment(segmenter.candidates(d), x, np.zeros_like(x))


def learn(segmenter, d):
    """Learn from that frame."""
    x = frame_of(d)
    segmenter.learn(d, None, np.zeros(d.shape, np.uint16), x, np.zeros_like(x))


@given(h=st.integers(1, 20), w=st.integers(1, 20), half=st.integers(0, 15), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_majority_filter_equals_its_twin(h, w, half, seed):
    candidates = (np.random.default_rng(seed).random((h, w)) < 0.5).astype(np.uint8)
    segmenter = Segmenter((h, w), SegmenterParameters(median=2 * half + 1))
    np.testing.assert_array_equal(segmenter._vote(candidates), reference.majority(candidates, 2 * half + 1))


def test_speckle_is_removed_and_holes_filled():
    rng = np.random.default_rng(0)
    d = np.where(rng.random((60, 60)) < 0.1, 0.5, 0).astype(np.float32)
    d[20:40, 20:40] = np.where(rng.random((20, 20)) < 0.1, 0, 0.5)
    mask = segment(Segmenter((60, 60), SegmenterParameters(min_area=0.002)), d)
    assert (mask[22:38, 22:38] == 255).all()
    assert np.count_nonzero(mask[:15]) == 0


def test_flickering_pixel_raises_its_threshold_for_a_while():
    segmenter = Segmenter((1, 2), SegmenterParameters(median=1, min_area=0))
    rng = np.random.default_rng(1)

    def feed(amplitude, frames):
        found = 0
        for _ in range(frames):
            d = np.array([[amplitude * rng.random(), 0.01]], np.float32)
            mask = segment(segmenter, d)
            learn(segmenter, d)
            found += mask[0, 0] == 255
        return found / frames

    feed(0.3, 600)
    assert feed(0.3, 100) < 0.3
    assert segmenter.noise.sigma[0, 0] > 10 * segmenter.noise.sigma[0, 1]
    feed(0.02, 400)
    assert segment(segmenter, np.array([[0.2, 0.2]], np.float32)).tolist() == [[255, 255]]


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 2), (2, 2), (3, 4), (7, 2), (5, 5)])
def test_minimum_area_is_exact(height, width):
    d = np.zeros((40, 50), np.float32)
    d[10 : 10 + height, 20 : 20 + width] = 1
    area = height * width
    for least, kept in ((area, area), (area + 1, 0)):
        mask = segment(Segmenter((40, 50), SegmenterParameters(median=1, min_area=least / 2000)), d)
        assert np.count_nonzero(mask) == kept
