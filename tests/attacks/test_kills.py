"""Killed at any frame or time, a run and a batch are resumed with the same bytes as without a kill."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from multiprocessing import get_context

import numpy as np
import pytest
from checkpoint_kit import raise_at
from scoring import scored
from video_fakes import content, write_images, write_video

from bgsub.errors import SinkError
from bgsub.jobs.checkpoints import saved_frames
from bgsub.jobs.decomposition.run import ARRAYS, frame_targets, output_folder
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.storage.file_lock import Claims
from bgsub.synthetic import scene
from bgsub.video.sinks import video

needs_kill = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
SAVE = ("mask.mkv", "panel.mp4", "overlay.mov", "cutout.mov", "mask.npz", "mask", "background-image")
LENGTH, SEGMENT = 90, 25  # frames of the video, and of its segments
NOT_OUTPUTS = (".resume", ".lock", "manifest", "result.json")


def make_job(source, output, **fields):
    fields = {"save": SAVE, "event_formats": ("csv", "jsonl", "html", "pictures"), **fields}
    return Job(str(source), output, parameters={"start_frames": 10}, save_model=output / "model.npz", **fields)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return a video with changing light and a moving object."""
    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=LENGTH, seed=3)])
    return write_video(tmp_path_factory.mktemp("in") / "video.avi", frames)


@pytest.fixture(scope="module", autouse=True)
def short_segments():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(video, "_SEGMENT", SEGMENT)
        yield


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory):
    """Return the outputs of a run without a stop."""
    output = tmp_path_factory.mktemp("whole")
    run_job(make_job(source, output))
    return content(output, NOT_OUTPUTS)


def run_until_killed(source, output, frames=0, seconds=0.0, resume=True):
    """Run a job, and kill this process after a number of frames, or some seconds after the first frame."""
    video._SEGMENT = SEGMENT

    def act(frame, _separation):
        if frame.index == 0 and seconds:
            signal.setitimer(signal.ITIMER_REAL, seconds)  # its signal ends the process
        if frame.index + 1 == frames:
            os.kill(os.getpid(), signal.SIGKILL)

    run_job(make_job(source, output, resume=resume, checkpoint_seconds=0.0), watch=lambda _source: nullcontext(act))


def is_killed(target, *arguments):
    """Call a function in a process; return whether the process was killed before it ended."""
    process = get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join(240)
    assert process.exitcode in (0, -signal.SIGKILL, -signal.SIGALRM)
    return process.exitcode != 0


@needs_kill
@scored("SIGKILL of a run after any frame, one frame lost at most")
def test_a_kill_after_any_frame_loses_at_most_that_frame(source, whole, tmp_path, tries):
    for seed in range(tries(1, 12)):
        job, are_safe = make_job(source, tmp_path / str(seed), resume=True), []
        numbers = sorted(random.Random(100 + seed).sample(range(2, LENGTH), tries(2, 8)))
        for number in numbers:
            assert is_killed(run_until_killed, source, job.output, number)
            are_safe.append(saved_frames(job.output) == number - 1 and not (job.output / "objects").exists())
        is_same = run_job(job).summary.resumed == numbers[-1] - 1 and content(job.output, NOT_OUTPUTS) == whole
        yield from ((f"{numbers}", is_safe and is_same) for is_safe in are_safe)


@needs_kill
@scored("SIGKILL of a run at any moment")
def test_a_run_killed_at_any_moment_is_resumed(source, whole, tmp_path, tries):
    for seed in range(tries(1, 40)):
        job, chance = make_job(source, tmp_path / str(seed), resume=True), random.Random(200 + seed)
        kills = tries(1, 3)
        while kills and is_killed(run_until_killed, source, job.output, 0, chance.uniform(0.1, 1.0)):
            kills -= 1
        run_job(job)
        yield seed, content(job.output, NOT_OUTPUTS) == whole


@needs_kill
@scored("SIGKILL of a run without --resume, then --overwrite")
def test_outputs_of_a_killed_run_can_be_replaced(source, whole, tmp_path, tries):
    for number in tries((40,), range(5, LENGTH, 5)):
        job = make_job(source, tmp_path / str(number), overwrite=True)
        assert is_killed(run_until_killed, source, job.output, number, 0, False)
        run_job(job)
        yield number, content(job.output, NOT_OUTPUTS) == whole


@scored("two runs into one folder, started together")
def test_one_of_two_simultaneous_runs_is_refused(source, tmp_path, tries):
    def start(name, rank):
        words = ["run", source, "-o", name, "--save", "panel.mp4,mask.npz", "--event-formats", "csv", "--rank", rank]
        command = [sys.executable, "-m", "bgsub", *map(str, words), "--quiet"]
        return subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    assert [start(f"alone{rank}", rank).wait(120) for rank in (1, 5)] == [0, 0]
    alone = [content(tmp_path / f"alone{rank}") for rank in (1, 5)]
    assert alone[0]["panel.mp4"] != alone[1]["panel.mp4"]
    for number in range(tries(1, 12)):
        processes = [start(str(number), rank) for rank in (1, 5)]
        errors = [process.communicate(timeout=120)[1] for process in processes]
        codes = [process.returncode for process in processes]
        reasons = ("is being written by another run", "exists already")
        is_refused = sorted(codes) == [0, 2] and any(reason in errors[codes.index(2)] for reason in reasons)
        is_whole = is_refused and content(tmp_path / str(number)) == alone[codes.index(0)]
        yield (codes, errors), is_whole and "".join(errors).count("\n") == 1


@needs_kill
@scored("SIGKILL of bgsub batch at any time")
def test_a_killed_batch_command_is_repeated_until_it_succeeds(tmp_path, tries):
    frames = np.stack([frame for frame, _ in scene("lobby", size=(96, 64), length=tries(100, 400), seed=2)])
    write_images(tmp_path / "in", frames)
    write_images(tmp_path / "in2", frames[:40])

    def start(out):
        words = ["--save", "mask.npz,mask.png", "--workers", "1", "--start-frames", "20", "--quiet", "-o", out]
        command = [sys.executable, "-m", "bgsub", "batch", "in*", *words]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    assert start("whole").wait(300) == 0
    whole = content(tmp_path / "whole", NOT_OUTPUTS)
    for seed in range(tries(1, 25)):
        chance, out = random.Random(seed), str(seed)
        for _ in range(tries(1, chance.randint(1, 3))):
            process = start(out)
            try:
                process.wait(chance.uniform(0.8, 4.0))  # seconds, most of them to import
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate(timeout=60)
            time.sleep(0.2)  # the workers notice the end of the program
        process = start(out)
        error = process.communicate(timeout=300)[1]
        is_same = content(tmp_path / out, NOT_OUTPUTS) == whole
        yield (seed, error), process.returncode == 0 and is_same and "Traceback" not in error


@pytest.mark.parametrize("kind", [ValueError, SinkError])
def test_an_error_of_the_caller_is_raised_as_it_is_by_a_resumed_run(source, tmp_path, kind):
    job = make_job(source, tmp_path, save=("mask.npz",), resume=True, checkpoint_seconds=0.0)

    for number, error in ((20, RuntimeError("stop")), (40, kind("of the caller"))):
        with pytest.raises(type(error)) as caught:
            raise_at(job, number, error)
        assert caught.value is error
        assert saved_frames(tmp_path) > 0
    assert run_job(job).summary.resumed > 20


def die_while_writing(folder):
    """Be killed with an output claimed, in the middle of a decomposition."""
    with Claims() as claims, output_folder(folder, [ARRAYS], None, overwrite=False) as made:
        claims.take(folder / f"{os.getpid()}.mp4")
        (made / "part").write_bytes(b"1")
        os.kill(os.getpid(), signal.SIGKILL)


@needs_kill
def test_what_dead_runs_have_hidden_is_removed_by_the_next_run(tmp_path, tries):
    for _ in range(tries(1, 20)):
        assert is_killed(die_while_writing, tmp_path)
    assert list(tmp_path.glob(".decompose-*"))
    with Claims() as alive:
        alive.take(tmp_path / "alive.mp4")
        with output_folder(tmp_path, frame_targets(as_images=False), None, overwrite=False) as made:
            assert {path.name for path in tmp_path.iterdir() if "lock" not in path.name} == {made.parent.name}
            with output_folder(tmp_path, [ARRAYS], None, overwrite=False) as other:
                assert made.exists()  # its owner lives
                (other / "decomposition.npz").write_bytes(b"2")
            for name in ("low_rank.mp4", "sparse.mp4"):
                (made / name).write_bytes(b"3")
        assert {path.name for path in tmp_path.glob(".*")} == {".alive.mp4.bgsub.lock"}
    assert {path.name for path in tmp_path.iterdir()} == {"decomposition.npz", "low_rank.mp4", "sparse.mp4"}
