"""``-`` and named pipes: frames from other programs into bgsub, and out of it into others."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from cli_inputs import PROGRAM, QUICK, make_scene
from live_fakes import wait_until
from sink_kit import read_images
from video_fakes import needs_pipes, read_video, streamed

pytestmark = needs_pipes


def start(folder, *words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE):
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    return subprocess.Popen(command, cwd=folder, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)


def finish(process):
    """Return exit code, bytes of standard output and text of standard error."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err.decode()


@pytest.mark.slow
def test_frames_in_and_out(cli, tmp_path, frames, folder):
    cli("run", folder, "-o", tmp_path / "expected", "--fps", 25, *QUICK).ok()
    (tmp_path / "frames.mkv").write_bytes(streamed(frames))
    words = ("run", "-", "-o", "-", "--save", "mask", "--json", *QUICK)
    with subprocess.Popen(["cat", tmp_path / "frames.mkv"], stdout=subprocess.PIPE) as sender:
        code, out, err = finish(start(tmp_path, *words, stdin=sender.stdout))
    assert code == 0, err
    assert err.startswith('{"source": "standard input", "frames": 30, ')
    (tmp_path / "mask.mkv").write_bytes(out)
    got = np.array(read_video(tmp_path / "mask.mkv"))[..., 0]
    np.testing.assert_array_equal(got, read_images(tmp_path / "expected" / "mask"))


@pytest.mark.slow
def test_closed_reader_ends_the_run_quietly(tmp_path, written):
    many = make_scene(2000)  # more than a pipe buffers
    process = start(tmp_path, "run", written(streamed(many)), "-o", "-", "--save", "panel", "-q", *QUICK)
    assert len(process.stdout.read(100)) == 100
    process.stdout.close()
    process.stdout = None
    assert finish(process) == (141, None, "")


def test_live_run_over_a_pipe_is_that_of_a_camera(cli, tmp_path, frames, written):
    words = ("live", written(streamed(frames)), "--no-window", "-o", tmp_path / "out", "--json", *QUICK)
    result = json.loads(cli(*words).ok().out)
    assert (result["stopped"], result["frames"] + result["dropped"]) == ("end", len(frames))
    assert len(read_video(tmp_path / "out" / "mask.mkv")) == result["frames"] > 0


@pytest.mark.slow
def test_ctrl_c_while_the_writer_is_silent(tmp_path, frames):
    os.mkfifo(tmp_path / "fifo")
    end = os.open(tmp_path / "fifo", os.O_RDWR)
    os.write(end, streamed(frames[:10]))
    process = start(tmp_path, "run", "fifo", "-o", "out", *QUICK)
    wait_until(lambda: process.poll() is not None or list(tmp_path.glob("out/mask*")), 120)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    os.close(end)
    assert (code, err.count("\n")) == (130, 1)
    assert b"; wrote " in out
    assert 0 < len(read_video(tmp_path / "out" / "mask.mkv")) <= 10
    assert not (tmp_path / "out" / ".resume").exists()


@pytest.mark.slow
def test_terminals_are_refused(tmp_path, folder):
    master, slave = os.openpty()
    read = finish(start(tmp_path, "run", "-", "-o", "out", stdin=slave))
    code, _, err = finish(start(tmp_path, "run", folder, "-o", "-", stdout=slave))
    os.close(master)
    os.close(slave)
    assert read == (2, b"", "bgsub: error: standard input is a terminal: a video must be piped into it\n")
    assert (code, err.partition(" terminal: ")[0]) == (2, "bgsub: error: standard output is a")
