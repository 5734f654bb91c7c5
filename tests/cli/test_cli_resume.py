"""``bgsub run --resume``: a process that is killed, and the same command once more."""

import importlib.util
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from video_fakes import content, write_images, write_video

from bgsub.errors import SourceError
from bgsub.jobs.checkpoints import Checkpoint
from bgsub.synthetic import scene

LENGTH = 333
VIDEO = ["--save", "mask", "--save", "overlay.mp4", "--save", "mask.npz", "--save", "background-image"]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=130, seed=4)])
    frames = np.tile(frames, (LENGTH // 130 + 1, 1, 1, 1))[:LENGTH]
    write_video(folder / "video.avi", frames)
    write_images(folder / "frames", frames)
    return folder


def safe_frames(output):
    """After how many frames the newest checkpoint is; 0 while there is none."""
    try:
        return Checkpoint.read(output / ".resume" / "state").frames
    except SourceError:
        return 0


def start(*words):
    command = [sys.executable, "-m", "bgsub", "run", *map(str, words), "--resume", "--checkpoint-seconds", "0"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start_and_wait(output, frames, *words):
    """Start a run and return its process once its checkpoint is after so many frames."""
    process = start(*words)
    deadline = time.monotonic() + 120
    while safe_frames(output) < frames:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"no checkpoint after {frames} frames: {process.communicate()}")
        time.sleep(0.002)
    return process


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.parametrize("kind", ["video", "images"])
def test_after_a_kill_every_byte_is_that_of_an_uninterrupted_run(cli, sources, tmp_path, kind):
    if kind == "video" and not importlib.util.find_spec("av"):
        pytest.skip("the package av is not installed")
    source, outputs = (sources / "video.avi", VIDEO) if kind == "video" else (sources / "frames", ["--save", "mask"])
    options = [*outputs, "--start-frames", 20]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert cli("run", source, "-o", whole, *options, "--save-model", tmp_path / "whole.npz").code == 0

    words = source, "-o", killed, *options, "--save-model", tmp_path / "killed.npz"
    for frames in (60, 120):
        process = start_and_wait(killed, frames, *words)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    safe = safe_frames(killed)
    assert 120 <= safe < LENGTH
    answer = cli("run", *words, "--resume").clean()
    assert f"{LENGTH} frames of 48x32" in answer.out
    assert f"resumed after {safe} frames" in answer.out
    assert content(killed) == content(whole)
    assert (tmp_path / "killed.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()

    again = cli("run", *words, "--resume").ok()
    assert "done already" in again.out
    assert content(killed) == content(whole)


@pytest.mark.skipif(os.name != "posix", reason="signals of a terminal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_was_stopped_says_how_it_goes_on(cli, sources, tmp_path, signal_after, number):
    words = sources / "frames", "-o", tmp_path, "--start-frames", 20
    signal_after(70, number)
    answer = cli("run", *words, "--resume")
    assert answer.code == 128 + number
    assert "; stopped by " in answer.out
    assert "wrote" not in answer.out
    safe = safe_frames(tmp_path)
    assert 70 <= safe < LENGTH
    assert f"stopped after {safe} frames" in answer.err
    assert f"the same command goes on after {safe} frames" in answer.err
    assert "Traceback" not in answer.err
    other = cli("run", *words, "--resume", "--rank", 2)
    assert other.code == 2
    assert "(--rank 3, now 2); --overwrite starts anew" in other.err
    assert cli("run", *words, "--resume").code == 0
    assert safe_frames(tmp_path) == 0


def test_results_are_replaced_only_if_asked(cli, folder, tmp_path):
    words = "run", folder, "-o", tmp_path / "out"
    assert cli(*words).code == 0
    before = content(tmp_path / "out")
    answer = cli(*words)
    assert answer.code == 2
    assert "exists already" in answer.err
    assert content(tmp_path / "out") == before
    assert cli(*words, "--overwrite").code == 0
    assert content(tmp_path / "out") == before


def test_a_camera_cannot_be_resumed(cli, mjpeg_server, tmp_path):
    answer = cli("run", mjpeg_server.address, "-o", tmp_path, "--resume")
    assert answer.code == 2
    assert "cannot be resumed: the source is live" in answer.err
