"""Files are processed with a model that has seen their first frames; cameras, pipes and `online` runs are not."""

import re
from dataclasses import replace

import numpy as np
import pytest
from checkpoint_kit import due_every, raise_at
from video_fakes import content, needs_pipes, streamed, write_images, write_video

import bgsub
from bgsub.errors import BrokenSourceError, ParameterError
from bgsub.evaluation import Sequence, evaluate
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.subtractor.rehearsal import LONGEST
from bgsub.video import ArraySource

pytestmark = pytest.mark.large
H, W, LENGTH, LEAVES = 32, 48, 60, 40
PLACE = np.s_[8:24, 14:30]
PARAMETERS = {"start_frames": 10, "fps": 10.0}


def make_video(length=LENGTH, leaves=LEAVES):
    """Return frames of a textured wall; an object stands in `PLACE` until it leaves."""
    rng = np.random.default_rng(3)
    wall = np.kron(rng.integers(60, 200, (H // 8, W // 8, 3)), np.ones((8, 8, 1)))
    frames = np.repeat(wall[None], length, axis=0)
    frames[(slice(leaves), *PLACE)] = 20, 220, 30
    return np.clip(frames + rng.normal(0, 2, frames.shape), 0, 255).astype(np.uint8)


def make():
    return bgsub.BackgroundSubtractor(**PARAMETERS)


def masks_of(source, subtractor=None, **options):
    masks = []
    bgsub.process_video(source, lambda _frame, one: masks.append(one.mask), subtractor=subtractor or make(), **options)
    return np.stack(masks)


def online_masks(frames):
    subtractor = make()
    return np.stack([subtractor.apply(frame) for frame in frames])


def found(mask):
    return np.mean(mask[PLACE] == 255)


@pytest.mark.parametrize("kind", ["array", "video", "images", "part"])
def test_an_object_that_leaves_is_found_from_the_first_frame_on(tmp_path, kind):
    frames = make_video()
    sources = {
        "array": lambda: ArraySource(frames),
        "video": lambda: write_video(tmp_path / "a.avi", frames, fps=PARAMETERS["fps"]),
        "images": lambda: write_images(tmp_path / "a", frames),
        "part": lambda: bgsub.open_source(np.concatenate([frames[:7], frames]), start=7),
    }
    masks = masks_of(sources[kind]())
    assert all(found(mask) > 0.9 for mask in masks[:LEAVES])
    assert not np.count_nonzero(masks[-10:])
    np.testing.assert_array_equal(masks_of(sources[kind](), online=True), online_masks(frames))
    assert found(online_masks(frames)[0]) == 0
    separated = [separation.mask for _, separation in bgsub.separate(sources[kind](), subtractor=make())]
    np.testing.assert_array_equal(separated, masks)


def test_what_becomes_background_later_is_not_missed_at_the_beginning():
    frames, subtractor = make_video()[::-1], bgsub.BackgroundSubtractor(**PARAMETERS, absorb_after=2.0)
    masks = masks_of(ArraySource(frames), subtractor)
    arrives = LENGTH - LEAVES
    assert not np.count_nonzero(masks[:arrives])
    assert found(masks[arrives + 15]) > 0.9
    assert not np.count_nonzero(masks[-5:])
    assert subtractor.get_params()["absorb_after"] == 2.0


def test_rehearsal_starts_the_stream_once_more():
    frames, subtractor = make_video(), make()
    assert subtractor.rehearse(iter(frames))
    assert subtractor.phase == "tracking"
    assert subtractor.getBackgroundImage().shape == (H, W, 3)
    first = subtractor.process(frames[0])
    assert (first.event, first.phase) == (None, "tracking")
    assert found(first.mask) > 0.9
    assert not make().rehearse([])
    broken = make()
    with pytest.raises(ParameterError, match="shape"):
        broken.rehearse([*frames, frames[0][:5]])
    assert found(broken.apply(frames[0])) > 0.9
    for wrong in ("video.mp4", 5):
        with pytest.raises(ParameterError, match=f"frames must be an iterable of arrays, got {type(wrong).__name__}"):
            make().rehearse(wrong)
    for shape in ((48, 64), (48, 64, 3), ()):
        with pytest.raises(ParameterError, match=f"several images, got one of shape {re.escape(str(shape))}"):
            make().rehearse(np.zeros(shape, np.uint8))


def test_another_light_or_scene_at_the_beginning_is_no_event():
    frames = make_video(leaves=0)
    for begin, event in ((frames[:20] // 2, None), (255 - frames[:20], "scene-change")):
        every = np.concatenate([begin, frames])
        events = [one.event for _, one in bgsub.separate(every, subtractor=make())]
        assert (events[0], events[20]) == (None, event)


def test_a_rehearsal_over_a_cut_leaves_no_detail_of_the_other_scene():
    frames, subtractor = make_video(leaves=0), bgsub.BackgroundSubtractor(**PARAMETERS, scale=0.5)
    assert subtractor.rehearse([*frames, *(255 - frames)])
    assert np.abs(subtractor.process(frames[0]).background.astype(int) - frames[0]).mean() < 5


def test_a_background_that_is_mostly_hidden_is_known_from_the_first_frame_on():
    frames = make_video(leaves=0)
    empty, half = frames[-1].copy(), np.s_[:, W // 2 :]
    colours = np.random.default_rng(0).integers(0, 256, (len(frames), 6, 4, 3), np.uint8)
    hiding = colours.repeat(-(-H // 6), 1)[:, :H].repeat(-(-W // 8), 2)[:, :, : W - W // 2]
    for i in range(len(frames)):
        if i % 5 > 1:
            frames[i][half] = hiding[i]
    masks = masks_of(frames)
    away = np.linalg.norm(frames[2][half].astype(float) - empty[half], axis=2) > 60
    assert away.mean() > 0.7
    assert np.mean(masks[2][half][away] == 255) > 0.8
    assert np.mean(masks[1][half] == 255) < 0.1


@pytest.mark.parametrize("count", [1, 5, 30])
def test_few_frames(count):
    masks = masks_of(make_video(count, leaves=count // 2))
    assert len(masks) == count
    assert count < 30 or found(masks[0]) > 0.9


def test_at_most_500_frames_are_learned(monkeypatch):
    counts = []
    monkeypatch.setattr(bgsub.BackgroundSubtractor, "apply", lambda _self, frame: counts.append(frame) or frame)
    make().rehearse(np.zeros((LONGEST + 9, 4, 4), np.uint8))
    assert len(counts) == LONGEST


@needs_pipes
def test_a_pipe_and_a_used_model_are_causal(written):
    frames = make_video()
    pipe = bgsub.open_source(written(streamed(frames)), fps=PARAMETERS["fps"])
    np.testing.assert_array_equal(masks_of(pipe), online_masks(frames))
    used, other = make(), make()
    for subtractor in (used, other):
        subtractor.apply(frames[-1])
    expected = [other.apply(frame) for frame in frames]
    np.testing.assert_array_equal(masks_of(frames, used), expected)


def make_job(source, output, **fields):
    usual = {"save": ("mask.npz",), "parameters": PARAMETERS, "event_formats": "jsonl"}
    return Job(str(source), output, **{**usual, **fields})


def test_a_damaged_file_ends_as_before(tmp_path, caplog):
    folder = write_images(tmp_path / "in", make_video())
    (folder / "in000058.png").write_bytes(b"")
    with pytest.raises(BrokenSourceError, match="in000058") as caught:
        run_job(make_job(folder, tmp_path / "stopped"))
    assert caught.value.result.summary.frames == 57
    assert found(np.load(tmp_path / "stopped" / "mask.npz")["mask"][0]) > 0.9
    caplog.clear()
    result = run_job(make_job(folder, tmp_path / "skipped", on_error="skip"))
    assert (result.summary.frames, result.summary.skipped) == (LENGTH - 1, 1)
    assert caplog.text.count("in000058") == 1


def test_resume_continues_with_the_rehearsed_model(tmp_path, monkeypatch):
    due_every(monkeypatch, 10)
    folder = write_images(tmp_path / "in", make_video())
    roi = ("place=4,4,36,24",)
    run_job(make_job(folder, tmp_path / "whole", roi=roi))
    job = make_job(folder, tmp_path / "resumed", roi=roi, resume=True)
    with pytest.raises(RuntimeError):
        raise_at(job, 35, RuntimeError())
    with pytest.raises(ParameterError, match="--online False, now True"):
        run_job(replace(job, online=True))
    with monkeypatch.context() as patched:
        patched.delattr(bgsub.BackgroundSubtractor, "rehearse")
        assert run_job(job).summary.resumed == 30
    assert content(tmp_path / "resumed") == content(tmp_path / "whole")
    assert '"start_frame":0,' in (tmp_path / "whole" / "events.jsonl").read_text()


def test_evaluation(tmp_path):
    frames = make_video()
    truths = np.zeros((LENGTH, H, W), np.uint8)
    truths[(slice(LEAVES), *PLACE)] = 255
    write_images(tmp_path / "input", frames)
    write_images(tmp_path / "groundtruth", truths, "gt{:06d}.png")
    sequence = Sequence(tmp_path)
    ahead, online = (evaluate(sequence, make(), online=online) for online in (False, True))
    assert ahead.confusion.recall > 0.9 > online.confusion.recall
    assert ahead.length == online.length == LENGTH
    assert evaluate(sequence, "mog2").length == LENGTH
