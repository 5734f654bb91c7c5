"""The segmenter against its twins."""

import cv2
import numpy as np
import pytest
import reference_scene
import reference_tracking as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.parameters import SegmenterParameters
from bgsub.scene import _segment_kernels
from bgsub.scene.segmentation import Segmenter


def segment(segmenter, over):
    """Return the mask of candidates, (h, w), in a white frame before a black background."""
    x = np.full((*over.shape, 3), 255, np.uint8)
    return segmenter.segment(over, reference_scene.filled(over), x, np.zeros_like(x))


@given(h=st.integers(1, 20), w=st.integers(1, 90), half=st.integers(0, 15), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_majority_equals_its_twin(h, w, half, seed):
    rng, side = np.random.default_rng(seed), 2 * half + 1
    candidates = ((rng.random((h, w)) < 0.5) & (rng.random((h, 1)) < 0.6)).astype(np.uint8)
    mask, out_filled = np.full((h, w), 9, np.uint8), np.ones(-(-h * w // 64), np.uint8)
    work = np.empty(w + 31, np.uint16), np.empty(w, np.uint16)
    for _ in range(2):
        _segment_kernels.majority(candidates, reference_scene.filled(candidates), side, *work, mask, out_filled)
        np.testing.assert_array_equal(mask, reference.majority(candidates, side))
        assert not np.any(reference_scene.filled(mask) > out_filled)


def without_small_regions(mask, dark, area):
    """Fill small holes, then erase the regions smaller than `area`, by OpenCV's labels; a region counts its holes."""
    outside = np.pad(mask == 0, 1, constant_values=True).astype(np.uint8)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(outside, connectivity=4)
    outer, labels, areas = labels[0, 0], labels[1:-1, 1:-1], stats[:, cv2.CC_STAT_AREA]
    border = np.unique(np.r_[labels[0], labels[-1], labels[:, 0], labels[:, -1]]).tolist()
    holes = set(range(1, len(stats))) - {outer, *border}
    _, regions = cv2.connectedComponents((mask != 0).astype(np.uint8), connectivity=8)
    region_of = {hole: _left_of(regions, labels == hole) for hole in holes}
    sizes = np.bincount(regions.ravel()).tolist()
    least = {hole: max(area, _segment_kernels._SOLID * sizes[region_of[hole]]) for hole in holes}
    small = {hole for hole in holes if areas[hole] < (area if dark[labels == hole].any() else least[hole])}
    out = (mask != 0) | np.isin(labels, list(small))
    for region in range(1, regions.max() + 1):
        own = regions == region
        size = sizes[region] + sum(areas[hole] for hole in holes if region_of[hole] == region)
        if size < area and _left_of(labels, own) not in small:
            out[own] = False
    return np.where(out, 255, 0)


def _left_of(labels, region):
    """Return the label on the left of the first pixel of a region, in reading order; -1 at the border."""
    i, j = np.argwhere(region)[0]
    return int(labels[i, j - 1]) if j > 0 else -1


@given(h=st.integers(1, 14), w=st.integers(1, 90), share=st.floats(0.2, 0.9), area=st.integers(2, 30),
       seed=st.integers(0, 999))  # fmt: skip
@settings(max_examples=120)
def test_removal_of_small_regions_equals_its_twin(h, w, share, area, seed):
    rng = np.random.default_rng(seed)
    mask = np.where(rng.random((h, w)) < share, np.uint8(255), np.uint8(0))
    dark, found = ((mask == 0) & (rng.random((h, w)) < 0.1)).astype(np.uint8), mask.copy()
    runs, rows = np.empty((4, h * w + 1), np.int32), np.empty(h + 1, np.int64)
    filled, steps = reference_scene.filled(mask), np.full(-(-w // 8) * 8, 9, np.uint8)
    _segment_kernels.remove_small_regions(found, dark, filled, area, runs, rows, steps)
    assert not np.any(reference_scene.filled(found) > filled)
    np.testing.assert_array_equal(found, without_small_regions(mask, dark, area))


@pytest.mark.parametrize(("side", "is_filled"), [(14, True), (20, False)])
def test_holes_that_are_small_for_their_region_are_filled(side, is_filled):
    over = np.zeros((60, 80), np.uint8)
    over[10:40, 20:50] = 1
    hole = np.s_[25 - side // 2 : 25 + side // 2, 35 - side // 2 : 35 + side // 2]
    over[hole] = 0
    found = segment(
        Segmenter((60, 80), SegmenterParameters(median=1, neighbours=0, shadows="off"), scale=1 / 255), over
    )
    assert (found[25, 35] == 255) == is_filled
    assert not found[:8].any()


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 2), (2, 2), (3, 4), (7, 2), (5, 5)])
def test_minimum_area_is_exact(height, width):
    over = np.zeros((40, 50), np.uint8)
    over[10 : 10 + height, 20 : 20 + width] = 1
    area = height * width
    for least, kept in ((area, area), (area + 1, 0)):
        mask = segment(
            Segmenter((40, 50), SegmenterParameters(median=1, min_area=least / 2000), scale=1 / 255), over.copy()
        )
        assert np.count_nonzero(mask) == kept
