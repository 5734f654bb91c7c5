"""Ctrl-C and SIGTERM: the outputs are finished and readable, and the exit code says so unless it is a camera's."""

import json
import signal
import subprocess
import sys
import time

import pytest
from cli_inputs import PROGRAM
from video_fakes import read_video

import bgsub
from bgsub.jobs.interrupts import afterwards, terminations

WHO = {signal.SIGINT: "the user", signal.SIGTERM: "SIGTERM"}
FURTHER = "; with --resume it starts again and writes checkpoints"


@pytest.mark.parametrize("number", WHO)
def test_a_signal_in_the_middle_ends_the_run_well(cli, tmp_path, video, signal_after, number):
    signal_after(7, number)
    handler = signal.getsignal(signal.SIGTERM)
    out, model = tmp_path / "out", tmp_path / "m.npz"
    answer = cli("run", video, "-o", out, "--save-model", model)
    assert answer.code == 128 + number  # as a shell has it, so that "&&" does not go on
    assert answer.out.endswith(f"; stopped by {WHO[number]}; wrote {out / 'mask.mkv'}, {model}\n")
    assert answer.err == f"bgsub: error: video '{video}': stopped after 7 frames; the outputs end there{FURTHER}\n"
    assert sorted(path.name for path in out.iterdir()) == [".resume", "mask.mkv"]  # for a later run with --resume
    assert len(read_video(out / "mask.mkv")) == 7
    assert not bgsub.BackgroundSubtractor.load(model).empty()
    assert signal.getsignal(signal.SIGTERM) == handler


@pytest.mark.parametrize("words", [["run"], ["track"], ["run", "--resume"], ["live", "--no-window", "--fast"]])
@pytest.mark.parametrize("number", WHO)
def test_json_says_that_a_signal_came(cli, tmp_path, video, signal_after, words, number):
    signal_after(7, number)
    answer = cli(words[0], video, "-o", tmp_path / "out", *words[1:], "--json")
    assert answer.code == 128 + number
    told = json.loads(answer.out)
    frames = told["frames"]
    # What is separated already is kept where the run goes on later.
    assert frames >= 7 if "--resume" in words else frames == 7
    assert told["stopped"] == signal.Signals(number).name
    assert bool(told["outputs"]) == ("--resume" not in words)
    assert answer.err.startswith(f"bgsub: error: video '{video}': stopped after {frames} frames; ")


def test_a_quiet_run_that_is_stopped_says_so(cli, tmp_path, video, signal_after):
    signal_after(7, signal.SIGINT)
    answer = cli("run", video, "-o", tmp_path / "out", "--record", tmp_path / "clips", "--quiet")
    # no way to go on is told where there is none: clips cannot be resumed
    told = f"bgsub: error: video '{video}': stopped after 7 frames; the outputs end there\n"
    assert (answer.code, answer.out, answer.err) == (130, "", told)


def test_a_camera_for_some_time_was_to_have_an_end(cli, tmp_path, endless_stream, signal_after):
    signal_after(7, signal.SIGINT)
    answer = cli("run", endless_stream.address, "-o", tmp_path / "out", "--duration", "1000s")
    assert answer.code == 130
    assert answer.err.endswith(": stopped after 7 frames; the outputs end there\n")


def test_a_camera_is_ended_by_ctrl_c(cli, tmp_path, endless_stream, signal_after):
    signal_after(7, signal.SIGINT)
    answer = cli("live", endless_stream.address, "--no-window", "-o", tmp_path / "out", "--json")
    assert (answer.code, answer.err, json.loads(answer.out)["stopped"]) == (0, "", "SIGINT")


def test_ctrl_c_before_the_run_is_told(cli, folder, tmp_path, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("bgsub.video.sources.images.ImageSequenceSource.__init__", interrupt)
    answer = cli("run", folder, "-o", tmp_path / "out")
    assert answer.code == 130
    assert answer.err == "\nbgsub: error: stopped by the user\n"  # the empty line ends the one with ^C


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_from_outside(tmp_path, endless_stream, number):
    words = ["run", endless_stream.address, "-o", "out", "--save", "mask,panel", "--start-frames", "1000"]
    piped = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], cwd=tmp_path, **piped)
    partial, deadline = tmp_path / "out" / "panel.partial.mp4", time.monotonic() + 60
    while not partial.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert f"; stopped by {WHO[number]}; " in out
    assert out.endswith("; wrote out/mask.mkv, out/panel.mp4\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["mask.mkv", "panel.mp4"]
    count = int(out.split(": ")[1].split()[0])
    assert count > 0
    assert len(read_video(tmp_path / "out" / "mask.mkv")) == count
    panels = read_video(tmp_path / "out" / "panel.mp4")
    assert len(panels) == count
    assert panels[0].shape == (64, 96, 3)


def gone(number=None):
    if number is not None:
        signal.raise_signal(number)
    raise OSError("the processes have gone")


def test_what_fails_while_a_signal_waits_failed_by_it():
    with terminations(), pytest.raises(KeyboardInterrupt) as caught, afterwards():
        gone(signal.SIGINT)
    assert str(caught.value.__cause__) == "the processes have gone"
    with terminations(), pytest.raises(OSError, match="have gone"), afterwards():
        gone()
