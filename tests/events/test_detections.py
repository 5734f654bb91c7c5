"""Detections, compared with a flood fill in Python."""

from __future__ import annotations

import sys
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bgsub
from bgsub.errors import DependencyError, ParameterError
from bgsub.separation import Separation


def separation_of(mask, vote=None):
    frame = np.zeros(mask.shape, np.uint8)
    return Separation(frame, mask, frame, np.zeros(mask.shape, np.float32), np.empty(0), "tracking", soft_vote=vote)


def flood(mask):
    """Return the 8-connected regions of 255 as sets of (y, x)."""
    left = {(int(y), int(x)) for y, x in zip(*np.nonzero(mask == 255), strict=True)}
    regions = []
    while left:
        region, queue = set(), deque([left.pop()])
        while queue:
            y, x = queue.popleft()
            region.add((y, x))
            near = {(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= near
            queue.extend(near)
        regions.append(region)
    return regions


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31), st.integers(1, 6))
def test_objects_match_a_flood_fill(height, width, seed, min_area):
    rng = np.random.default_rng(seed)
    mask = rng.choice(np.array([0, 127, 255], np.uint8), (height, width), p=[0.6, 0.1, 0.3])
    vote = rng.random((height, width)).astype(np.float32)
    found = bgsub.find_objects(separation_of(mask, lambda: vote), min_area)
    expected = [region for region in flood(mask) if len(region) >= min_area]
    assert found.area.tolist() == sorted(map(len, expected), reverse=True)
    masks = {frozenset(zip(*map(np.ndarray.tolist, np.nonzero(one)), strict=True)) for one in found.mask}
    assert masks == {frozenset(region) for region in expected}
    for index, one in enumerate(found.mask):
        ys, xs = np.nonzero(one)
        assert found.xyxy[index].tolist() == [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
        np.testing.assert_allclose(found.centroids[index], [xs.mean(), ys.mean()], rtol=1e-5)
        np.testing.assert_allclose(found.confidence[index], np.maximum(vote[one], 0.5).mean(), rtol=1e-5)


def test_empty_mask():
    found = bgsub.find_objects(separation_of(np.zeros((4, 5), np.uint8)))
    assert (len(found), found.xyxy.shape, found.mask.shape) == (0, (0, 4), (0, 4, 5))


@pytest.mark.parametrize("wrong", [0, float("nan"), "5"])
def test_wrong_area(wrong):
    with pytest.raises(ParameterError, match=f"min_area must be at least 1 pixel, got {wrong!r}"):
        bgsub.find_objects(separation_of(np.zeros((2, 2), np.uint8)), wrong)


@pytest.mark.extras
def test_to_supervision():
    supervision = pytest.importorskip("supervision", reason="the package supervision is not installed")
    found = bgsub.find_objects(separation_of(np.pad(np.full((4, 6), 255, np.uint8), 3))).to_supervision()
    assert isinstance(found, supervision.Detections)
    assert (found.xyxy.tolist(), found.mask.sum()) == ([[3, 3, 9, 7]], 24)


def test_without_supervision(monkeypatch):
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(DependencyError, match="needs the package supervision: pip install"):
        bgsub.find_objects(separation_of(np.zeros((2, 2), np.uint8))).to_supervision()
