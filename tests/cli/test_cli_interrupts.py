"""Ctrl-C and SIGTERM: the outputs are finished and readable, the exit code is 0."""

import signal
import subprocess
import sys
import time

import pytest
from cli_inputs import PROGRAM
from video_fakes import read_video

import bgsub


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_ends_the_run_well(cli, tmp_path, video, signal_after, number):
    signal_after(7, number)
    handler = signal.getsignal(signal.SIGTERM)
    out, model = tmp_path / "out", tmp_path / "m.npz"
    answer = cli("run", video, "-o", out, "--save-model", model).clean()
    assert answer.out.endswith(f"; stopped by the user; wrote {out / 'mask.mkv'}, {model}\n")
    assert sorted(path.name for path in out.iterdir()) == [".resume", "mask.mkv"]  # for a later run with --resume
    assert len(read_video(out / "mask.mkv")) == 7
    assert not bgsub.BackgroundSubtractor.load(model).empty()
    assert signal.getsignal(signal.SIGTERM) == handler


def test_ctrl_c_before_the_run_is_told(cli, folder, tmp_path, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("bgsub.video.sources.images.ImageSequenceSource.__init__", interrupt)
    answer = cli("run", folder, "-o", tmp_path / "out")
    assert answer.code == 1
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
    assert "; stopped by the user; " in out
    assert out.endswith("; wrote out/mask.mkv, out/panel.mp4\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["mask.mkv", "panel.mp4"]
    count = int(out.split(": ")[1].split()[0])
    assert count > 0
    assert len(read_video(tmp_path / "out" / "mask.mkv")) == count
    panels = read_video(tmp_path / "out" / "panel.mp4")
    assert len(panels) == count
    assert panels[0].shape == (64, 96, 3)
