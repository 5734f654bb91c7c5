"""Jobs that resume after an interruption: the outputs equal those of an uninterrupted run."""

import contextlib
import dataclasses
import functools
import os
import shutil
from itertools import islice
from unittest import mock

import numpy as np
import pytest
from checkpoint_kit import due_every, raise_at
from video_fakes import content, quit_after, write_images, write_video

from bgsub.errors import BrokenSourceError, ParameterError, SinkError, SourceError, StoppedError
from bgsub.events.summary_page import SummarySink
from bgsub.jobs.checkpoints import Checkpoint, Checkpoints, saved_frames
from bgsub.jobs.controls import Controls
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.synthetic import scene

EVERY, LENGTH = 20, 150
PARAMETERS = {"start_frames": 20, "absorb_after": 3.0}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A video and a folder of images of one scene with lamps and with another scene in between."""
    folder = tmp_path_factory.mktemp("inputs")
    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=LENGTH // 2, seed=2)])
    frames = np.tile(frames, (2, 1, 1, 1))
    other = np.kron(np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
    frames[85:95] = other
    write_video(folder / "video.avi", frames)
    write_images(folder / "frames", frames)
    return folder


@pytest.fixture(autouse=True)
def often(monkeypatch):
    due_every(monkeypatch, EVERY)


class Broken(Exception):
    """The interruption."""


def interrupt(job, number, error=Broken, raises=Broken):
    """Do a job; the frame of that number brings an error."""
    with pytest.raises(raises) as caught:
        raise_at(job, number, error)
    return str(caught.value)


def make_job(inputs, output, kind="video", **fields):
    source = str(inputs / ("video.avi" if kind == "video" else "frames"))
    save = ("mask.mkv", "panel.mp4", "mask.npz") if kind == "video" else ("mask", "overlay", "background-image")
    fields = {"save": save, "parameters": PARAMETERS, **fields}
    return Job(source, output, **fields)


@pytest.fixture(scope="module")
def expected_outputs(inputs, tmp_path_factory):
    """Results and outputs of runs without an interruption, by kind."""

    @functools.cache
    def run(kind):
        output = tmp_path_factory.mktemp(kind)
        return run_job(make_job(inputs, output, kind, save_model=output / "model.npz")), content(output)

    return run


@pytest.mark.large
@pytest.mark.parametrize(("kind", "number"), [("video", 147), ("images", 3)])
def test_resumed_outputs_are_identical(inputs, expected_outputs, tmp_path, kind, number):
    job = make_job(inputs, tmp_path, kind, save_model=tmp_path / "model.npz", resume=True)
    interrupt(job, number)
    assert (tmp_path / ".resume" / "state").exists()
    result = run_job(job)
    expected, outputs = expected_outputs(kind)
    assert content(tmp_path) == outputs
    assert (result.summary.resumed, result.summary.frames) == (number // EVERY * EVERY, LENGTH)
    assert vars(result.statistics) == vars(expected.statistics)
    assert {"light-change", "scene-change", "scene-return"} == set(result.statistics.events)


@pytest.mark.large
def test_resume_with_events_regions_and_a_part(inputs, tmp_path):
    def job(folder, **fields):
        parts = {"roi": ("door=4,4,30,20",), "start": "5", "event_formats": ("csv", "jsonl", "html")}
        return make_job(inputs, tmp_path / folder, "images", save=("mask",), **parts, **fields)

    run_job(job("whole"))
    resumed = job("resumed", resume=True)
    for number in (45, 138):
        interrupt(resumed, number)
    assert run_job(resumed).summary.resumed == 120
    assert content(tmp_path / "resumed") == content(tmp_path / "whole")
    names = {"events.csv", "events.jsonl", "regions.csv", "summary.html"}
    assert names <= set(content(tmp_path / "resumed"))
    assert run_job(resumed).already_done


def test_changed_outputs_or_options_are_not_finished(inputs, tmp_path):
    model = tmp_path / "model.npz"
    job = make_job(inputs, tmp_path, "images", save=("mask", "mask.npz"), resume=True, end="30", save_model=model)
    run_job(job)
    before = content(tmp_path)
    again = run_job(job)
    assert (again.already_done, again.summary.frames, model in again.outputs) == (True, 0, True)
    assert run_job(dataclasses.replace(job, parameters={**PARAMETERS, "threads": 2})).already_done
    assert content(tmp_path) == before
    for save, folder, made in ((("mask.npz",), "", "mask.npz"), (("mask", "overlay"), "", "mask"), ((), "new", model)):
        beside = dataclasses.replace(job, save=save or job.save, output=tmp_path / folder)
        with pytest.raises(SinkError, match=r"no run with --resume has finished; --overwrite starts over") as error:
            run_job(beside)
        assert str(error.value).startswith(f"'{tmp_path / made}' exists already, ")
    with pytest.raises(ParameterError, match=r"were made by other options \(--rank 3, now 5\); --overwrite"):
        run_job(dataclasses.replace(job, parameters={**PARAMETERS, "rank": 5}))
    lost = tmp_path / "mask" / "bin000002.png"
    whole = lost.read_bytes()
    lost.unlink()
    with pytest.raises(SinkError, match=r"mask' has \d+ bytes, when it was finished .* bytes; --overwrite"):
        run_job(job)
    lost.write_bytes(whole)
    assert run_job(job).already_done
    os.truncate(tmp_path / "mask.npz", 0)
    with pytest.raises(SinkError, match=r"mask.npz' has 0 bytes, when it was finished"):
        run_job(job)
    assert not run_job(dataclasses.replace(job, overwrite=True)).already_done
    assert run_job(job).already_done


def test_another_run_removes_the_record_of_its_outputs(inputs, tmp_path):
    job = make_job(inputs, tmp_path, "images", save=("mask.npz",), resume=True, end="30")
    run_job(job)
    beside = dataclasses.replace(job, name="other-{view}")
    run_job(beside)
    assert run_job(job).already_done  # each has its own record
    run_job(dataclasses.replace(job, resume=False, overwrite=True, parameters={**PARAMETERS, "rank": 5}))
    assert len(list((tmp_path / ".resume").iterdir())) == 1
    assert run_job(beside).already_done
    with pytest.raises(SinkError, match="no run with --resume has finished"):
        run_job(job)


@pytest.mark.large
def test_unsuitable_checkpoints_are_refused(inputs, tmp_path):
    copy, output = shutil.copytree(inputs / "frames", tmp_path / "frames"), tmp_path / "out"
    job = dataclasses.replace(make_job(inputs, output, "images"), source=str(copy), resume=True)
    interrupt(job, EVERY + 2)
    before = content(output)
    for fields, message in (
        ({"parameters": {**PARAMETERS, "rank": 5}}, r"by other options \(--rank 3, now 5\)"),
        ({"save": ("mask", "panel")}, "by other options .*--save mask overlay background-image, now mask panel"),
        ({"fps": 10.0}, "by other options .*--fps not given, now 10"),
        ({"source": str(inputs / "frames")}, "was made from .*frames"),
    ):
        with pytest.raises(ParameterError, match=f"{message}.*--overwrite starts over"):
            run_job(dataclasses.replace(job, **fields))
        assert content(output) == before
    (copy / "in000002.png").rename(copy / "in999999.png")
    with pytest.raises(ParameterError, match=r"was made before .*frames.* was changed; --overwrite starts over"):
        run_job(job)
    (copy / "in999999.png").rename(copy / "in000002.png")
    path = output / ".resume" / "state"
    state = Checkpoint.read(path)
    dataclasses.replace(state, sinks=state.sinks[:1]).write(path)
    with pytest.raises(SourceError, match=r"no run can go on from .*--overwrite starts over$"):
        run_job(job)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SourceError, match=r"damaged.*; --overwrite starts over"):
        run_job(job)
    interrupt(dataclasses.replace(job, fps=10.0, overwrite=True), 2)


@pytest.mark.large
@pytest.mark.parametrize("way", ["complete", "missing", "broken source"])
def test_kill_while_outputs_are_finished(inputs, tmp_path, monkeypatch, caplog, way):
    """The same command finishes them again, or starts over where one is missing or all end with a broken source."""
    views = ("mask.mkv", "panel.mp4", "mask.npz", "background-image")

    def job(folder, **fields):
        fields |= {"save": views, "event_formats": ("csv", "html"), "save_model": tmp_path / folder / "model.npz"}
        return make_job(inputs, tmp_path / folder, **fields)

    def broken(self, source):
        yield from islice(source, 25)
        raise BrokenSourceError("the disk of the source is gone")

    run_job(job("whole"))
    with monkeypatch.context() as patch:
        patch.setattr(SummarySink, "close", mock.Mock(side_effect=Broken))  # the last output
        if way == "broken source":
            patch.setattr(Checkpoints, "remaining", broken)
        with pytest.raises(Broken):
            run_job(job("killed", resume=True))
    assert (tmp_path / "killed" / "events.csv").exists()
    if way == "missing":
        (tmp_path / "killed" / "mask.npz.partial").unlink()
    if way == "broken source":
        assert len(np.load(tmp_path / "killed" / "mask.npz")["mask"]) == 25
    resumed = LENGTH // EVERY * EVERY if way == "complete" else 0
    assert run_job(job("killed", resume=True)).summary.resumed == resumed
    assert ("starting over" in caplog.text) == (way == "missing")
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


@pytest.mark.large
def test_stop_at_any_frame_loses_none(inputs, expected_outputs, tmp_path):
    job = make_job(inputs, tmp_path, "images", save_model=tmp_path / "model.npz", resume=True)
    resumed = 0
    for number in (0, 67, 121):  # 0: before the first frame
        controls = Controls()
        if not number:
            controls.quit()
        quitting = quit_after(controls, number - resumed)
        with pytest.raises(StoppedError, match=r"starts over|goes on after") as stopped:
            run_job(job, controls=controls, watch=lambda _source, after=quitting: contextlib.nullcontext(after))
        summary = stopped.value.result.summary
        assert (summary.resumed, saved_frames(tmp_path)) == (resumed, summary.frames)
        assert number <= summary.frames <= max(resumed + 1, number) + 20
        resumed = summary.frames
    assert not (tmp_path / "model.npz").exists()
    second = interrupt(job, 145, KeyboardInterrupt, StoppedError)  # a second Ctrl-C does not wait for a checkpoint
    assert second.endswith("goes on after 140 frames")
    run_job(job)
    assert content(tmp_path) == expected_outputs("images")[1]


def test_a_run_removes_partial_files_that_no_checkpoint_needs(inputs, tmp_path):
    plain = make_job(inputs, tmp_path, save=("mask.mkv",), event_formats=("csv", "pictures"), end="9")
    stopped = dataclasses.replace(plain, resume=True, end=None)
    interrupt(stopped, 67)
    for folder in ("objects.partial", "overlay"):
        (tmp_path / folder).mkdir(exist_ok=True)
    others = {"panel.mp4.partial", "video.partial.avi"}
    images = ("objects.partial/000000.jpg.partial", "overlay/overlay999.png.partial")
    for name in (*others, *images, "events.csv.copy.partial"):
        (tmp_path / name).touch()
    run_job(plain)  # the checkpoint is that of the interrupted run
    assert {*others, "mask.mkv.partial"} < {path.name for path in tmp_path.rglob("*.partial*")}
    run_job(dataclasses.replace(plain, save=("mask.mkv", "overlay.png"), overwrite=True))
    assert {path.name for path in tmp_path.rglob("*.partial*")} == others
    with pytest.raises((ParameterError, SinkError), match="--overwrite"):  # it would start over
        run_job(stopped)


def test_one_resumable_run_at_a_time(inputs, tmp_path):
    output = tmp_path / "new" / "out"
    job = make_job(inputs, output, save=("mask.npz",), resume=True, end="30")

    @contextlib.contextmanager
    def meanwhile(_source):
        for again in (job, dataclasses.replace(job, overwrite=True)):
            with pytest.raises(SinkError, match=f"another run with --resume works in '{output}'"):
                run_job(again)
        yield lambda _frame, _separation: None

    run_job(job, watch=meanwhile)
    assert sorted(os.listdir(output)) == [".resume", "mask.npz"]
    with pytest.raises(ParameterError):
        run_job(dataclasses.replace(job, output=tmp_path / "other" / "out", save=("mask.jpg",)))
    assert os.listdir(tmp_path) == ["new"]
