"""Drawing of boxes, IDs, regions, time and events."""

import itertools

import numpy as np
import pytest
from event_scenes import frame_of, mask_of, separated

from bgsub.events import EventFeed, ObjectLinker
from bgsub.events.annotation import COLOURS, annotate, outlines_of
from bgsub.video.regions import Regions

GREY = 100


def steps(frames, shape, events=None, fps=25.0):
    feed = EventFeed(ObjectLinker(fps))
    for index, boxes in enumerate(frames):
        separation = separated(mask_of(boxes, shape), (events or {}).get(index), (0.0,))
        yield feed.step(frame_of(index, fps, shape), separation)


def last(frames, shape, **options):
    return list(steps(frames, shape, **options))[-1]


def plain(height, width):
    return np.full((height, width, 3), GREY, np.uint8)


def changed(picture):
    return (picture != GREY).any(axis=2)


@pytest.mark.parametrize("zoom", [1, 2, 0.5])
def test_only_boxes_and_labels_are_drawn(zoom):
    shape = (480, 640)
    x, y, w, h = 300, 200, 60, 80
    step = last([[(x, y, w, h)]] * 12, shape)
    given = plain(round(480 * zoom), round(640 * zoom))
    picture = annotate(step, {}, given)
    assert (given == GREY).all()
    left, top, right, bottom = (round(zoom * value) for value in (x, y, x + w, y + h))
    edges = picture[[top, bottom - 1], left:right], picture[top:bottom, [left, right - 1]]
    assert all((edge == COLOURS[1]).all() for edge in edges)
    ink = changed(picture)
    assert not ink[top + 6 : bottom - 6, left + 6 : right - 6].any()  # the object itself is not covered
    for box in ((left - 6, top - 6, right + 6, bottom + 6), (left - 6, top - 40, left + 40, top)):  # box, label
        x0, y0, x1, y1 = (max(place, 0) for place in box)
        assert ink[y0:y1, x0:x1].any()
        ink[y0:y1, x0:x1] = False
    assert ink[:40, picture.shape[1] // 2 :].any()  # the time
    ink[:40, picture.shape[1] // 2 :] = False
    assert not ink.any()


@pytest.mark.parametrize(("size", "tiles"), [((1, 1), 1), ((1, 400), 2), ((400, 1), 1), ((480, 1280), 2)])
def test_pictures_of_any_size(size, tiles):
    height, width = size
    box = (width // 4, height // 4, max(width // 4, 1), max(height // 3, 1))
    step = last([[box]] * 12, size, events={11: "light-change"})
    outlines = outlines_of(Regions(["all=0,0,100%,100%"]), size)
    picture = annotate(step, outlines, plain(height * tiles, width * tiles), tiles)
    assert picture.dtype == np.uint8
    assert picture.shape[0] >= 240 or picture.shape[1] >= 320
    assert picture.shape[1] * height == picture.shape[0] * width  # no other proportions
    if min(picture.shape[0] / 240, picture.shape[1] / 320) >= 1:
        last_column = annotate(step, {}, plain(size[0] * tiles, size[1] * tiles), tiles)[:, -1]
        height = int(np.argmax(last_column.any(axis=1)))  # of the line in the upper right corner
        assert 12 <= height <= picture.shape[0] / 12


def test_outlines_of_regions():
    outlines = outlines_of(Regions(["door=100,100,60,80", "lane=50%,90%;90%,90%;70%,60%"]), (480, 640))
    assert list(outlines) == ["door", "lane"]
    tiles = annotate(last([[(500, 100, 60, 80)]] * 12, (480, 640)), outlines, plain(960, 1280), 2)
    for row, column in itertools.product((0, 480), (0, 640)):
        assert (tiles[row + 100, column + 500 : column + 560] == COLOURS[1]).all()
        assert changed(tiles[row + 95 : row + 106, column + 110 : column + 150]).any()
    picture = annotate(last([[]], (480, 640)), outlines, plain(480, 640))
    colours = {tuple(colour) for colour in picture[130:150, 90:110].reshape(-1, 3).tolist()}
    assert colours == {(GREY, GREY, GREY), (0, 0, 0), (255, 255, 255)}
    across = picture[140, 96:105, 0].tolist()
    assert across[0] == across[-1] == GREY
    assert across[3:6] == [255, 0, 255]
    assert not changed(picture)[110:170, 110:150].any()


def test_names_of_events_are_shown_for_two_seconds():
    found = list(steps([[]] * 80, (240, 320), events={3: "light-change", 20: "covered"}))
    both = ("light-change", "covered")
    expected = {2: (), 3: both[:1], 20: both, 52: both, 55: both[1:], 72: ()}
    assert {index: found[index].recent for index in expected} == expected
