"""Two runs with the same outputs: one writes them, the other reports it."""

import os
import signal
import subprocess
import sys
import time

import pytest
from cli_inputs import make_scene
from video_fakes import content, write_video

from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job

SAVE = ("panel.mp4", "mask.npz")
RAW = "48x32:bgr24@25"
BUSY, DONE = "is being written by another run", "exists already"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Two videos as files and as bytes, and the outputs of a run over each."""
    folder = tmp_path_factory.mktemp("scenes")
    found = []
    for empty in (12, 30):
        frames = make_scene(60, empty=empty)
        path = write_video(folder / f"{empty}.avi", frames)
        alone = folder / f"alone{empty}"
        run_job(Job(str(path), alone, save=SAVE, event_formats=("csv",)))
        found.append((path, frames.tobytes(), content(alone)))
    return found


def start(source, output, *options):
    words = ["run", str(source), "-o", str(output), "--save", ",".join(SAVE), "--event-formats", "csv", *options]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-m", "bgsub", *words], **pipes)


def start_endless(raw, output):
    """Start a run over frames from a pipe, which goes on until the pipe is closed; it writes when this returns."""
    process = start("-", output, "--raw", RAW)
    process.stdin.write(raw)
    process.stdin.flush()
    deadline = time.monotonic() + 120
    while not (output.exists() and any(path.stat().st_size for path in output.iterdir())):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


def refused(process, answer):
    said = answer[1].decode()
    return process.returncode == 2 and said.count("\n") == 1 and (BUSY in said or DONE in said)


def test_two_runs_at_the_same_time(scenes, tmp_path, tries, score):
    count, survived = tries(2, 12), 0
    for number in range(count):
        output = tmp_path / str(number)
        processes = [start(path, output) for path, _raw, _whole in scenes]
        answers = [process.communicate(timeout=120) for process in processes]
        done = [process.returncode == 0 for process in processes]
        survived += (
            sum(done) == 1
            and content(output) == scenes[done.index(True)][2]
            and refused(processes[done.index(False)], answers[done.index(False)])
        )
    score("two runs into one folder at the same time", count, survived)


def test_other_runs_while_one_writes(scenes, tmp_path, tries, score):
    """Also with --overwrite, which replaces finished outputs only."""
    others = (("--resume",), ("--overwrite",), ())
    count, survived = tries(1, 12), 0
    for number in range(count):
        output = tmp_path / str(number)
        (_, raw, whole), (other, _, _) = scenes[number % 2], scenes[1 - number % 2]
        first = start_endless(raw, output)
        processes = [start(other, output, *options) for options in others]
        answers = [process.communicate(timeout=120) for process in processes]
        first.communicate(timeout=120)
        survived += first.returncode == 0 and content(output) == whole and all(map(refused, processes, answers))
    score("a run into the folder of an active one, plain, with --overwrite, with --resume", count, survived)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_run_after_a_killed_one(scenes, tmp_path, tries, score):
    count, survived = tries(1, 12), 0
    for number in range(count):
        output = tmp_path / str(number)
        (_, raw, _), (other, _, whole) = scenes
        first = start_endless(raw, output)
        os.kill(first.pid, signal.SIGKILL)
        first.communicate(timeout=120)
        process = start(other, output, "--overwrite")
        process.communicate(timeout=120)
        made = {name: data for name, data in content(output).items() if ".partial" not in name}
        survived += process.returncode == 0 and made == whole
    score("a run into the folder of a killed one", count, survived)
