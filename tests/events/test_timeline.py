"""The timeline: bounded memory, no lost peak, a picture at the end, the same after a kill."""

import json
import sys
from itertools import pairwise

import numpy as np
import pytest
from event_scenes import RATE, busy, close, pairs, together, walk, write
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub._opencv import cv2
from bgsub.errors import DependencyError, ParameterError
from bgsub.events import EventSink, TimelineSink, create_event_sinks, make_feed
from bgsub.events.series import Series
from bgsub.events.timeline import MOST_BARS, Bar, longest, packed
from bgsub.video.regions import Regions
from bgsub.video.sources.array import ArraySource

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=200), st.sampled_from([4, 8, 32]))
def test_no_peak_is_lost_and_the_memory_is_bounded(values, most):
    series = Series(1, most)
    for index, value in enumerate(values):
        series.add(float(index), np.array([value]))
    times, low, high = series.points()
    assert len(times) == len(low) == len(high) <= most
    assert (low.min(), high.max()) == (min(values), max(values))
    assert times[0] == 0
    assert (np.diff(times) > 0).all()
    for begin, end, least, largest in zip(times, [*times[1:], len(values)], low, high, strict=True):
        part = values[int(begin) : int(end)]
        assert (least[0], largest[0]) == (min(part), max(part))


def test_missing_values_do_not_hide_others():
    series = Series(1, 4)
    for index, value in enumerate([np.nan, 1.0, np.nan, np.nan, 3.0, np.nan]):
        series.add(float(index), np.array([value]))
    _, low, high = series.points()
    np.testing.assert_array_equal(high[:, 0], [1, np.nan, 3])
    np.testing.assert_array_equal(low[:, 0], high[:, 0])


def test_a_series_goes_on_after_a_kill():
    values = np.random.default_rng(2).normal(size=(50, 3))
    straight, torn = Series(3, 8), Series(3, 8)
    for index, row in enumerate(values):
        if index % 7 == 3:
            torn = Series.restored(json.loads(json.dumps(torn.state(), allow_nan=False)))
        straight.add(index / 25, row)
        torn.add(index / 25, row)
    for one, other in zip(straight.points(), torn.points(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_bars_in_a_row_do_not_touch():
    rng = np.random.default_rng(4)
    starts = np.sort(rng.uniform(0, 100, 60))
    bars = [Bar("object", i, float(s), float(s + rng.uniform(0.1, 20))) for i, s in enumerate(starts)]
    rows = packed(bars, 0.5)
    for row in set(rows):
        mine = [bar for bar, at in zip(bars, rows, strict=True) if at == row]
        assert all(b.start - a.end >= 0.5 for a, b in pairwise(mine))
    most = max(sum(bar.start <= at <= bar.end + 0.5 for bar in bars) for at in starts)
    assert max(rows) + 1 == most


def test_only_the_longest_bars_are_kept():
    bars = [Bar("object", i, float(i), i + (i % 10) / 10) for i in range(MOST_BARS + 200)]
    kept = longest(bars)
    assert len(kept) == MOST_BARS
    assert [bar.start for bar in kept] == sorted(bar.start for bar in kept)
    assert min(bar.id % 10 for bar in kept) >= 2


def test_a_picture_is_there_at_the_end_only(tmp_path):
    path = tmp_path / "out" / "timeline.png"
    sink = TimelineSink(path, "a lobby", regions=Regions(["left=0,0,50%,100%", "50%,0,50%,100%"]))
    write(pairs(busy(), RATE, {8: "light-change", 20: "covered", 21: "covered", 30: "scene-change"}), sink)
    assert not path.exists()
    sink.close()
    sink.close()
    image = cv2.imread(str(path))
    assert image.shape[1] == 1320
    assert 500 < image.shape[0] < 1200
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 50
    assert [path.name for path in path.parent.iterdir()] == ["timeline.png"]
    assert [mark.kind for mark in sink.timeline.marks] == ["light-change", "covered", "scene-change"]
    assert (sink.timeline.marks[1].start, sink.timeline.marks[1].end) == (0.8, 0.84)
    assert sink.timeline.coefficients is not None
    assert sink.timeline.counts.points()[2].max() == 2


def test_the_picture_of_a_run_without_objects_times_or_coefficients(tmp_path):
    with TimelineSink(tmp_path / "timeline.png") as sink:
        write(pairs([[]] * 3, rate=None), sink)
    assert not sink.timeline.timed
    assert cv2.imread(str(tmp_path / "timeline.png")).size


def test_no_frame_and_no_success_give_no_picture(tmp_path):
    with TimelineSink(tmp_path / "a" / "timeline.png"):
        pass
    failed = TimelineSink(tmp_path / "b" / "timeline.png")
    write(pairs(busy(5)), failed)
    failed.abort()
    failed.close()
    assert not [*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()]


def test_a_timeline_is_a_png_and_takes_matplotlib(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match=r"a timeline is a file \.png, got '.*timeline\.pdf'"):
        TimelineSink(tmp_path / "timeline.pdf")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DependencyError, match=r"needs the package matplotlib: pip install 'bgsub\[plot\]'"):
        TimelineSink(tmp_path / "timeline.png")


def source(rate=RATE):
    return ArraySource(np.zeros((1, 8, 8), np.uint8), rate=rate)


@pytest.mark.parametrize("cut", [0, 6, 23, 39])
def test_all_outputs_together_are_the_same_after_a_kill(tmp_path, cut):
    regions = Regions(["left=0,0,50%,100%"])
    stream = list(pairs(busy(), RATE, {8: "light-change", 20: "covered"}))

    def make(folder):
        return create_event_sinks(
            folder, ("csv", "coco"), True, source(), make_feed(source(), regions=regions), regions
        )

    straight, killed, resumed = make(tmp_path / "straight"), make(tmp_path / "torn"), make(tmp_path / "torn")
    write(stream, *straight)
    write(stream[:cut], *killed)
    states = json.loads(json.dumps([sink.checkpoint() for sink in killed], allow_nan=False))
    write(stream[cut : cut + 5], *killed)
    for sink in killed:
        sink.abort()
    for sink, state in zip(resumed, states, strict=True):
        sink.resume(state)
    write(stream[cut:], *resumed)
    close([*straight, *resumed])
    names = sorted(path.name for path in (tmp_path / "straight").iterdir())
    assert names == ["events.csv", "objects.json", "regions.csv", "timeline.png"]
    for name in names:
        assert (tmp_path / "torn" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_what_is_asked_for_is_created(tmp_path):
    assert create_event_sinks(tmp_path, (), False, source(), make_feed(source())) == []
    feed = make_feed(source(None))
    sinks = create_event_sinks(tmp_path, ["csv"], True, source(None), feed, locate=lambda name: tmp_path / f"x-{name}")
    assert [type(sink) for sink in sinks] == [EventSink, TimelineSink]
    assert sinks[0].paths == [tmp_path / "x-events.csv"]
    assert sinks[1].path == tmp_path / "x-timeline.png"
    write(pairs(together(walk((0, 10), (3, 0), 12)), rate=None), *sinks)
    close(sinks)
    assert (tmp_path / "x-events.csv").read_text().splitlines()[1].startswith("object,1,0,11,,")
