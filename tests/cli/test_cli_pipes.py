"""``-`` and named pipes: frames from other programs into bgsub, and out of it into others."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from cli_inputs import HEIGHT, PROGRAM, QUICK, WIDTH, make_scene, names, read_masks
from video_fakes import Writers, needs_pipes, read_video, write_video

pytestmark = needs_pipes
RAW = f"{WIDTH}x{HEIGHT}:bgr24@25"
needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg here")


def start(folder, *words, **streams):
    """Start the program in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, **{**pipes, **streams})


def finish(process):
    """Return exit code, bytes of standard output and text of standard error."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err.decode()


def wait_until(process, condition):
    end = time.monotonic() + 120
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)


def ffmpeg(*words, **streams):
    return subprocess.Popen(["ffmpeg", "-v", "error", *map(str, words)], **streams)


@pytest.fixture
def written(tmp_path):
    """A function that returns a named pipe and writes bytes into it from a thread."""
    writers = Writers(tmp_path)
    yield writers
    writers.join()


@pytest.mark.slow
def test_raw_frames_in_and_out(cli, tmp_path, frames, folder):
    cli("run", folder, "-o", tmp_path / "expected", "--fps", 25, *QUICK).ok()
    (tmp_path / "frames.raw").write_bytes(frames.tobytes())
    words = ("run", "-", "--raw", RAW, "-o", "-", "--save", "mask.raw", "--json", *QUICK)
    with subprocess.Popen(["cat", tmp_path / "frames.raw"], stdout=subprocess.PIPE) as sender:
        code, out, err = finish(start(tmp_path, *words, stdin=sender.stdout))
    assert code == 0, err
    hint, summary = err.splitlines()
    assert hint.endswith("-f rawvideo -pixel_format gray -video_size 48x32 -framerate 25 -i -")
    assert summary.startswith('{"source": "standard input", "frames": 30, ')
    got = np.frombuffer(out, np.uint8).reshape(30, HEIGHT, WIDTH)
    np.testing.assert_array_equal(got, read_masks(tmp_path / "expected" / "mask"))


@pytest.mark.slow
@needs_ffmpeg
def test_between_two_ffmpeg(tmp_path, frames):
    video = write_video(tmp_path / "in.avi", frames)
    with ffmpeg("-i", video, "-f", "matroska", "-c:v", "ffv1", "-", stdout=subprocess.PIPE) as sender:
        process = start(tmp_path, "run", "-", "-o", "-", "--save", "panel", *QUICK, stdin=sender.stdout)
        sender.stdout.close()
        with ffmpeg("-i", "-", "-c:v", "ffv1", tmp_path / "out.mkv", stdin=process.stdout) as receiver:
            process.stdout.close()
            process.stdout = None
            code, _, err = finish(process)
            assert receiver.wait(60) == 0
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("standard input: 30 frames of 48x32 in ")
    assert [frame.shape for frame in read_video(tmp_path / "out.mkv")] == [(2 * HEIGHT, 2 * WIDTH, 3)] * 30


@pytest.mark.slow
@pytest.mark.parametrize("view", ["background.raw", "panel.mkv"])
def test_closed_reader_ends_the_run_quietly(tmp_path, written, view):
    many = make_scene(2000)  # more than a pipe buffers
    process = start(tmp_path, "run", written(many.tobytes()), "--raw", RAW, "-o", "-", "--save", view, "-q", *QUICK)
    assert len(process.stdout.read(100)) == 100
    process.stdout.close()
    process.stdout = None
    assert finish(process) == (141, None, "")


def test_writer_that_ends_within_a_frame(cli, tmp_path, frames, written):
    fifo = written(frames.tobytes()[:-7])
    answer = cli("run", fifo, "--raw", RAW, "-o", tmp_path / "out", *QUICK)
    assert answer.code == 1
    message = f"bgsub: error: pipe '{fifo}' ends within frame 29, after 4601 of 4608 bytes"
    assert answer.err.startswith(message)
    assert len(read_video(tmp_path / "out" / "mask.mkv")) == 29


@pytest.mark.slow
def test_ctrl_c_while_the_writer_is_silent(tmp_path, frames):
    os.mkfifo(tmp_path / "fifo")
    end = os.open(tmp_path / "fifo", os.O_RDWR)
    os.write(end, frames[:3].tobytes())
    process = start(tmp_path, "run", "fifo", "--raw", RAW, "-o", "out", *QUICK)
    wait_until(process, lambda: list(tmp_path.glob("out/mask*")))
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    os.close(end)
    assert (code, err.count("\n")) == (130, 1)
    assert b"; wrote " in out
    assert 0 < len(read_video(tmp_path / "out" / "mask.mkv")) <= 3
    assert not (tmp_path / "out" / ".resume").exists()


def test_live_run_of_a_pipe(cli, tmp_path, frames, written):
    out = tmp_path / "out"
    answer = cli("live", written(frames.tobytes()), "--raw", RAW, "--no-window", "-o", out, *QUICK).ok()
    assert "; the camera stopped sending; wrote " in answer.out


@pytest.mark.slow
def test_terminals_are_refused(tmp_path, folder):
    master, slave = os.openpty()
    try:
        read = finish(start(tmp_path, "run", "-", "-o", "out", stdin=slave))
        written = finish(start(tmp_path, "run", folder, "-o", "-", stdout=slave))
    finally:
        os.close(master)
        os.close(slave)
    assert read == (2, b"", "bgsub: error: standard input is a terminal: a video must be piped into it\n")
    assert written[0] == 2
    assert written[2].startswith("bgsub: error: standard output is a terminal: ")


FOLDER = "-o takes a folder here; bgsub run writes to standard output"
ONE_VIEW = "standard output takes the frames of one view (--save), no event files"
RESUME = "a run through a pipe cannot be resumed: resume needs a file and a folder"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "-", "-o", "out", "--raw", "8x8:bgr"), "--raw: raw frames are of bgr24, rgb24, gray, gray16le, got"),
        (("run", "0", "-o", "out", "--raw", "8x8:gray"), "raw frames come from a pipe or a file, got '0'"),
        (("run", "-", "-", "-o", "out"), "'-' does not exist: several sources are the video files, or the images, of"),
        (("live", "-", "-", "--no-window", "-o", "out"), "each camera can be given once, got - twice"),
        (("live", "0", "1", "--no-window", "-o", "-"), "standard output takes one camera, got several"),
        (("batch", "-", "-o", "out"), "a batch takes files, got '-': bgsub run reads standard input"),
        (("batch", "frames", "-o", "-"), FOLDER),
        (("demo", "-o", "-"), FOLDER),
        (("decompose", "frames", "-o", "-"), FOLDER),
        (("track", "frames", "-o", "-"), ONE_VIEW),
        (("run", "frames", "-o", "-", "--record", "clips"), ONE_VIEW),
        (("run", "frames", "-o", "-", "--event-formats", "csv"), ONE_VIEW),
        (("run", "-", "-o", "out", "--resume"), RESUME),
        (("run", "frames", "-o", "-", "--resume"), RESUME),
        (("run", "frames", "-o", "-", "--save", "mask,panel"), "standard output takes one view, got mask, panel"),
        (("run", "frames", "-o", "out", "--save", "mask.raw"), "mask.raw is for standard output: -o - --save mask.raw"),
    ],
)
def test_wrong_use_of_pipes(cli, here, folder, words, message):
    cli(*words).refused(message)
    assert names(here) == ["frames"]
