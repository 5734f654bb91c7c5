"""``bgsub camera`` in a process of its own, watched by ``bgsub live``."""

import signal
import subprocess
import sys

import pytest
from cli_inputs import PROGRAM
from video_fakes import read_video


def start(*words, **options):
    command = [sys.executable, "-u", "-c", PROGRAM, *map(str, words)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "words", "size"),
    [
        (signal.SIGINT, ("--size", "64x48", "--cut-every", 0.4), "64x48"),
        (signal.SIGTERM, ("frames", "--stamp"), "48x32"),
    ],
)
def test_camera_is_separated_live(cli, here, folder, number, words, size):
    with start("camera", *words, "--fps", 50) as process:
        line = process.stdout.readline()
        address = line.split(" at ")[1].split()[0]
        assert line == f"a camera sends 50 frames per second at {address} until Ctrl-C\n"
        answer = cli("live", address, "--no-window", "-o", "out", "--duration", 12, "--start-frames", 5).ok()
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert f"12 frames of {size}" in answer.out
    assert len(read_video(here / "out" / "mask.mkv")) == 12
    assert (process.returncode, err) == (0, "")
    assert out.startswith("sent ")


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
