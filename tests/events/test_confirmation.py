"""Confirmation of tracks: flickering leaves are no objects, small and slow objects are."""

import numpy as np
import pytest
from event_scenes import RATE, frame_of, separated, walk

from bgsub.events import ObjectLinker
from bgsub.events.track import TrackConfirmation

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


@pytest.mark.parametrize("fps", [2, 1 / 3])
def test_leaves_at_every_frame_rate(fps):
    linker, events = ObjectLinker(), 0
    for index, mask in enumerate(leaves(np.random.default_rng(1))):
        linker.update(frame_of(index, fps, SHAPE), separated(mask, y=(0.0,) if index >= 50 else ()))
        events += len(linker.take_finished())
    assert events + len(linker.finish()) <= 6


@pytest.mark.parametrize(("steps", "expected"), [([(2, 0)] * 9, 9), ([(2, 0), (-2, 0)] * 5, 0)])
def test_motion_measure(steps, expected):
    confirmation, place = TrackConfirmation((0.0, 0.0), (0.0, 0.0)), np.zeros(2)
    for step in steps:
        place = place + step
        confirmation.add(tuple(place), 0.0, 0.04, 0.0)
    assert confirmation.motion == pytest.approx(expected)
