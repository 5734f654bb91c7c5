"""Motion events."""

from dataclasses import replace

import pytest
from event_scenes import frame_of, mask_of, separated

from bgsub.errors import ParameterError
from bgsub.events import EventFeed, MotionRules, ObjectLinker
from bgsub.video.regions import Regions

RATE = 10.0
RULES = MotionRules(min_duration=0.2, max_gap=0.5)
AREAS = [0, 20, 30, 40, 90, 0, 0, 20] + [0] * 10


def separation_of(boxes):
    return replace(separated(mask_of(boxes)), phase="tracking")


def steps(feed, areas):
    """Yield the motion of frames with a box of each area."""
    for index, area in enumerate(areas):
        yield feed.step(frame_of(index, RATE), separation_of([(0, 0, area, 1)] if area else [])).motion


@pytest.mark.parametrize(
    ("rules", "moving", "events"),
    [
        ({"min_duration": 0.3}, range(10, 14), [(1.0, 1.3)]),
        ({"min_duration": 0.3}, range(10, 13), []),
        ({"min_duration": 0.3}, {10, 11, 13, 14, 16}, []),
        ({"max_gap": 0.5, "min_duration": 0}, [*range(10, 13), *range(17, 20)], [(1.0, 1.9)]),
        ({"max_gap": 0.5, "min_duration": 0}, [*range(10, 13), *range(18, 20)], [(1.0, 1.2), (1.8, 1.9)]),
        ({"max_gap": 0.5, "min_duration": 0.3}, [*range(10, 14), 18], [(1.0, 1.8)]),
        ({"max_gap": 0, "min_duration": 0}, [*range(10, 13), *range(14, 20)], [(1.0, 1.2), (1.4, 1.9)]),
    ],
)
def test_length_and_gap(rules, moving, events):
    feed, found = EventFeed(ObjectLinker(RATE), MotionRules(**rules), follow=False), []
    for motion in steps(feed, [50 * (index in moving) for index in range(100)]):
        found += motion.ended
    times = [(event.start_time, event.end_time) for event in found + feed.finish_motion()]
    assert times == [pytest.approx(event) for event in events]


@pytest.mark.parametrize(
    ("rules", "times", "starts"),
    [
        (MotionRules(), [0.0, 0.1, 3600.0, 3600.1, 3600.2, 3600.3], [[], [], [], [], [], [3600.0]]),
        (MotionRules(), [0.0, 10.0, 20.5, 30.0, 3600.0, 3610.0], [[], [0.0], [], [], [3600.0], []]),
        (MotionRules(min_duration=0, max_gap=0), [0.0, 0.1, 0.2, 3600.0, 3600.1], [[0.0], [], [], [3600.0], []]),
    ],
)
def test_a_gap_in_the_stream_is_not_motion(rules, times, starts):
    feed, shown = EventFeed(ObjectLinker(), rules, follow=False), separation_of([(0, 0, 50, 1)])
    found = [feed.step(replace(frame_of(index), time=time), shown).motion for index, time in enumerate(times)]
    assert [[event.start_time for event in motion.begun] for motion in found] == starts
    assert found[-1].since == 3600.0


def test_start_and_end_of_an_event():
    feed = EventFeed(ObjectLinker(RATE), RULES)
    found = list(steps(feed, AREAS))
    (event,) = found[3].begun
    assert {index: motion.begun for index, motion in enumerate(found) if motion.begun} == {3: [event]}
    assert {index: motion.ended for index, motion in enumerate(found) if motion.ended} == {13: [event]}
    assert (event.kind, event.id, event.clip) == ("motion", 1, None)
    assert (event.start_frame, event.end_frame, event.start_time, event.end_time) == (1, 7, 0.1, 0.7)
    assert (event.frames, event.peak_area, event.peak_frame) == (5, 90, 4)
    assert [motion.until for motion in found[:5]] == [None, None, None, pytest.approx(0.3), pytest.approx(0.4)]
    assert [motion.since for motion in found[:3]] == [None, pytest.approx(0.1), pytest.approx(0.1)]
    assert [motion.until for motion in found[12:14]] == [pytest.approx(0.7), None]
    assert feed.finish_motion() == []


def test_motion_does_not_depend_on_tracking():
    feeds = [EventFeed(ObjectLinker(RATE), RULES, follow) for follow in (True, False)]
    assert len({repr(list(steps(feed, [*AREAS, *[50] * 6]))) for feed in feeds}) == 1
    assert [len(feed.finish()) for feed in feeds] == [1, 0]


def in_regions(rules, boxes, texts=("gate=0,0,10,10", "street=0,20,100%,10")):
    feed = EventFeed(ObjectLinker(RATE, regions=Regions(texts)), MotionRules(min_duration=0.1, **rules), follow=False)
    return [feed.step(frame_of(index, RATE), separation_of(boxes)).motion for index in range(10)]


@pytest.mark.parametrize(
    ("rules", "boxes", "moving"),
    [
        ({"min_share": 0.2}, [(0, 0, 5, 5)], ["gate"]),  # 25 % of the gate, 0.5 % of the frame
        ({"min_share": 0.2}, [(40, 20, 5, 5)], []),  # 2.6 % of the street
        ({"min_share": 0.2, "region_shares": {"street": 0.02}}, [(40, 20, 5, 5)], ["street"]),
        ({"min_share": 0.2, "region_shares": {"gate": 0.3}}, [(0, 0, 5, 5)], []),
        ({"min_share": 0.02}, [(0, 0, 5, 5), (40, 20, 5, 5)], ["gate", "street"]),
        ({"min_share": 0.0}, [(40, 40, 20, 5)], []),  # outside of both
        ({"min_area": 20}, [(0, 0, 5, 5)], ["gate"]),
        ({"min_area": 26}, [(0, 0, 5, 5)], []),
    ],
)
def test_motion_is_a_share_of_each_region(rules, boxes, moving):
    last = in_regions(rules, boxes)[-1]
    assert last.moving == bool(moving)
    assert ([] if last.lasting is None else last.lasting.regions) == moving


def test_the_box_of_motion_is_that_of_its_largest_part():
    event = in_regions({}, [(0, 0, 5, 5), (40, 20, 9, 6)])[-1].lasting
    assert (event.peak_box, event.peak_area) == ((40, 20, 9, 6), 25 + 54)


def test_thresholds_of_unknown_regions():
    with pytest.raises(ParameterError, match="for a region: gate; got 'gat'; did you mean 'gate'"):
        in_regions({"region_shares": {"gat": 0.1}}, [], ("gate=0,0,10,10",))
    with pytest.raises(ParameterError, match="for a region: none; got 'gate'"):
        EventFeed(ObjectLinker(RATE), MotionRules(region_shares={"gate": 0.1}))
    with pytest.raises(ParameterError, match=r"min_share must lie in \[0, 1\], got 2"):
        MotionRules(region_shares={"gate": 2})


def test_regions_are_replaced_while_objects_move():
    """Objects that are confirmed later have sights in frames before."""
    regions = [None, Regions(["a=0,0,64,30"]), Regions(["b=0,0,100%,100%"]), None]
    feed = EventFeed(ObjectLinker(RATE, regions=regions[0]), RULES)
    for index in range(80):
        if index % 7 == 3:
            feed.replace_regions(regions[index // 7 % 4])
        boxes = [(index % 40, 10, 8, 8)] if index % 20 < 15 else []
        step = feed.step(frame_of(index, RATE), separation_of(boxes))
        assert set(feed.regions.names) >= {name for one in step.objects if one.frame == index for name in one.regions}
    feed.regions.finish()
    assert [row[0] for row in feed.regions.rows()] == list(feed.regions.names)
