"""``-`` and named pipes: frames through other programs into bgsub, and out of it into others."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_inputs import HEIGHT, PROGRAM, WIDTH, make_scene
from video_fakes import Writers, needs_pipes, read_video, write_video

from bgsub._opencv import cv2

pytestmark = needs_pipes
QUICK = ("--start-frames", "10")
RAW = f"{WIDTH}x{HEIGHT}:bgr24@25"
TOLD = (
    "bgsub: on standard output are raw frames; ffmpeg and ffplay read them with "
    "-f rawvideo -pixel_format gray -video_size 48x32 -framerate 25 -i -\n"
)
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


def another(program, **streams):
    """Start a Python program, given as text, with pipes as they are wanted."""
    return subprocess.Popen([sys.executable, "-c", program], **streams)


def ffmpeg(*words, **streams):
    return subprocess.Popen(["ffmpeg", "-v", "error", *map(str, words)], **streams)


@pytest.fixture
def written(tmp_path):
    """A function that returns a named pipe into which somebody writes those bytes."""
    writers = Writers(tmp_path)
    yield writers
    writers.join()


def masks_of(cli, folder, tmp_path):
    cli("run", folder, "-o", tmp_path / "expected", "--fps", 25, *QUICK).ok()
    return [cv2.imread(str(path), 0) for path in sorted((tmp_path / "expected" / "mask").glob("*.png"))]


def test_raw_frames_from_one_program_through_bgsub_to_another(cli, tmp_path, frames, folder):
    (tmp_path / "frames.raw").write_bytes(frames.tobytes())
    send = f"import shutil, sys; shutil.copyfileobj(open({str(tmp_path / 'frames.raw')!r}, 'rb'), sys.stdout.buffer)"
    receive = f"import sys; open({str(tmp_path / 'masks.raw')!r}, 'wb').write(sys.stdin.buffer.read())"
    with another(send, stdout=subprocess.PIPE) as sender:
        words = ("run", "-", "--raw", RAW, "-o", "-", "--save", "mask.raw", "--json", *QUICK)
        process = start(tmp_path, *words, stdin=sender.stdout)
        sender.stdout.close()
        with another(receive, stdin=process.stdout) as receiver:
            process.stdout.close()
            process.stdout = None
            code, _, err = finish(process)
            assert receiver.wait(60) == 0
    assert code == 0, err
    told, summary = err.splitlines(keepends=True)
    assert told == TOLD
    assert summary.startswith('{"source": "standard input", "frames": 30, ')
    got = np.fromfile(tmp_path / "masks.raw", np.uint8).reshape(30, HEIGHT, WIDTH)
    np.testing.assert_array_equal(got, masks_of(cli, folder, tmp_path))


def test_boxes_and_privacy_go_through_a_pipe_too(cli, tmp_path, frames, folder):
    (tmp_path / "frames.raw").write_bytes(frames.tobytes())
    hidden = ("--privacy", "0,0,48,4", *QUICK)
    cli("run", folder, "-o", tmp_path / "expected", "--fps", 25, "--save", "boxes.png", *hidden).ok()
    expected = [cv2.imread(str(path)) for path in sorted((tmp_path / "expected" / "boxes").iterdir())]
    with (tmp_path / "frames.raw").open("rb") as raw:
        code, out, err = finish(
            start(tmp_path, "run", "-", "--raw", RAW, "-o", "-", "--save", "boxes.raw", *hidden, stdin=raw)
        )
    assert code == 0, err
    assert "-video_size 336x224" in err  # small frames are enlarged
    got = np.frombuffer(out, np.uint8).reshape(-1, 224, 336, 3)
    np.testing.assert_array_equal(got, expected)
    assert not got[:, 20:28, :100].any()


@needs_ffmpeg
def test_between_two_programs(tmp_path, frames):
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


def test_boxes_are_drawn_on_what_goes_to_standard_output(tmp_path, folder):
    outputs = [
        finish(start(tmp_path, "run", folder, "-o", "-", "--save", "panel.raw", "-q", *QUICK, *words))
        for words in ((), ("--boxes",))
    ]
    (plain_code, plain, _), (drawn_code, drawn, _) = outputs
    assert (plain_code, drawn_code, len(plain)) == (0, 0, 30 * 4 * HEIGHT * WIDTH * 3)
    assert len(drawn) % 30 == 0  # small pictures are enlarged for the letters
    assert drawn not in (plain, b"")


@needs_ffmpeg
@pytest.mark.parametrize("container", ["matroska", "mpegts", "mp4"])
def test_what_ffmpeg_writes_into_a_pipe_is_read(tmp_path, frames, container):
    video = write_video(tmp_path / "in.avi", frames)
    options = ("-movflags", "frag_keyframe+empty_moov") if container == "mp4" else ()
    words = ("-i", video, "-c:v", "mpeg4", "-q:v", 2, *options, "-f", container, "-")
    with ffmpeg(*words, stdout=subprocess.PIPE) as sender:
        code, out, err = finish(start(tmp_path, "run", "-", "-o", "out", *QUICK, stdin=sender.stdout))
    assert (code, err) == (0, "")
    assert out.startswith(b"standard input: 30 frames of 48x32 in ")
    masks = read_video(tmp_path / "out" / "mask.mkv")
    assert len(masks) == 30
    assert 70 < np.count_nonzero(masks[-1][..., 0] == 255) < 110


@pytest.mark.parametrize("view", ["background.raw", "panel.mkv"])
def test_a_reader_that_has_seen_enough_ends_the_run_quietly(tmp_path, written, view):
    many = make_scene(2000)  # more than a pipe holds
    process = start(tmp_path, "run", written(many.tobytes()), "--raw", RAW, "-o", "-", "--save", view, "-q", *QUICK)
    assert len(process.stdout.read(100)) == 100
    process.stdout.close()
    process.stdout = None
    assert finish(process) == (141, None, "")


def test_a_writer_that_ends_within_a_frame(cli, tmp_path, frames, written):
    fifo = written(frames.tobytes()[:-7])
    message = (
        f"pipe '{fifo}' ends within frame 29, after 4601 of 4608 bytes: it broke off, or its frames are not 48x32:bgr24"
    )
    answer = cli("run", fifo, "--raw", RAW, "-o", tmp_path / "out", *QUICK)
    assert (answer.code, answer.err) == (1, f"bgsub: error: {message}\n")
    assert len(read_video(tmp_path / "out" / "mask.mkv")) == 29


def test_a_video_as_standard_input(tmp_path, video):
    with video.open("rb") as file:
        code, out, err = finish(start(tmp_path, "run", "-", "-o", "out", *QUICK, stdin=file))
    assert (code, err) == (0, "")
    assert out.startswith(b"video '")
    assert len(read_video(tmp_path / "out" / "mask.mkv")) == 30


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what a process has open cannot be seen here")
def test_ctrl_c_ends_the_wait_for_somebody_who_writes(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    process = start(tmp_path, "run", "fifo", "-o", "out")
    opened = Path(f"/proc/{process.pid}/fd")
    wait_until(process, lambda: str(tmp_path / "fifo") in {os.path.realpath(link) for link in opened.iterdir()})
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out, err.strip()) == (130, b"", "bgsub: error: stopped by the user")


def test_ctrl_c_while_the_writer_is_silent_keeps_what_came(tmp_path, frames):
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


def wait_until(process, is_so):
    end = time.monotonic() + 120
    while not is_so():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_newest_frame_of_a_pipe_comes_first_in_a_live_run(cli, tmp_path, frames, written):
    out = tmp_path / "out"
    answer = cli("live", written(frames.tobytes()), "--raw", RAW, "--no-window", "-o", out, *QUICK).ok()
    assert "; the camera stopped sending; wrote " in answer.out


def test_terminals_are_refused(tmp_path, folder):
    master, slave = os.openpty()
    try:
        told = finish(start(tmp_path, "run", "-", "-o", "out", stdin=slave))
        shown = finish(start(tmp_path, "run", folder, "-o", "-", stdout=slave))
    finally:
        os.close(master)
        os.close(slave)
    assert told == (2, b"", "bgsub: error: standard input is a terminal: a video must be piped into it\n")
    assert shown[::2] == (
        2,
        "bgsub: error: standard output is a terminal: frames go into a file or a program, as in '-o - | ffplay -'\n",
    )


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
        (("track", "frames", "-o", "-"), ONE_VIEW),
        (("run", "frames", "-o", "-", "--record", "clips"), ONE_VIEW),
        (("demo", "-o", "-"), FOLDER),
        (("decompose", "frames", "-o", "-"), FOLDER),
        (("run", "-", "-o", "out", "--resume"), RESUME),
        (("run", "frames", "-o", "-", "--resume"), RESUME),
        (("run", "frames", "-o", "-", "--event-formats", "csv"), ONE_VIEW),
        (("run", "frames", "-o", "-", "--save", "mask,panel"), "standard output takes one view, got mask, panel"),
        (("run", "frames", "-o", "out", "--save", "mask.raw"), "mask.raw is for standard output: -o - --save mask.raw"),
    ],
)
def test_what_does_not_go_through_a_pipe(cli, tmp_path, folder, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    answer = cli(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"bgsub: error: {message}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["frames"]
