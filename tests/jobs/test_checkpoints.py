"""Checkpoints of a pipeline with fakes: when they are made, and how a run continues."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from checkpoint_kit import due_every
from video_fakes import FakeSource, ListSink, ThresholdSubtractor, make_frames, separate, write_images, write_video

import bgsub
from bgsub.errors import ParameterError, SinkError, SourceError
from bgsub.jobs.checkpoints import Checkpoint, Checkpoints, saved_frames
from bgsub.jobs.job import Job
from bgsub.jobs.job_state import InputState, JobIdentity, prepare
from bgsub.jobs.pipeline import Pipeline
from bgsub.video import Frame, ImageSequenceSource, open_source


class RecordingSink(ListSink):
    """Records checkpoints as well; continues after the frames of one."""

    def checkpoint(self):
        self.ended.append(("checkpoint", len(self.frames)))
        return {"names": self.names}

    def resume(self, state):
        self.ended.append("resume")
        self.frames = [Frame(0, name, None, None) for name in state.get("names", ())]

    @property
    def names(self):
        return [frame.name for frame in self.frames]


class Counting(ThresholdSubtractor):
    """Counts its frames."""

    count, tracker = 0, None

    def snapshot(self):
        return {"count": self.count}, {}

    def process(self, image, learningRate=-1):
        self.count += 1
        super().process(image, learningRate)
        return separate(image)


def thawed(stored):
    subtractor = Counting()
    subtractor.count = stored.model[0]["count"]
    return subtractor


def checkpoints(path, start=None, seconds=0.0):
    result = Checkpoints(path, start or Checkpoint({"a": 1}), seconds=seconds)
    result.path.parent.mkdir(exist_ok=True)
    return result


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".resume" / "state"


def test_checkpoint_comes_after_its_frame_is_in_all_sinks(path, monkeypatch):
    due_every(monkeypatch, 4)
    sinks, subtractor = [RecordingSink(), RecordingSink()], Counting()
    made = checkpoints(path)
    made.resume(sinks)
    summary = Pipeline(FakeSource(10), subtractor, sinks, checkpoints=made).run()
    assert (summary.frames, summary.resumed, saved_frames(path.parent.parent)) == (10, 0, 8)
    for sink in sinks:
        assert sink.ended == [("checkpoint", 0), ("checkpoint", 4), ("checkpoint", 8), "close"]
    stored = Checkpoint.read(path)
    assert (stored.identity, stored.frames, stored.index, stored.skipped) == ({"a": 1}, 8, 7, 0)
    assert [len(state["names"]) for state in stored.sinks] == [8, 8]
    assert thawed(stored).count == 8  # though the tracking thread was ahead


def run(path, source, fail_at=None, start=None, subtractor=None):
    """Run a pipeline with checkpoints; return the summary and the sink."""
    sink, made = RecordingSink(fail_at), checkpoints(path, start)
    made.resume([sink])
    return Pipeline(source, subtractor or Counting(), [sink], checkpoints=made).run(), sink


@pytest.mark.parametrize(
    ("cost", "settles", "expected"),
    [
        (1.0, 0, [16.0, 36.0, 56.0, 76.0, 96.0]),  # after 15 s, then never more than 1 s of 20
        (0.0, 10, [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]),  # small ones after half of the interval
    ],
)
def test_checkpoints_wait_for_the_interval_and_slow_ones_come_less_often(path, monkeypatch, cost, settles, expected):
    now, times = [0.0], []
    monkeypatch.setattr("bgsub.jobs.checkpoints.time", SimpleNamespace(monotonic=lambda: now[0]))

    class Slow(Counting):
        def snapshot(self):
            now[0] += cost
            return super().snapshot()

    made, subtractor = Checkpoints(path, Checkpoint({}), seconds=15.0), Slow()
    made.begin()
    while now[0] < expected[-1]:
        now[0] += 1.0
        subtractor.tracker = SimpleNamespace(is_settled=now[0] % settles == 0) if settles else None
        if made.snapshot(subtractor) is not None:
            times.append(now[0])
    assert times == expected
    assert saved_frames(path.parent.parent) == 0


def test_snapshots_overwrite_stored_ones_only(path, frames):
    subtractor, made = bgsub.BackgroundSubtractor(), checkpoints(path)
    subtractor.apply(frames[0])
    stored, waiting = made.take(subtractor), made.take(subtractor)
    made.store(stored, SimpleNamespace(index=0), 1, [])
    newest = made.take(subtractor)
    buffers = [model[1]["background"] for model in (stored, waiting, newest)]
    assert [np.shares_memory(buffers[2], buffer) for buffer in buffers] == [True, False, True]
    np.testing.assert_array_equal(buffers[2], buffers[1])
    made.store(waiting, SimpleNamespace(index=0), 1, [])
    np.testing.assert_array_equal(Checkpoint.read(path).model[1]["background"], buffers[1])


def test_run_continues_after_the_last_checkpoint_and_counts_unreadable_frames(path, tmp_path, frames, monkeypatch):
    due_every(monkeypatch, 4)
    folder = write_images(tmp_path / "frames", frames)
    for number in (2, 7, 9):
        (folder / f"in{number:06d}.png").write_bytes(b"no image")

    def images():
        return ImageSequenceSource(folder, on_error="skip")

    _, expected = run(path, images())
    for fail_at in (5, 8):
        with pytest.raises(RuntimeError, match="broke"):
            run(path, images(), fail_at)
        stored = Checkpoint.read(path)
        assert stored.frames == fail_at // 4 * 4
        rest, sink = run(path, images(), None, stored, subtractor := thawed(stored))
        assert (rest.frames, rest.resumed, rest.skipped, sink.names) == (9, stored.frames, 3, expected.names)
        assert (subtractor.count, Checkpoint.read(path).frames) == (9, 8)


@pytest.mark.parametrize("part", [{}, {"start": 20, "every": 3}, {"start": "1s", "duration": "4s"}])
def test_video_continues_with_the_next_frame(path, tmp_path, part):
    noise = np.random.default_rng(0).integers(0, 255, (160, 32, 48, 3), np.uint8)
    video = write_video(tmp_path / "in.mp4", noise, codec="mp4v")  # with keyframes every twelve frames
    expected = list(open_source(video, **part))
    start = Checkpoint({}, frames=40, index=expected[39].index, sinks=[])
    with open_source(video, **part) as source:
        rest = list(checkpoints(path, start).remaining(source))
    assert len(expected) > 40
    for frame, whole in zip(rest, expected[40:], strict=True):
        assert (frame.index, frame.name, frame.time) == (whole.index, whole.name, whole.time)
        np.testing.assert_array_equal(frame.image, whole.image)


def test_source_that_became_too_short(path):
    start = Checkpoint({}, frames=8, index=7, sinks=[{"names": []}])
    with pytest.raises(SourceError, match="fake ends before frame 7"):
        run(path, FakeSource(5), None, start)


@pytest.mark.parametrize(
    ("wrong", "message"), [({"frames": "3"}, "frames"), ({"frames": 3}, "it has no model"), ({"started": "now"}, "now")]
)
def test_damaged_checkpoints(path, wrong, message):
    made = checkpoints(path)
    replace(made.start, **wrong).write(path)
    with pytest.raises(SourceError, match=f"the checkpoint '{path}' is damaged: .*{message}"):
        Checkpoint.read(path)
    with pytest.raises(ValueError, match="of a new run"), made.damage_reported():
        raise ValueError("of a new run")


def test_checkpoints_of_other_runs_are_refused(path, tmp_path, monkeypatch):
    def begin(source):
        return prepare(Job("fake", tmp_path), source, Counting(), lambda _overwrite, _started: [RecordingSink()])[2]

    with pytest.raises(ParameterError, match="fake cannot be resumed: the source is live"):
        begin(FakeSource(live=True))
    start = begin(FakeSource()).start
    assert (start.frames, start.identity["source"]["path"]) == (0, "fake")
    for wrong, error, message in (
        ({"version": "0.1"}, ParameterError, f"was made by bgsub 0.1, this is {bgsub.__version__}"),
        ({"identity": {"options": 3, "files": {}}}, SourceError, "is damaged: options and files are dicts"),
    ):
        replace(start, **wrong).write(path)
        with pytest.raises(error, match=f"{message}; --overwrite starts over"):
            begin(FakeSource())
    start.write(path)
    monkeypatch.setattr(RecordingSink, "checkpoint", mock.Mock(side_effect=SinkError("the disk is gone")))
    with pytest.raises(SinkError, match="the disk is gone"):
        begin(FakeSource())


@pytest.fixture
def folder(tmp_path):
    return write_images(tmp_path / "in", make_frames(2), "in{}.png")


def fingerprint(job):
    return JobIdentity.of(job, InputState("a.mp4")).fingerprint


@pytest.mark.parametrize("change", ["rename", "replace", "add"])
def test_changed_image_changes_the_folder(folder, change):
    def identity():
        return JobIdentity.of(Job(str(folder), Path("out")), InputState.of(folder))

    before, image = identity(), folder / "in2.png"
    if change == "rename":
        image.rename(folder / "in3.png")
    elif change == "add":
        shutil.copy(image, folder / "in3.png")
    else:
        state = image.stat()
        image.write_bytes(b"another")
        os.utime(image, ns=(state.st_atime_ns, state.st_mtime_ns - 1))
    assert identity().difference(before) == f"before '{folder}' was changed"


def test_same_input_by_another_name(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert InputState.of(Path("in1.png")) == InputState.of(folder / "in1.png")
    (folder / "link.png").symlink_to("in1.png")
    assert InputState.of(Path("link.png")) == InputState.of(folder / "in1.png")
    assert InputState.of(folder, name="in*.png") != InputState.of(folder, name="in1*.png")


def test_fingerprint_of_options_and_contents(tmp_path):
    files = [tmp_path / name for name in ("model.npz", "roi.png", "privacy.png")]
    for path in files:
        path.write_bytes(b"1")
    model, roi, privacy = files
    masks = {"roi": (f"door={roi}", "0,0,5,5"), "privacy": (str(privacy), "0,0,5,5")}
    assert Job(["a.mp4", "b.mp4"], "out") == Job(("a.mp4", "b.mp4"), Path("out"))  # of JSON
    job = Job("a.mp4", Path("/out/a"), model=model, save_model=Path("/out/a/m.npz"), **masks)
    other = Job("b.mp4", Path("/out/b"), model=model, save_model=Path("/out/b/m.npz"), **masks)
    first = fingerprint(job)
    assert fingerprint(other) == fingerprint(replace(job, overwrite=True)) == first
    for change in (
        {"save": ("mask", "panel")},
        {"parameters": {"rank": 2}},
        {"save_model": None},
        *({kind: regions[:1]} for kind, regions in masks.items()),
    ):
        assert fingerprint(replace(job, **change)) != first
    for path in files:
        path.write_bytes(b"22")
        assert fingerprint(job) != first
        path.write_bytes(b"1")
        first = fingerprint(job)
