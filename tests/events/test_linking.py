"""Tracking of objects."""

import dataclasses
import json

import numpy as np
import pytest
from event_scenes import RATE, SHAPE, busy, frame_of, linked, mask_of, pairs, separated, together, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.errors import ParameterError
from bgsub.events import ObjectLinker
from bgsub.events._state import dump, load
from bgsub.events.detection import Detection, look
from bgsub.events.linking import LinkerState
from bgsub.video.regions import Regions
from bgsub.video.sources.base import Frame


def link(frames, fps=RATE, events=None, **options):
    return linked(ObjectLinker(RATE, **options), frames, fps, events)


def ids(objects, frames, boxes):
    """Return the IDs of the objects at the box of each frame in some frames."""
    return {one.id for one in objects if one.frame in frames and one.box == boxes[one.frame]}


def test_an_object_at_constant_speed_is_one_event():
    boxes = walk((0, 10), (3, 1), 25)
    (event,), objects = link(together(boxes))
    assert (event.kind, event.id, event.start_frame, event.end_frame, event.frames) == ("object", 1, 0, 24, 25)
    assert (event.start_time, event.end_time, [box[1:] for box in event.boxes]) == (0.0, 24 / RATE, boxes)
    assert (event.areas, event.centroids[0]) == ([96] * 25, (3.5, 15.5))
    assert [(one.frame, one.box, one.id) for one in objects] == [(i, box, 1) for i, box in enumerate(boxes)]
    assert all(one.mask.all() and one.mask.shape == (12, 8) for one in objects)


# The right and the lower gap between the parts; -8 if one is not beside or below the other.
@pytest.mark.parametrize(("x", "y", "count"), [(2, -8, 1), (3, -8, 2), (-8, 6, 1), (-8, 7, 2), (1, 6, 2)])
def test_parts_closer_than_the_join_are_one_object(x, y, count):
    _, objects = link([[(10, 10, 8, 8), (18 + x, 18 + y, 8, 8)]] * 6, join=1)
    assert (len({one.id for one in objects}), sum(one.area for one in objects if one.frame == 5)) == (count, 128)


# The gap is counted from the last sight to the next one: 25 intervals of 40 ms are still within 1 s.
@pytest.mark.parametrize(("gap", "fps", "count"), [(25, 25, 1), (26, 25, 2), (5, 5, 1), (6, 5, 2)])
def test_gaps_up_to_a_second_are_bridged(gap, fps, count):
    boxes = walk((5, 10), (1, 0), 20 + gap)
    events, _ = link(together(boxes[:10] + [None] * (gap - 1) + boxes[9 + gap :]), fps=fps)
    assert len(events) == count


@pytest.mark.parametrize("dy", [0, 3])
def test_objects_that_cross_keep_their_identities(dy):
    left, right = walk((0, 10), (2, 0), 40), walk((84, 10 + dy), (-2, 0), 40, (8, 14))
    events, objects = link(together(left, right))
    assert len(events) == 2
    for walked in (left, right):
        assert ids(objects, range(10), walked) == ids(objects, range(30, 40), walked)
        assert len(ids(objects, range(10), walked)) == 1


def test_the_larger_part_keeps_the_identity_after_a_split():
    whole = [[(20, 10, 30, 20)]] * 10
    parts = [[(20 - i, 10, 18, 20), (40 + i, 10, 10, 20)] for i in range(15)]
    _, objects = link(whole + parts, join=0)
    assert {one.area: one.id for one in objects if one.frame == 24} == {360: 1, 200: 2}


def test_the_larger_object_keeps_the_identity_after_a_merge():
    events, objects = link(together(walk((0, 10), (1, 0), 30, (20, 20)), walk((60, 12), (-1, 0), 30, (8, 12))))
    first = {one.area: one.id for one in objects if one.frame == 5}
    (merged,) = (one for one in objects if one.frame == 22)
    assert (merged.id, merged.area > 400, len(events)) == (first[400], True, 2)


def test_satellites_are_no_objects_until_they_move_away():
    body = [(40, 10, 16, 24)] * 30
    attached = [None] * 10 + [(58, 20, 4, 8)] * 20
    assert [event.frames for event in link(together(body, attached), join=0)[0]] == [30]
    leaving = [None] * 10 + walk((58, 20), (0.4, 0), 20, (4, 8))
    events, _ = link(together(body, leaving), join=0)
    assert len(events) == 2
    assert min(event.start_frame for event in events if event.id == 2) > 10


def test_remains_of_a_light_change_are_no_objects():
    spot = [None] * 10 + [(10, 10, 8, 8)] * 35
    assert link(together(spot), events={10: "light-change"})[0] == []
    assert len(link(together(spot))[0]) == 1
    known_before = link(together(spot), events={16: "light-change"})[0]
    assert [event.start_frame for event in known_before] == [10]
    stays = link([[(10, 10, 8, 8)]] * 42, events={2: "light-change"})[0]
    assert [event.start_frame for event in stays] == [0]


def test_an_object_that_walks_is_known_at_once_after_a_light_change():
    walker, grows = walk((10, 10), (1, 0), 20), [(60, 10, 4 + i, 8) for i in range(20)]
    shrinks = [(10, 40, 80 - 4 * i, 2) for i in range(20)]
    events, _ = link(together(walker, grows, shrinks), events={2: "light-change"}, join=0)
    assert [event.boxes[0][1:] for event in events] == [walker[0]]


def test_the_velocity_of_a_swaying_walker_is_that_of_its_way():
    linker = ObjectLinker(RATE)
    for pair in pairs(together([(5 + 2 * i + 2 * (i % 2), 10, 8, 12) for i in range(40)])):
        linker.update(*pair)
    (track,) = linker.state.tracks
    assert track.velocity == pytest.approx((2 * RATE, 0), abs=0.06 * 2 * RATE)


def test_a_cut_ends_all_objects():
    events, _ = link(together(walk((10, 10), (0, 0), 30)), events={15: "scene-change"})
    assert [(event.start_frame, event.end_frame) for event in events] == [(0, 14), (15, 29)]


def test_peak_and_bounded_track(monkeypatch):
    monkeypatch.setattr("bgsub.events.track._MOST_POINTS", 16)
    (event,), objects = link([[(10, 10, 14 if index in (2, 3) else 8, 10)] for index in range(203)])
    assert (event.peak_area, event.peak_frame, event.peak_box) == (140, 2, (10, 10, 14, 10))
    assert event.frames == len(objects) == 203
    assert len(event.boxes) == len(event.areas) == len(event.centroids) == len(event.times) <= 16
    assert [box[0] for box in event.boxes] == list(range(0, 203, event.step))


@pytest.mark.parametrize(("high", "count"), [(60, 1), (80, 2)])  # too large for 59 and 79 frames: 2.4 and 3.2 s
def test_an_object_is_followed_for_some_time_while_it_is_too_large(high, count):
    widths = [10, *range(11, 31), *[30] * high, *range(30, 10, -1)]
    boxes = [(30 - width // 2, 10, width, 10) for width in widths]
    events, objects = link(together(boxes), max_width=0.3)
    assert [one.frame for one in objects] == [i for i, box in enumerate(boxes) if box[2] <= 0.3 * SHAPE[1]]
    assert len(events) == count
    assert max(event.peak_box[2] for event in events) <= 0.3 * SHAPE[1]


def test_an_object_that_is_first_too_large_begins_when_it_is_not():
    boxes = [(20 + i, 10, 40 - i, 10) for i in range(30)]
    (event,), _ = link(together(boxes), max_width=0.3)
    assert event.boxes[0][0] == next(i for i, box in enumerate(boxes) if box[2] <= 0.3 * SHAPE[1])
    assert link([[(10, 10, 40, 10)]] * 10, max_width=0.3) == ([], [])


def test_an_object_that_turns_while_it_is_too_large_is_followed():
    way = [*range(10, 50), *range(50, 10, -1)]
    boxes = [(x, 10, 11 if 30 < i < 50 else 9, 10 + 8 * (i > 40)) for i, x in enumerate(way)]
    events, _ = link(together(boxes), max_width=0.105)
    assert sum(event.frames for event in events) == sum(box[2] == 9 for box in boxes)


def test_regions_visited_in_order():
    regions = Regions(["right=60,0,36,48", "left=0,0,30,48"])
    events, objects = link(together(walk((0, 10), (2, 0), 40)), regions=regions)
    assert events[0].regions == ["left", "right"]
    assert [one.regions for one in objects if one.frame in (0, 20, 39)] == [("left",), (), ("right",)]
    filled, _ = link([[(10, 10, 30, 30)]] * 10, regions=Regions(["door=20,20,4,4"]))
    assert filled[0].regions == ["door"]


@pytest.mark.parametrize(
    "wrong",
    [{"fps": 0.0}, {"max_gap": -1}, {"min_duration": float("nan")}, {"min_area": 0}, {"join": -1}, {"max_hidden": -2}],
)
def test_invalid_numbers(wrong):
    with pytest.raises(ParameterError, match=f"^{next(iter(wrong))} must be"):
        ObjectLinker(**wrong)


def test_mirrored_frames_give_mirrored_events():
    width = SHAPE[1]
    frames = together(walk((0, 2), (1, 0), 30), walk((60, 20), (0.5, 0), 30), [None] * 5 + walk((30, 34), (0, 0), 20))
    mirrored = [[(width - x - w, y, w, h) for x, y, w, h in boxes] for boxes in frames]
    back = [[(i, width - x - w, y, w, h) for i, x, y, w, h in event.boxes] for event in link(mirrored)[0]]
    assert sorted(back) == sorted(event.boxes for event in link(frames)[0])


@pytest.mark.parametrize("uneven", [False, True])
def test_restored_state_is_identical(uneven):
    frames = list(pairs(busy()))
    if uneven:
        times = np.cumsum(np.resize([0.04, 0.04, 0.4, 0.05, 0.04, 1.2, 0.3], len(frames)))
        frames = [(dataclasses.replace(frame, time=t), one) for (frame, one), t in zip(frames, times, strict=True)]
    image = np.random.default_rng(0).integers(0, 256, (*SHAPE, 3)).astype(np.uint8)
    frames = [(dataclasses.replace(frame, image=np.roll(image, 9 * frame.index)), one) for frame, one in frames]

    def follow(linker, frames):
        """Return all that a linker tells, and its state before each frame."""
        told, states = [], []
        for frame, separation in frames:
            states.append(json.dumps(dump(linker.state), allow_nan=False))
            told.append([dump(linker.update(frame, separation)), dump(linker.take_finished())])
            told[-1] += [linker.settled, linker.gap, dump(linker.state)]
        return [*told, dump(linker.finish())], states

    told, states = follow(ObjectLinker(RATE), frames)
    for cut in (0, 5, 13, 26):
        torn = ObjectLinker(RATE)
        torn.state = load(LinkerState, json.loads(states[cut]))
        assert follow(torn, frames[cut:])[0] == told[cut:]


boxes = st.tuples(st.integers(0, 90), st.integers(0, 40), st.integers(1, 20), st.integers(1, 20))


@settings(max_examples=25)
@given(st.lists(st.lists(boxes, max_size=6), max_size=25))
def test_objects_are_reported_once_per_frame(frames):
    linker = ObjectLinker(RATE, min_area=1, join=0)
    masks = [mask_of(frame) for frame in frames]
    events, objects = linked(linker, frames)
    assert len({(one.id, one.frame) for one in objects}) == len(objects)
    covered = np.zeros((len(frames), *SHAPE), int)
    for one in objects:
        x, y, w, h = one.box
        covered[one.frame, y : y + h, x : x + w] += one.mask
        assert one.area == np.count_nonzero(one.mask)
    assert covered.max(initial=0) <= 1
    assert all((masks[index][part > 0] == 255).all() for index, part in enumerate(covered))
    assert sorted(event.id for event in events) == list(range(1, len(events) + 1))
    for event in events:
        mine = sorted(one.frame for one in objects if one.id == event.id)
        assert (event.start_frame, event.end_frame, event.frames) == (mine[0], mine[-1], len(mine))
    assert linker.settled is None


@pytest.mark.parametrize("fps", [0.1, 4.9, 60])
def test_one_object_at_every_frame_rate(fps):
    boxes = walk((5, 10), (2, 0), 30)
    (event,), objects = link(together([None] * 3 + boxes), fps=fps)
    assert (len(objects), event.end_time - event.start_time) == (len(boxes), pytest.approx(29 / fps))
    once = link([[]] * 4 + [[(20, 10, 8, 12)]] + [[]] * 3, fps=fps)[0]
    assert len(once) == (fps < 5)  # one sight is enough at low frame rates


@pytest.mark.parametrize("fps", [5, 10, 25])
@pytest.mark.parametrize("jitter", [0, 1])
def test_an_object_seen_in_every_second_frame_is_one_object(fps, jitter):
    boxes = [[] if index % 2 else [(20, 10, 16, 24 - jitter * (index % 4 == 0))] for index in range(200)]
    (event,), objects = link([[]] * 4 + boxes, fps=fps)
    assert (event.start_frame, event.end_frame, event.frames, len(objects)) == (4, 202, 100, 100)


def test_a_track_is_not_undecided_for_ever():
    """Sights and gaps are in balance: 4 of 9 frames."""
    linker, longest = ObjectLinker(RATE), 0
    for frame, separation in pairs([[]] * 4 + [[(20, 10, 8, 12)] if i % 9 in (0, 2, 4, 6) else [] for i in range(450)]):
        linker.update(frame, separation)
        longest = max([longest, *(len(track.pending) for track in linker.state.tracks)])
    assert longest <= 10 * 0.2 * RATE
    assert len(linker.finish()) == 1


def test_a_standing_track_is_decided_although_the_model_never_learns():
    linker, seen, mask = ObjectLinker(RATE), 0, mask_of([(20, 10, 8, 12)])
    for index in range(1500):
        seen += len(linker.update(frame_of(index), separated(mask)))
        assert sum(len(track.pending) for track in linker.state.tracks) <= 1000
    (event,) = linker.finish()
    assert seen == event.frames == 1500


@pytest.mark.parametrize(("sights", "ends"), [([10], []), (range(20), [19])])
def test_gaps_in_the_stream_do_not_count_as_time_in_sight(sights, ends):
    linker = ObjectLinker()
    for index, time in enumerate([*np.arange(10) / 25, *(60 + np.arange(10) / 25)]):
        mask = mask_of([(20, 10, 8, 12)] if index in sights else [])
        linker.update(Frame(index, "a", time, np.zeros(SHAPE, np.uint8)), separated(mask, y=(0.0,)))
    assert [event.end_frame for event in linker.finish()] == ends


def test_rare_frames_show_objects_once_although_most_tracks_were_lost():
    """Every frame shows another car in another place."""
    frames = [[(10 * (7 * index % 8), 10 + 9 * (index % 3), 9, 7)] if index % 2 else [] for index in range(40)]
    frames = [[]] * 4 + frames
    events, objects = link(frames, fps=1)
    assert [event.frames for event in events] == [1] * 20
    assert [one.box for one in objects] == [boxes[0] for boxes in frames if boxes]
    assert all(event.start_time == event.end_time == event.start_frame for event in events)
    assert len(link(frames, fps=25)[0]) < 5


@pytest.mark.parametrize(("size", "seconds", "count"), [((20, 14), 0.2, 2), ((20, 14), 1.0, 2), ((9, 12), 0.2, 1)])
def test_an_object_that_takes_the_place_of_another_is_a_new_one(size, seconds, count):
    """A small object moves to the left and vanishes in one that comes back; with its own size, it has turned."""
    comes, returns = walk((70, 10), (-1, 0), 55, (8, 12)), walk((15, 9), (1, 0), 60, size)
    events, objects = link([[box] for box in comes + returns], min_duration=seconds)
    assert len(events) == count
    assert min(event.frames for event in events) >= seconds * 25
    assert ({one.frame for one in objects}, events[-1].boxes[-1][1:]) == (set(range(115)), returns[-1])
    assert len(link([[box] for box in comes + returns[:20]], min_duration=1.0)[0]) == 1  # the other one is too short


RED, BLUE, GREEN = (40, 40, 160), (160, 40, 40), (40, 160, 40)


def link_painted(frames, grey=False, linker=None):
    """Return the objects of frames of boxes with colours; later boxes lie in front."""
    linker, objects = linker or ObjectLinker(RATE), []
    for index, painted in enumerate(frames):
        image = np.full((*SHAPE, 3), 90, np.uint8)
        for (x, y, w, h), colour in painted:
            image[y : y + h, x : x + w] = colour
        frame = Frame(index, "a", index / RATE, image[..., 0] if grey else image)
        objects += linker.update(frame, separated(mask_of([box for box, _ in painted]), y=(0.0,)))
    return objects


@pytest.mark.parametrize(("grey", "kept"), [(False, True), (True, False)])
def test_colours_tell_objects_that_turn_from_objects_that_pass(grey, kept):
    """Two objects meet, stay together for half a second and go back; the motion alone looks like a crossing."""
    here = [(2 * min(i, 19, 50 - i) + 2, 10, 8, 12) for i in range(51)]
    there = [(86 - x, 10, 8, 12) for x, *_ in here]
    objects = link_painted([[(a, RED), (b, BLUE)] for a, b in zip(here, there, strict=True)], grey)
    for way in (here, there):
        assert (ids(objects, range(10), way) == ids(objects, range(46, 51), way)) is kept


@pytest.mark.parametrize(("colour", "kept"), [(BLUE, True), (RED, False)])
def test_the_part_with_the_colours_of_the_object_keeps_the_identity(colour, kept):
    """A larger object, which was never alone before, leaves the first one."""
    small = [(30, 14, 8, 12)] * 50
    large = [(96, 8, 0, 0)] * 25 + [(max(38, 58 - i), 8, 18, 22) for i in range(10)]
    large += [(48 + 2 * min(i, 8), 8, 18, 22) for i in range(15)]
    large = large[:25] + [(38, 8, 18, 22)] * 10 + large[35:]
    objects = link_painted([[(small[0], RED), (box, colour)] for box in large])
    assert (ids(objects, range(20), small) == ids(objects, range(45, 50), small)) is kept


def test_a_hidden_object_gets_no_part_of_other_colours():
    """The hidden object leaves unseen; a third one, which comes with the first, is a new object."""
    first, second = [(20, 10, 14, 20)] * 70, walk((80, 12), (-2, 0), 70, (8, 12))
    third = [(34, 14, 8, 12)] * 10 + [(min(34 + 2 * i, 80), 14, 8, 12) for i in range(30)]
    frames = [[(first[i], RED), (second[i], BLUE)] for i in range(30)]
    for colour, count in ((GREEN, 3), (BLUE, 2)):
        halves = [[((x, 14, 8, 6), BLUE), ((x, 20, 8, 6), colour)] for x, *_ in third]
        objects = link_painted(frames + [[(first[0], RED), *painted] for painted in halves])
        assert len({one.id for one in objects}) == count


def test_the_look_is_independent_of_brightness_size_and_depth():
    mask = np.ones((60, 40), bool)
    one = Detection((5, 5, 40, 60), (25.0, 35.0), 2400, mask)
    image = np.full((80, 60, 3), RED, np.uint8)
    usual = look(image, one)
    part = Detection((5, 5, 4, 6), (7.0, 8.0), 24, mask[:6, :4])
    deep = image.astype(np.uint16) * 257
    for other in (usual, look(image // 2, one), look(image, part), look(deep, one), look(image / 255, one)):
        assert other @ usual == pytest.approx(1)
    assert look(np.full((80, 60, 3), BLUE, np.uint8), one) @ usual == pytest.approx(0)
    assert [look(grey, one) for grey in (image[..., 0], image[..., :1], image[..., :2])] == [None] * 3
    np.testing.assert_array_equal(look(np.dstack([image, image[..., 0]]), one), usual)  # BGRA


def followed(seconds, colour=RED):
    """Return the track of an object at (20, 30) that is seen 25 times a second for some seconds."""
    linker = ObjectLinker(RATE)
    way = walk((20, 30), (10 / RATE, -5 / RATE), round(seconds * RATE))
    link_painted([[(box, colour)] for box in way], linker=linker)
    (track,) = linker.state.tracks
    return track


def test_places_are_predicted_at_constant_velocity():
    track = followed(0.2)
    track.velocity = (10.0, -5.0)
    x, y = track.last.centroid
    assert track.predicted(track.clock) == (x, y)
    assert track.predicted(track.clock + 0.8) == pytest.approx((x + 8, y - 4))
    assert track.shift(track.clock + 0.8) == (8, -4)
    track.freeze(track.clock + 0.4)  # the velocity is kept while it is merged
    track.freeze(track.clock + 0.6)
    track.last, track.clock = followed(0.04).last, track.clock + 0.8
    assert track.predicted(track.clock) == pytest.approx((x + 8, y - 4))


def test_the_track_of_another_object_begins_with_its_newest_sight():
    track = followed(1.0)
    track.replace(30, 1.2, 0.04, 0.4)
    assert (track.event.id, track.event.start_frame, track.event.start_time, track.event.frames) == (0, 30, 1.2, 0)
    assert (track.seen, len(track.recent), track.walked, track.solid) == (0.04, 1, 0, 0.4)
    assert track.origin == track.last.centroid


def test_the_look_is_learned_only_while_no_other_object_is_part_of_it():
    track, blue = followed(0.4), followed(0.04, colour=BLUE).last
    alone = track.look
    track.freeze(track.clock)
    track.see(blue, track.clock + 0.04, 0.04, 0.04, 0.04)
    assert track.look is alone
    track.anchor = None
    track.see(blue, track.clock + 0.04, 0.04, 0.04, 0.04)
    assert 0 < track.look @ blue.look < 1
    assert np.linalg.norm(track.look) == pytest.approx(1)
