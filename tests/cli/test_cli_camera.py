"""``bgsub camera``: a camera in a process of its own, watched by ``bgsub live``."""

import signal
import subprocess
import sys
import time

import pytest
from cli_inputs import PROGRAM
from video_fakes import read_video

from bgsub.live.loopback_camera import LoopbackCamera


@pytest.fixture
def served():
    """A function that starts the command and returns the process and its address."""
    processes = []

    def serve(*words):
        command = [sys.executable, "-u", "-c", PROGRAM, "camera", *map(str, words)]
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        processes.append(process)
        line = process.stdout.readline()
        return process, line.split(" at ")[1].split()[0], line

    yield serve
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_scene_is_separated_live(cli, tmp_path, served, number):
    process, address, line = served("--size", "64x48", "--fps", 50, "--cut-every", 0.4)
    assert line == f"a camera sends 50 frames per second at {address} until Ctrl-C\n"
    out = tmp_path / "out"
    answer = cli("live", address, "--no-window", "-o", out, "--duration", 12, "--start-frames", 5).ok()
    assert "12 frames of 64x48" in answer.out
    assert len(read_video(out / "mask.mkv")) == 12
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("sent ")


def test_a_file_is_served(cli, tmp_path, served, folder):
    _, address, _ = served(folder, "--fps", 100, "--stamp")
    answer = cli("live", address, "--no-window", "-o", tmp_path / "out", "--duration", 3).ok()
    assert "3 frames of 48x32" in answer.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--size", "big"), "--size takes a width and height such as 320x240, got 'big'"),
        (("--size", "8x8"), "size must be (width, height), each at least 16, got (8, 8)"),
        (("missing.mp4",), "no such file or folder: 'missing.mp4'"),
    ],
)
def test_wrong_input(cli, words, message):
    cli("camera", *words).refused(message)


def test_ctrl_c_while_the_camera_is_silent(tmp_path, frames):
    with LoopbackCamera(frames, 50) as camera:
        words = ["live", camera.address, "--no-window", "-o", "out", "--start-frames", "5"]
        command = [sys.executable, "-c", PROGRAM, *words]
        with subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE) as process:
            end = time.monotonic() + 60
            while not list(tmp_path.glob("out/mask*")):
                assert time.monotonic() < end
                time.sleep(0.02)
            camera.stall(60)
            time.sleep(0.3)
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=20)
            assert process.returncode == 0
        # The thread in the camera would wait for 10 s.
        assert time.monotonic() - begin < 8
    assert "; stopped by the user; wrote" in out
    assert read_video(tmp_path / "out" / "mask.mkv")
