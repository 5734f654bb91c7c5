"""Recording of clips."""

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from video_fakes import ListSink, read_table, read_video

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.events import ClipRules, EventFeed, MotionRules, ObjectLinker
from bgsub.events.clips import Clip, add_to_list
from bgsub.events.recorder import RecorderSink
from bgsub.separation import Separation
from bgsub.video import Frame

RATE, SHAPE = 10, (32, 48)
KINDS = (MotionRules, ClipRules)
HEADER = "file,start,end,start_time,end_time,peak_share,began,source,source_time,thumbnail\n"


def separation(level, share=0.0, phase="tracking", event=None):
    """Return a uniform picture whose upper rows are foreground."""
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
    """Creates sinks that store their input."""

    def __init__(self) -> None:
        self.sinks: list[ListSink] = []

    def __call__(self, _path, view, _fps):
        assert view == "background"
        self.sinks.append(ListSink())
        return self.sinks[-1]

    def indices(self):
        return [[frame.index for frame in sink.frames] for sink in self.sinks]


@pytest.fixture
def factory():
    return Factory()


def recorder(folder, rules=None, **more):
    """Return a recorder; `rules` are fields of `MotionRules` and `ClipRules`."""
    rules = rules or {}
    motion, clips = ({one.name: rules[one.name] for one in fields(kind) if one.name in rules} for kind in KINDS)
    feed = EventFeed(ObjectLinker(), MotionRules(**motion))
    return RecorderSink(folder, ClipRules(**clips), feed=feed, **more)


def record(folder, factory, moving, memory=1 << 28, **options):
    """Run a recorder over 100 frames at 10 per second; `moving` are the indices with motion."""
    rules = {"pre_roll": 0.5, "post_roll": 1.0, "min_duration": 0.2, "max_gap": 1.0, **options}
    sink = recorder(folder, rules, make_sink=factory, memory=memory)
    with sink:
        for index in range(100):
            sink.write(frame(index), separation(index, 0.1 if index in moving else 0.0))
    return sink


def test_memory_has_the_newest_clips_only(tmp_path, factory, monkeypatch):
    released = []
    monkeypatch.setattr("bgsub.events.recorder._MOST_CLIPS", 2)
    monkeypatch.setattr("bgsub.events.recorder.release_unused", lambda: released.append(1))
    sink = record(tmp_path, factory, range(20, 70), max_duration=2.0)
    assert (sink.count, [clip.path.stem for clip in sink.clips]) == (4, ["video-0003", "video-0004"])
    assert len(read_table(tmp_path / "clips.csv")) == len(released) == 4


def test_the_reason_of_no_clip_is_told(tmp_path, factory, caplog):
    record(tmp_path, factory, range(30, 35), min_duration=2.0)
    assert caplog.messages == ["no clip: all motion was shorter than an event must be"]
    record(tmp_path, factory, range(30, 35), min_share=0.2)
    assert caplog.messages[1:] == ["no clip: at most 10 % of a frame was foreground, less than the motion threshold"]


@pytest.mark.parametrize(
    ("moving", "options", "clips"),
    [
        (range(30, 40), {}, [range(25, 50)]),
        ([*range(30, 35), *range(50, 53)], {}, [range(25, 45), range(45, 63)]),
        (range(20, 70), {"max_duration": 2.0}, [range(15, 35), range(35, 55), range(55, 75), range(75, 80)]),
        (range(20, 25), {"max_gap": 4.0}, [range(15, 35)]),
        (range(30, 40), {"max_duration": 0.5}, [range(left, left + 5) for left in range(25, 50, 5)]),
        (range(30, 40), {"max_duration": 0.6}, [*(range(left, left + 6) for left in range(25, 49, 6)), range(49, 50)]),
        (range(30, 40), {"max_duration": 1.0, "max_gap": 0.2}, [range(25, 35), range(35, 45), range(45, 50)]),
    ],
)
def test_frames_of_clips(tmp_path, factory, moving, options, clips):
    sink = record(tmp_path, factory, moving, **options)
    assert factory.indices() == [list(clip) for clip in clips]
    assert all(one.ended == ["close"] for one in factory.sinks)
    assert [clip.path.name for clip in sink.clips] == [f"video-{number:04d}.mp4" for number in range(1, len(clips) + 1)]
    for clip, indices in zip(sink.clips, clips, strict=True):
        assert (clip.start, clip.end, clip.began) == (indices[0] / RATE, indices[-1] / RATE, None)
        assert clip.peak_share == pytest.approx(0.1 if set(moving) & set(indices) else 0, abs=1e-3)
        assert clip.events
    for one in factory.sinks:
        levels = [int(separation.background[0, 0, 0]) for separation in one.separations]
        np.testing.assert_allclose(levels, [frame.index for frame in one.frames], atol=1)


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(1, 12)), max_size=8),
    st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 4), st.integers(0, 20)),
)
def test_clips_match_the_definition(tmp_path_factory, runs, rules):
    moving = {index for start, length in runs for index in range(start, start + length)}
    factory, (before, after, least, gap) = Factory(), rules
    times = {"pre_roll": before + 0.5, "post_roll": after + 0.5, "min_duration": least - 0.5, "max_gap": gap + 0.5}
    times = {name: max(value / RATE, 0.0) for name, value in times.items()}
    record(tmp_path_factory.mktemp("clips"), factory, moving, **times)
    got = [index for indices in factory.indices() for index in indices]
    assert got == sorted(expected(moving, *rules))
    for indices in factory.indices():
        assert indices == list(range(indices[0], indices[-1] + 1))


def expected(moving, before, after, least, gap):
    """Return the frames of all clips by the definition."""
    events, run = [], []
    for index in range(100):
        if events and index <= events[-1][1] + max(gap, index in moving):
            events[-1][1] = index if index in moving else events[-1][1]
            run = []
            continue
        run = [*run, index] if index in moving else []
        if run and len(run) > least:
            events.append([run[0], index])
    return {i for start, end in events for i in range(max(start - before, 0), min(end + after, 99) + 1)}


@pytest.mark.parametrize(
    ("share", "odd", "count"),
    [(0.09, {}, 0), (0.11, {}, 1), (0.5, {"phase": "start"}, 0), (0.5, {"event": "light-change"}, 0)],
)
def test_thresholds_and_excluded_frames(tmp_path, factory, share, odd, count):
    with recorder(tmp_path, {"min_share": 0.1}, make_sink=factory) as sink:
        write(sink, range(30), separation(0, share, **odd))
    assert len(sink.clips) == sink.count == count


def test_encoded_clips(tmp_path):
    rules = {"min_duration": 0.1, "pre_roll": 0.5, "post_roll": 0.4}
    with recorder(tmp_path, rules, source="cam 0/a:b") as sink:
        for index in range(40):
            sink.write(frame(index), separation(6 * index, 0.2 if 20 <= index < 25 else 0.0))
    (clip,) = sink.clips
    assert clip.path.name == "cam-0-a-b-0001.mp4"
    pictures = read_video(clip.path)
    assert len(pictures) == 5 + 5 + 4
    np.testing.assert_allclose([p[20, 20, 0] for p in pictures], [6 * i for i in range(15, 29)], atol=6)
    times = {"start": "1.500", "end": "2.800", "start_time": "00:00:01.500", "end_time": "00:00:02.800", "began": ""}
    places = {"source": "cam 0/a:b", "source_time": "00:00:01.500", "thumbnail": "cam-0-a-b-0001.jpg"}
    assert read_table(tmp_path / "clips.csv") == [{"file": clip.path.name, "peak_share": "0.199870", **times, **places}]
    assert {path.name for path in tmp_path.iterdir()} == {"clips.csv", clip.path.name, "cam-0-a-b-0001.jpg"}


def test_clips_have_the_times_of_a_camera(tmp_path):
    import av  # noqa: PLC0415

    times = np.cumsum(np.random.default_rng(3).uniform(0.02, 0.2, 60))
    rules = {"pre_roll": 0.5, "post_roll": 0.5, "min_duration": 0.1}
    with recorder(tmp_path, rules, source="cam") as sink:
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


def test_a_failing_clip_raises(tmp_path):
    error = SinkError("no space left")
    sink = recorder(tmp_path, {"min_duration": 0}, make_sink=lambda *_: ListSink(fail_at="close", error=error))
    sink.write(frame(0), separation(9, 0.5))
    with pytest.raises(SinkError, match=r"^no space left$"):
        sink.close()
    assert not (tmp_path / "clips.csv").exists()


def test_aborted_and_resumed_recordings(tmp_path):
    sink = recorder(tmp_path, {"min_duration": 0})
    write(sink, range(5), separation(9, 0.5))
    with pytest.raises(SinkError, match="cannot be resumed"):
        sink.checkpoint()
    sink.abort()
    sink.close()
    assert [path.name for path in tmp_path.iterdir()] == ["video-0001.partial.mp4"]
    assert (sink.count, list(sink.clips)) == (0, [])


def test_memory_is_bounded(tmp_path, factory, caplog):
    record(tmp_path, factory, range(60, 70), pre_roll=5.0, memory=5000)
    (indices,) = factory.indices()
    assert 1 <= 60 - indices[0] < 50
    assert caplog.text.count("clips begin later") == 1
    moving = [*range(20, 25), *range(55, 58)]
    record(tmp_path, other := Factory(), moving, max_gap=4.0, memory=8000)  # the gap becomes part of the clip
    (indices,) = other.indices()
    assert indices == list(range(15, indices[-1] + 1))
    assert 67 <= indices[-1] < 97


@pytest.mark.parametrize(
    "wrong", [{"pre_roll": -1}, {"max_gap": -1}, {"max_duration": 0}, {"min_share": 1.5}, {"min_area": -1}]
)
def test_wrong_parameters(tmp_path, wrong):
    (name,) = wrong
    with pytest.raises(ParameterError, match=f"^{name} must (be|lie)"):
        recorder(tmp_path, wrong)


def test_a_small_thumbnail_shows_the_peak(tmp_path, factory):
    with recorder(tmp_path, make_sink=factory) as sink:
        for index in range(60):
            share = {30: 0.3}.get(index, 0.1) if 20 <= index < 40 else 0.0
            shown = separation(4 * index, share)
            sink.write(frame(index), replace(shown, frame=np.full((480, 1280, 3), 4 * index, np.uint8)))
    picture = cv2.imread(str(sink.clips[0].thumbnail))
    assert picture.shape == (120, 320, 3)
    assert abs(int(picture[0, 0, 0]) - 4 * 30) <= 3
    assert sink.clips[0].peak_share == pytest.approx(0.3, abs=1e-3)


def test_concurrent_runs_keep_every_line_of_the_list(tmp_path):
    def add(source):
        for number in range(10):
            add_to_list(tmp_path, Clip(tmp_path / f"{source}-{number}.mp4", 0.0, 1.0, 0.5, None))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(add, "abc"))
    found = {row["file"] for row in read_table(tmp_path / "clips.csv")}
    assert found == {f"{s}-{n}.mp4" for s in "abc" for n in range(10)}
    assert [path.name for path in tmp_path.iterdir()] == ["clips.csv"]


def listed(folder, names, age):
    """Write clips of 100 bytes with pictures; `age` is in days by name."""
    for name in names:
        for path in (folder / f"{name}.mp4", folder / f"{name}.jpg"):
            path.write_bytes(b"x" * 100)
            os.utime(path, 2 * (time.time() - 86400 * age.get(name, 0),))
        add_to_list(folder, Clip(folder / f"{name}.mp4", 0, 1, thumbnail=folder / f"{name}.jpg"))


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ({}, "abcde"),
        ({"keep_days": 3}, "cde"),
        ({"keep_days": 0.001}, "de"),  # c is a day old
        ({"keep_bytes": 250}, "de"),
        ({"keep_bytes": 1}, "e"),  # the newest clip stays
        ({"keep_days": 3, "keep_bytes": 250}, "de"),
    ],
)
def test_old_clips_are_removed(tmp_path, rules, kept):
    folder, outside = tmp_path / "clips", tmp_path / "outside.mp4"
    folder.mkdir()
    for path in (outside, folder / "mine.mp4", folder / "e.mp4"):
        path.write_bytes(b"x" * 100)
    os.utime(outside, (0, 0))
    (folder / "clips.csv").write_text(HEADER + "../outside.mp4,0,1,,,,,,,../outside.mp4\n")
    listed(folder, "abcd", {"a": 10, "b": 5, "c": 1})
    add_to_list(folder, Clip(folder / "e.mp4", 0, 1), ClipRules(**rules))
    assert sorted(path.stem for path in folder.glob("*.mp4")) == [*kept, "mine"]
    assert sorted(path.stem for path in folder.glob("*.jpg")) == [name for name in kept if name != "e"]
    assert outside.exists()
    left = [row["file"] for row in read_table(folder / "clips.csv")]
    assert left == ["../outside.mp4", *(f"{name}.mp4" for name in kept)]


def test_boxes_and_time_on_clips(tmp_path, factory):
    clips = RecorderSink(
        tmp_path, ClipRules(0, 0, drawn=True), feed=EventFeed(ObjectLinker(RATE), MotionRules(0.01, min_duration=0)),
        make_sink=factory,
    )  # fmt: skip
    write(clips, range(10), separation(100, 0.2))
    clips.close()
    pictures = [one.background for one in factory.sinks[0].separations]
    assert all((picture != 100).any() for picture in pictures)
    assert pictures[0].shape == (7 * SHAPE[0], 7 * SHAPE[1], 3)  # small pictures are enlarged for the text


def test_a_name_that_was_used_again_belongs_to_the_newer_clip(tmp_path):
    listed(tmp_path, "a", {})
    listed(tmp_path, "a", {})  # the user moved the first one
    old = time.time() - 10 * 86400
    add_to_list(tmp_path, rules=ClipRules(keep_days=5))
    assert (tmp_path / "a.mp4").exists()
    listed(tmp_path, "b", {})
    os.utime(tmp_path / "a.mp4", (old, old))
    add_to_list(tmp_path, rules=ClipRules(keep_days=5))  # also without a new clip
    assert not (tmp_path / "a.mp4").exists()


def test_lists_that_were_edited(tmp_path):
    (tmp_path / "clips.csv").write_text("\ufeff" + HEADER + "only-a-name.mp4\n", encoding="utf-8")
    add_to_list(tmp_path, rules=ClipRules(keep_days=5))
    assert (tmp_path / "clips.csv").read_text().splitlines()[1].startswith("only-a-name.mp4,")
    recorder(tmp_path).abort()
    (tmp_path / "clips.csv").write_text("name,price\nclip,3\n")
    with pytest.raises(SinkError, match=r"clips\.csv' is not a list of clips and is not replaced"):
        recorder(tmp_path)
