"""Clips of motion: when they begin and end, and what is in them."""

from __future__ import annotations

import csv
import re
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saying import says
from video_fakes import ListSink, read_video

from bgsub.errors import ParameterError, SinkError
from bgsub.events.clips.pre_roll import PreRoll
from bgsub.events.clips.recorder import RecorderSink
from bgsub.events.motion import Gate, MotionGate, MotionRules
from bgsub.separation import Separation
from bgsub.video import Frame, VideoSink
from bgsub.video.sinks.videos import video_sink

RATE = 10
SHAPE = (32, 48)
NAME = "the name of a clip takes {source}, {date}, {time}, {start}, {number} and no folder"


def separation(level, share=0.0, phase="tracking", event=None):
    """A plain picture, of which the upper rows are foreground."""
    image = np.full((*SHAPE, 3), level, np.uint8)
    mask = np.zeros(SHAPE, np.uint8)
    mask.reshape(-1)[: round(share * mask.size)] = 255
    return Separation(image, mask, image, np.zeros(SHAPE, np.float32), np.zeros(0), phase, event)


def frame(index, time=None, received=None):
    return Frame(index, f"{index + 1:06d}", index / RATE if time is None else time, np.zeros(SHAPE, np.uint8), received)


def write(sink, indices, one):
    for index in indices:
        sink.write(frame(index), one)


class Factory:
    """Makes sinks that keep what they get."""

    def __init__(self) -> None:
        self.sinks: list[ListSink] = []

    def __call__(self, _path, view, _rate):
        assert view in ("mask", "background")
        self.sinks.append(ListSink())
        return self.sinks[-1]

    def indices(self):
        return [[frame.index for frame in sink.frames] for sink in self.sinks]


@pytest.fixture
def factory():
    return Factory()


def record(folder, factory, moving, memory=1 << 28, **options):
    """Run a recorder over frames of 10 a second; `moving` are the indices with motion, the largest the last frame."""
    rules = MotionRules(**{"pre_roll": 0.5, "post_roll": 1.0, "min_duration": 0.2, **options})
    sink = RecorderSink(folder, rules, make_sink=factory, memory=memory)
    with sink:
        for index in range(100):
            sink.write(frame(index), separation(index, 0.1 if index in moving else 0.0))
    return sink


def test_a_clip_has_what_came_before_and_after(tmp_path, factory):
    sink = record(tmp_path, factory, range(30, 40))
    # From 0.5 s before frame 30 to 1 s after frame 39.
    assert factory.indices() == [list(range(25, 50))]
    assert factory.sinks[0].ended == ["close"]
    clip = sink.clips[0]
    assert (clip.start, clip.end, clip.began) == (2.5, 4.9, None)
    assert clip.peak_share == pytest.approx(0.1, abs=1e-3)
    pictures = [one.background for one in factory.sinks[0].separations]
    assert all(abs(int(picture[0, 0, 0]) - index) <= 1 for index, picture in zip(range(25, 50), pictures, strict=True))


@pytest.mark.parametrize("moving", [{30, 31}, {30, 31, 33, 34, 36, 37}])
def test_short_motion_is_none_and_with_a_gap_it_is_not_long(tmp_path, factory, moving):
    assert record(tmp_path, factory, moving).clips == []
    assert factory.sinks == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("moving", "clips"),
    [
        # Again within the post-roll.
        ([*range(30, 35), *range(42, 45)], [range(25, 55)]),
        # The clip ends with frame 44, and the next one would begin before that.
        ([*range(30, 35), *range(48, 52)], [range(25, 62)]),
        ([*range(30, 35), *range(49, 52)], [range(25, 62)]),
        # It would begin after that.
        ([*range(30, 35), *range(50, 53)], [range(25, 45), range(45, 63)]),
        ([*range(30, 35), *range(60, 63)], [range(25, 45), range(55, 73)]),
        # From the first frame and to the last.
        (range(100), [range(100)]),
        (range(97, 100), [range(92, 100)]),
    ],
)
def test_overlapping_clips_are_one(tmp_path, factory, moving, clips):
    record(tmp_path, factory, moving)
    assert factory.indices() == [list(clip) for clip in clips]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(1, 12)), max_size=8),
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(0, 4),
)
def test_clips_are_what_the_definition_says(tmp_path_factory, runs, before, after, least):
    moving = {index for start, length in runs for index in range(start, start + length)}
    factory = Factory()
    folder = tmp_path_factory.mktemp("clips")
    tick = 1 / RATE
    # Half a frame off, so that rounding decides nothing.
    times = {"pre_roll": (before + 0.5) * tick, "post_roll": (after + 0.5) * tick, "min_duration": (least - 0.5) * tick}
    record(folder, factory, moving, **{name: max(value, 0.0) for name, value in times.items()})
    got = [index for indices in factory.indices() for index in indices]
    assert got == sorted(set(got))
    assert got == sorted(expected(moving, before, after, least))
    for indices in factory.indices():
        assert indices == list(range(indices[0], indices[-1] + 1))


def expected(moving, before, after, least):
    """The frames of all clips, by the definition: runs of motion, with something before and after."""
    wanted, recording_until, run = set(), -1, []
    for index in range(100):
        if index <= recording_until:
            wanted.add(index)
            if index in moving:
                recording_until = index + after
            run = []
            continue
        run = [*run, index] if index in moving else []
        if run and len(run) > least:
            wanted |= set(range(max(run[0] - before, 0), index + 1))
            recording_until, run = index + after, []
    return wanted


def test_long_clips_are_split(tmp_path, factory):
    sink = record(tmp_path, factory, range(20, 70), max_duration=2.0)
    assert factory.indices() == [list(range(15, 35)), list(range(35, 55)), list(range(55, 75)), list(range(75, 80))]
    assert [clip.path.name for clip in sink.clips] == [f"video-{number:04d}.mp4" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    "odd", [{"phase": "start"}, {"event": "light-change"}, {"event": "covered"}, {"event": "scene-change"}]
)
def test_what_happens_to_the_whole_frame_is_no_motion(tmp_path, factory, odd):
    with RecorderSink(tmp_path, make_sink=factory) as sink:
        write(sink, range(50), separation(0, 0.5, **odd))
    assert sink.clips == []


@pytest.mark.parametrize(
    ("options", "share", "count"),
    [
        ({"min_share": 0.1}, 0.09, 0),
        ({"min_share": 0.1}, 0.11, 1),
        ({"min_share": 0.0}, 0.0, 0),
        ({"min_area": 100}, 0.06, 0),
        ({"min_area": 100}, 0.07, 1),
    ],
)
def test_thresholds(tmp_path, factory, options, share, count):
    with RecorderSink(tmp_path, MotionRules(**options), make_sink=factory) as sink:
        write(sink, range(30), separation(0, share))
    assert len(sink.clips) == count


def test_an_hour_without_frames_ends_a_clip(tmp_path, factory):
    sink = RecorderSink(tmp_path, make_sink=factory)
    with sink:
        write(sink, range(20), separation(0, 0.2))
        for index in range(20, 30):
            sink.write(frame(index, 3600 + index / RATE), separation(0, 0.2))
    assert factory.indices() == [list(range(20)), list(range(20, 30))]
    assert [clip.end < 10 for clip in sink.clips] == [True, False]


@pytest.mark.parametrize("backend", ["av", "opencv"])
@pytest.mark.parametrize("view", ["input", "mask", "overlay"])
def test_real_files(tmp_path, monkeypatch, backend, view):
    if backend == "av":
        pytest.importorskip("av")
    else:
        monkeypatch.setattr("bgsub.video.sources.av_container.is_available", lambda: False)
    rules = MotionRules(min_duration=0.1, pre_roll=0.5, post_roll=0.4)
    with RecorderSink(tmp_path, rules, view=view, source="cam 0/a:b") as sink:
        for index in range(40):
            sink.write(frame(index), separation(6 * index, 0.2 if 20 <= index < 25 else 0.0))
    (clip,) = sink.clips
    assert re.fullmatch(r"cam-0-a-b-0001\.(mp4|mkv)", clip.path.name)
    pictures = read_video(clip.path)
    assert len(pictures) == 5 + 5 + 4
    if view == "mask":
        assert set(np.unique(pictures[7])) == {0, 255}
        assert not pictures[0].any()
    elif view == "input":
        np.testing.assert_allclose([p[20, 20, 0] for p in pictures], [6 * i for i in range(15, 29)], atol=6)
    rows = list(csv.DictReader((tmp_path / "clips.csv").open()))
    assert rows == [{"file": clip.path.name, "start": "1.500", "end": "2.800", "peak_share": "0.199870", "began": ""}]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["clips.csv", clip.path.name])


def test_real_times_of_a_camera(tmp_path):
    av = pytest.importorskip("av")
    times = np.cumsum(np.random.default_rng(3).uniform(0.02, 0.2, 60))
    rules = MotionRules(pre_roll=0.5, post_roll=0.5, min_duration=0.1)
    with RecorderSink(tmp_path, rules, source="cam") as sink:
        for index, moment in enumerate(times):
            share = 0.2 if 2 < moment < 3 else 0.0
            sink.write(frame(index, float(moment), received=1000.0 + moment), separation(0, share))
    (clip,) = sink.clips
    assert re.fullmatch(r"cam-\d{8}-\d{6}-0001\.mp4", clip.path.name)
    inside = times[(times >= clip.start - 1e-9) & (times <= clip.end + 1e-9)]
    with av.open(str(clip.path)) as video:
        stamps = [float(one.pts * one.time_base) for one in video.decode(video=0)]
    np.testing.assert_allclose(stamps, inside - inside[0], atol=2e-3)
    assert abs((clip.began - datetime.now().astimezone()).total_seconds()) < 1e9


def test_numbers_go_on_and_the_list_grows(tmp_path):
    for _ in range(2):
        with RecorderSink(tmp_path, MotionRules(pre_roll=0, post_roll=0, min_duration=0), source="a") as sink:
            write(sink, [0], separation(9, 0.5))
    assert [path.name for path in sorted(tmp_path.glob("*.mp4"))] == ["a-0001.mp4", "a-0002.mp4"]
    assert len((tmp_path / "clips.csv").read_text().splitlines()) == 3


def test_abort_leaves_a_partial_file(tmp_path, factory):
    sink = RecorderSink(tmp_path, MotionRules(min_duration=0))
    write(sink, range(5), separation(9, 0.5))
    sink.abort()
    assert [path.name for path in tmp_path.iterdir()] == ["video-0001.partial.mp4"]
    assert sink.clips == []


def test_a_clip_that_fails_is_told(tmp_path):
    error = SinkError("no space left")
    sink = RecorderSink(
        tmp_path, MotionRules(min_duration=0), make_sink=lambda *_: ListSink(fail_at="close", error=error)
    )
    sink.write(frame(0), separation(9, 0.5))
    with pytest.raises(SinkError, match=r"^no space left$"):
        sink.close()
    assert not (tmp_path / "clips.csv").exists()


def test_memory_is_bounded(tmp_path, factory, caplog):
    sink = record(tmp_path, factory, range(60, 70), pre_roll=5.0, memory=5000)
    assert len(sink.clips) == 1
    kept = 60 - factory.indices()[0][0]
    assert 1 <= kept < 50
    assert caplog.text.count("clips begin later") == 1


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("shape", [(32, 48), (31, 47, 3)])
def test_what_is_held_comes_back(lossless, shape):
    held = PreRoll(lossless, 1 << 20)
    pictures = [np.random.default_rng(n).integers(0, 256, shape, dtype=np.uint8) // 255 * 255 for n in range(3)]
    for index, picture in enumerate(pictures):
        held.put(frame(index), index / RATE, 0.1, picture)
    held.forget_before(0.1)
    got = list(held.take())
    assert [one[0].index for one in got] == [1, 2]
    for (_, _, _, back), picture in zip(got, pictures[1:], strict=True):
        assert back.shape == picture.shape
        if lossless:
            np.testing.assert_array_equal(back, picture)
    assert list(held.take()) == []


def test_the_gate_alone():
    gate = MotionGate(MotionRules(pre_roll=1.0, post_roll=1.0, min_duration=0.0))
    assert gate.update(0.0, False) is Gate.HOLD
    assert gate.update(0.5, True) is Gate.BEGIN
    assert gate.recording
    assert gate.clip_from == pytest.approx(-0.5, abs=1e-5)
    assert gate.update(1.5, False) is Gate.RECORD
    assert gate.update(1.6, False) is Gate.HOLD
    assert not gate.recording


def test_opencv_when_there_is_no_pyav(tmp_path, monkeypatch):
    monkeypatch.setattr("bgsub.video.sources.av_container.is_available", lambda: False)
    assert isinstance(video_sink(tmp_path / "a.mp4", "background", None), VideoSink)


@pytest.mark.parametrize(
    ("options", "name", "message"),
    [
        ({"pre_roll": -1}, None, "pre_roll must be a number of seconds, 0 or more, got -1"),
        ({"max_duration": 0}, None, "max_duration must be a positive number of seconds or None, got 0"),
        ({"min_share": 1.5}, None, "min_share must lie in [0, 1], got 1.5"),
        ({"min_area": -1}, None, "min_area must be a number of pixels, 0 or more, got -1"),
        ({}, "{camera}", NAME + ", got '{camera}-{number}'"),
        ({}, "../{number}", NAME + ", got '../{number}'"),
    ],
)
def test_wrong_parameters(tmp_path, options, name, message):
    with says(ParameterError, message):
        RecorderSink(tmp_path, MotionRules(**options), name=name)


def test_recordings_cannot_be_continued(tmp_path):
    with pytest.raises(SinkError, match=r"^recordings of motion cannot be continued$"):
        RecorderSink(tmp_path).checkpoint()
