"""Detections, compared with those of SciPy."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from event_scenes import RATE, frame_of, separated, walk
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

import bgsub
from bgsub.errors import DependencyError, ParameterError
from bgsub.events import ObjectLinker


@settings(max_examples=25)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31), st.integers(1, 6))
def test_objects_match_those_of_scipy(height, width, seed, min_area):
    rng = np.random.default_rng(seed)
    mask = rng.choice(np.array([0, 127, 255], np.uint8), (height, width), p=[0.6, 0.1, 0.3])
    vote = rng.random((height, width)).astype(np.float32)
    found = bgsub.find_objects(replace(separated(mask), soft_vote=lambda: vote), min_area)
    labels, count = ndimage.label(mask == 255, np.ones((3, 3)))
    expected = [one for one in (labels == n + 1 for n in range(count)) if one.sum() >= min_area]
    assert found.area.tolist() == sorted((one.sum() for one in expected), reverse=True)
    assert sorted(one.tobytes() for one in found.mask) == sorted(one.tobytes() for one in expected)
    for index, one in enumerate(found.mask):
        ys, xs = np.nonzero(one)
        assert found.xyxy[index].tolist() == [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
        np.testing.assert_allclose(found.centroids[index], [xs.mean(), ys.mean()], rtol=1e-5)
        np.testing.assert_allclose(found.confidence[index], np.maximum(vote[one], 0.5).mean(), rtol=1e-5)


def test_no_objects_and_wrong_area():
    empty = separated(np.zeros((4, 5), np.uint8))
    found = bgsub.find_objects(empty)
    assert (len(found), found.xyxy.shape, found.mask.shape) == (0, (0, 4), (0, 4, 5))
    for wrong in (0, float("nan"), "5"):
        with pytest.raises(ParameterError, match=f"min_area must be at least 1 pixel, got {wrong!r}"):
            bgsub.find_objects(empty, wrong)
    with pytest.raises(ParameterError, match="separation must be a Separation as of process, got ndarray"):
        bgsub.find_objects(empty.mask)


@pytest.mark.extras
def test_to_supervision():
    supervision = pytest.importorskip("supervision", reason="the package supervision is not installed")
    found = bgsub.find_objects(separated(np.pad(np.full((4, 6), 255, np.uint8), 3))).to_supervision()
    assert isinstance(found, supervision.Detections)
    assert (found.xyxy.tolist(), found.mask.sum()) == ([[3, 3, 9, 7]], 24)


def test_without_supervision(monkeypatch):
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(DependencyError, match="needs the package supervision: pip install"):
        bgsub.find_objects(separated(np.zeros((2, 2), np.uint8))).to_supervision()


SHAPE = (120, 160)
LENGTH = 240


def leaves(rng, count=30):
    """Yield masks of leaves in the wind: random boxes at some places, half of the time."""
    places = rng.integers((0, 0), (SHAPE[0] // 2 - 16, SHAPE[1] - 16), (count, 2))
    for _ in range(LENGTH):
        mask = np.zeros(SHAPE, np.uint8)
        for y, x in places[rng.random(count) < 0.5]:
            top, left = rng.integers(0, 8, 2)
            height, width = rng.integers(3, 9, 2)
            mask[y + top : y + top + height, x + left : x + left + width] = 255
        yield mask


def found(boxes, seed=0, wind=True, phase="tracking"):
    """Return the events of an object at `boxes` (None if absent) and of leaves above it."""
    rng = np.random.default_rng(seed)
    linker, events = ObjectLinker(RATE), []
    for index, (leaf, box) in enumerate(zip(leaves(rng), boxes, strict=True)):
        mask = leaf if wind else np.zeros_like(leaf)
        if box is not None:
            x, y, w, h = box
            mask[y : y + h, x : x + w] = 255
        linker.update(frame_of(index, shape=SHAPE), separated(mask, y=() if phase == "start" else (0.0,)))
        events += linker.take_finished()
    return events + linker.finish()


@pytest.mark.parametrize("phase", ["start", "tracking"])
def test_leaves_are_no_objects(phase):
    assert len(found([None] * LENGTH, phase=phase)) <= 2


@pytest.mark.parametrize(
    "boxes",
    [
        walk((10, 80), (0.4, 0), LENGTH, (10, 24)),
        walk((10, 80), (0.05, 0), LENGTH, (10, 24)),
        [None] * 80 + walk((60, 80), (0, 0), LENGTH - 80, (10, 24)),
        walk((5, 90), (0.3, 0), LENGTH, (3, 5)),
        [None] * 200 + walk((0, 80), (8, 0), 18, (30, 16)) + [None] * (LENGTH - 218),
    ],
    ids=["walks", "slow", "stands", "small and far", "fast"],
)
def test_objects_beside_leaves(boxes):
    below = [event for event in found(boxes) if event.peak_box[1] >= SHAPE[0] // 2 + 10]
    assert len(below) == 1
    seen = [index for index, box in enumerate(boxes) if box is not None]
    assert (below[0].start_frame, below[0].end_frame) == (seen[0], seen[-1])


def test_standing_objects_are_confirmed_after_the_start_phase():
    assert found(walk((60, 80), (0, 0), LENGTH, (10, 24)), wind=False, phase="start") == []
    (moving,) = found(walk((10, 80), (0.4, 0), LENGTH, (10, 24)), wind=False, phase="start")
    (standing,) = found(walk((60, 80), (0, 0), LENGTH, (10, 24)), wind=False)
    assert [(event.start_frame, event.frames) for event in (moving, standing)] == [(0, LENGTH)] * 2
