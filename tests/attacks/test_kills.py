"""Killed at any frame or time, a run and a batch are resumed with the same bytes as without a kill."""

from __future__ import annotations

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
from video_fakes import content, write_images, write_video

from bgsub.jobs.checkpoints import Checkpoint
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.synthetic import scene
from bgsub.video.sinks import video

needs_kill = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
SAVE = ("mask.mkv", "panel.mp4", "overlay.mov", "cutout.mov", "mask.npz", "mask", "background-image")
LENGTH, SEGMENT = 90, 25  # frames of the video, and of its segments
NOT_OUTPUTS = (".resume", ".lock", "manifest", "result.json")


def make_job(source, output, **fields):
    fields = {"save": SAVE, "event_formats": ("csv", "jsonl", "html", "pictures"), **fields}
    return Job(str(source), output, parameters={"start_frames": 10}, save_model=output / "model.npz", **fields)


def outputs(folder):
    return {name: data for name, data in content(folder).items() if not any(part in name for part in NOT_OUTPUTS)}


def safe_frames(output):
    """Return the number of frames in the checkpoint."""
    path = output / ".resume" / "state"
    return Checkpoint.read(path).frames if path.exists() else 0


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
    return outputs(output)


def watching(act):
    """Return a watcher that calls `act` with the number of frames after each of them."""
    return lambda _source: nullcontext(lambda frame, _separation: act(frame.index + 1))


def run_until_killed(source, output, frames=0, seconds=0.0):
    """Run a job, and kill this process after a number of frames, or some seconds after the first frame."""
    video._SEGMENT = SEGMENT

    def act(number):
        if number == 1 and seconds:
            signal.setitimer(signal.ITIMER_REAL, seconds)  # its signal ends the process
        if number == frames:
            os.kill(os.getpid(), signal.SIGKILL)

    run_job(make_job(source, output, resume=True, checkpoint_seconds=0.0), watch=watching(act))


def is_killed(target, *arguments):
    """Call a function in a process; return whether the process was killed before it ended."""
    process = get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join(240)
    assert process.exitcode in (0, -signal.SIGKILL, -signal.SIGALRM)
    return process.exitcode != 0


@needs_kill
def test_a_kill_after_any_frame_loses_at_most_that_frame(source, whole, tmp_path, tries, score):
    def outcomes():
        for seed in range(tries(1, 12)):
            job, are_safe = make_job(source, tmp_path / str(seed), resume=True), []
            numbers = sorted(random.Random(100 + seed).sample(range(2, LENGTH), tries(2, 8)))
            for number in numbers:
                assert is_killed(run_until_killed, source, job.output, number)
                are_safe.append(safe_frames(job.output) == number - 1 and not (job.output / "objects").exists())
            is_same = run_job(job).summary.resumed == numbers[-1] - 1 and outputs(job.output) == whole
            yield from ((f"{numbers}", is_safe and is_same) for is_safe in are_safe)

    score("SIGKILL of a run after any frame, one frame lost at most", outcomes())


@needs_kill
def test_a_run_killed_at_any_moment_is_resumed(source, whole, tmp_path, tries, score):
    def outcomes():
        for seed in range(tries(1, 40)):
            job, chance = make_job(source, tmp_path / str(seed), resume=True), random.Random(200 + seed)
            kills = tries(1, 3)
            while kills and is_killed(run_until_killed, source, job.output, 0, chance.uniform(0.1, 1.0)):
                kills -= 1
            run_job(job)
            yield seed, outputs(job.output) == whole

    score("SIGKILL of a run at any moment", outcomes())


@needs_kill
def test_a_killed_batch_command_is_repeated_until_it_succeeds(tmp_path, tries, score):
    frames = np.stack([frame for frame, _ in scene("lobby", size=(96, 64), length=tries(100, 400), seed=2)])
    write_images(tmp_path / "in", frames)
    write_images(tmp_path / "in2", frames[:40])

    def start(out):
        words = ["--save", "mask.npz,mask.png", "--workers", "1", "--start-frames", "20", "--quiet", "-o", out]
        command = [sys.executable, "-m", "bgsub", "batch", "in*", *words]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    assert start("whole").wait(300) == 0
    whole = outputs(tmp_path / "whole")

    def outcomes():
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
            is_same = outputs(tmp_path / out) == whole
            yield (seed, error), process.returncode == 0 and is_same and "Traceback" not in error

    score("SIGKILL of bgsub batch at any time", outcomes())
