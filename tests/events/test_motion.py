"""Moments with motion: when they begin and end, and what is said of them."""

from __future__ import annotations

import json

import pytest
from event_scenes import frame_of, mask_of, separated

from bgsub.events import EventFeed, MotionRules, ObjectLinker
from bgsub.events.motion import MotionGate
from bgsub.separation import Separation

RATE = 10.0


def gate(rules, moving, fps=RATE):
    """Return (since, last) of each moment that the indices with motion make, by a gate over 100 frames."""
    one, moments = MotionGate(rules), []
    for index in range(100):
        if one.update(index / fps, index in moving):
            moments.append([one.since, one.last])
        elif one.certain:
            moments[-1][1] = one.last
    return moments


@pytest.mark.parametrize(
    ("rules", "moving", "moments"),
    [
        # As long as it must be, and one frame less.
        ({"min_duration": 0.3}, range(10, 14), [(1.0, 1.3)]),
        ({"min_duration": 0.3}, range(10, 13), []),
        ({"min_duration": 0.3}, {10, 11, 13, 14, 16}, []),
        # The gap is as long as it may be, and one frame more.
        ({"max_gap": 0.5, "min_duration": 0}, [*range(10, 13), *range(17, 20)], [(1.0, 1.9)]),
        ({"max_gap": 0.5, "min_duration": 0}, [*range(10, 13), *range(18, 20)], [(1.0, 1.2), (1.8, 1.9)]),
        # What comes again within the gap need not be long.
        ({"max_gap": 0.5, "min_duration": 0.3}, [*range(10, 14), 18], [(1.0, 1.8)]),
        # Without a gap it lasts as long as every frame shows it.
        ({"max_gap": 0, "min_duration": 0}, [*range(10, 13), *range(14, 20)], [(1.0, 1.2), (1.4, 1.9)]),
    ],
)
def test_length_and_gap(rules, moving, moments):
    assert gate(MotionRules(**rules), moving) == [pytest.approx(moment) for moment in moments]


def test_an_hour_without_frames_ends_a_moment_even_in_motion():
    one = MotionGate(MotionRules(min_duration=0, max_gap=0))
    assert [one.update(time, True) for time in (0.0, 0.1, 0.2, 3600.0, 3600.1)] == [True, False, False, True, False]
    assert one.since == 3600.0


def steps(feed, areas, first=0):
    """Show the feed a box of that area in each frame."""
    for index, area in enumerate(areas, first):
        mask = mask_of([(0, 0, area, 1)] if area else [])
        shown = separated(mask)
        moving = Separation(shown.frame, mask, shown.background, shown.residual, shown.coefficients, "tracking")
        yield feed.step(frame_of(index, RATE), moving).motion


def test_a_moment_begins_when_it_is_certain_and_ends_after_the_gap():
    feed = EventFeed(ObjectLinker(RATE), MotionRules(min_duration=0.2, max_gap=0.5))
    areas = [0, 20, 30, 40, 90, 0, 0, 20] + [0] * 10
    found = list(steps(feed, areas))
    assert [index for index, motion in enumerate(found) if motion.begun] == [3]
    assert [index for index, motion in enumerate(found) if motion.ended] == [13]
    (moment,) = found[3].begun
    assert found[13].ended == [moment]
    assert (moment.kind, moment.id, moment.clip) == ("motion", 1, None)
    assert (moment.start_frame, moment.end_frame, moment.start_time, moment.end_time) == (1, 7, 0.1, 0.7)
    assert (moment.frames, moment.peak_area, moment.peak_frame) == (5, 90, 4)
    assert [motion.until for motion in found[:5]] == [None, None, None, pytest.approx(0.3), pytest.approx(0.4)]
    assert [motion.since for motion in found[:3]] == [None, pytest.approx(0.1), pytest.approx(0.1)]
    assert found[12].until == pytest.approx(0.7)
    assert found[13].until is None
    assert feed.finish_motion() == []


def test_a_moment_that_lasts_ends_with_the_feed():
    feed = EventFeed(ObjectLinker(RATE), MotionRules(min_duration=0))
    list(steps(feed, [50] * 5))
    (moment,) = feed.finish_motion()
    assert (moment.start_frame, moment.end_frame) == (0, 4)
    assert feed.finish_motion() == [moment]


@pytest.mark.parametrize("at", range(1, 18))
def test_moments_go_on_from_a_checkpoint(at):
    areas = [0, 20, 30, 40, 90, 0, 0, 20, 0, 0, 0, 0, 0, 0, 30, 30, 30, 30]
    rules = MotionRules(min_duration=0.2, max_gap=0.5)
    whole = list(steps(EventFeed(ObjectLinker(RATE), rules), areas))
    first = EventFeed(ObjectLinker(RATE), rules)
    before = list(steps(first, areas[:at]))
    state = json.loads(json.dumps(first.checkpoint(first)))
    second = EventFeed(ObjectLinker(RATE), rules)
    second.resume(state)
    after = list(steps(second, areas[at:], at))
    assert [motion.ended for motion in before + after] == [motion.ended for motion in whole]
    assert [motion[2:6] for motion in before + after] == [motion[2:6] for motion in whole]


def test_moments_are_the_same_where_no_objects_are_followed():
    areas = [0, 20, 30, 40, 90, 0, 0, 20] + [0] * 10 + [50] * 6
    rules = MotionRules(min_duration=0.2, max_gap=0.5)
    feeds = [EventFeed(ObjectLinker(RATE), rules, follow) for follow in (True, False)]
    assert len({repr(list(steps(feed, areas))) for feed in feeds}) == 1
    assert [len(feed.finish()) for feed in feeds] == [1, 0]
