"""Ctrl-C and SIGTERM: the outputs are complete and readable; the exit code is 128 + number unless a camera runs."""

import json
import signal

import pytest
from cli_inputs import names
from video_fakes import read_video

import bgsub
from bgsub.jobs.interrupts import afterwards, terminations

BY = {signal.SIGINT: "the user", signal.SIGTERM: "SIGTERM"}
ENDED = "stopped after 7 frames; the outputs end there"


@pytest.mark.parametrize("number", BY)
def test_signal_finishes_the_outputs(cli, tmp_path, video, signal_after, number):
    signal_after(7, number)
    handler = signal.getsignal(signal.SIGTERM)
    out, model = tmp_path / "out", tmp_path / "m.npz"
    answer = cli("run", video, "-o", out, "--save-model", model)
    assert answer.code == 128 + number
    assert answer.out.endswith(f"; stopped by {BY[number]}; wrote {out / 'mask.mkv'}, {model}\n")
    advice = "with --resume it starts again and writes checkpoints"
    assert answer.err == f"bgsub: error: video '{video}': {ENDED}; {advice}\n"
    assert names(out) == [".resume", "mask.mkv"]  # a later run with --resume reads the mark
    assert len(read_video(out / "mask.mkv")) == 7
    assert not bgsub.BackgroundSubtractor.load(model).empty()
    assert signal.getsignal(signal.SIGTERM) == handler


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (["run"], signal.SIGINT),
        (["track"], signal.SIGTERM),
        (["run", "--resume"], signal.SIGTERM),
        (["live", "--no-window", "--fast"], signal.SIGINT),
    ],
)
def test_json_of_a_stopped_run(cli, tmp_path, video, signal_after, words, number):
    signal_after(7, number)
    answer = cli(words[0], video, "-o", tmp_path / "out", *words[1:], "--json")
    result = json.loads(answer.out)
    frames = result["frames"]
    # A resumable run also keeps the frames that are already separated.
    assert frames >= 7 if "--resume" in words else frames == 7
    assert (answer.code, result["stopped"]) == (128 + number, signal.Signals(number).name)
    assert bool(result["outputs"]) == ("--resume" not in words)
    assert answer.err.startswith(f"bgsub: error: video '{video}': stopped after {frames} frames; ")


def test_quiet_run_reports_a_signal(cli, tmp_path, video, signal_after):
    signal_after(7, signal.SIGINT)
    answer = cli("run", video, "-o", tmp_path / "out", "--record", tmp_path / "clips", "--quiet")
    answer.refused(f"video '{video}': {ENDED}\n", code=130)  # clips cannot be resumed


@pytest.mark.parametrize(("words", "code"), [(("run", "--duration", "1000s"), 130), (("live", "--no-window"), 0)])
def test_camera_is_ended_by_ctrl_c(cli, tmp_path, endless_stream, signal_after, words, code):
    signal_after(7, signal.SIGINT)
    answer = cli(*words, endless_stream.address, "-o", tmp_path / "out", "--json")
    assert (answer.code, json.loads(answer.out)["stopped"]) == (code, "SIGINT")
    assert answer.err == (f"bgsub: error: stream '{endless_stream.address}': {ENDED}\n" if code else "")


def test_ctrl_c_before_the_run(cli, folder, tmp_path, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("bgsub.video.sources.images.ImageSequenceSource.__init__", interrupt)
    answer = cli("run", folder, "-o", tmp_path / "out")
    assert answer.code == 130
    assert answer.err == "\nbgsub: error: stopped by the user\n"  # the empty line ends the one with ^C


def fail(number=None):
    if number is not None:
        signal.raise_signal(number)
    raise OSError("the processes have ended")


def test_signal_during_a_failure_wins():
    with terminations(), pytest.raises(KeyboardInterrupt) as caught, afterwards():
        fail(signal.SIGINT)
    assert str(caught.value.__cause__) == "the processes have ended"
    with terminations(), pytest.raises(OSError, match="have ended"), afterwards():
        fail()
