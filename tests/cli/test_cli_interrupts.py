"""Ctrl-C and SIGTERM: the outputs are complete and readable; the exit code is 128 + number unless a camera runs."""

import json
import os
import signal
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from cli_inputs import QUICK, make_scene, names
from video_fakes import read_video, write_images, write_video

import bgsub
from bgsub.jobs.checkpoints import saved_frames
from bgsub.jobs.interrupts import afterwards, terminations

BY = {signal.SIGINT: "the user", signal.SIGTERM: "SIGTERM"}
ENDED = "stopped after 7 frames; the outputs end there"


@pytest.mark.parametrize("number", BY)
def test_signal_finishes_the_outputs(cli, tmp_path, video, after_frames, number):
    after_frames(7, number)
    handler = signal.getsignal(signal.SIGTERM)
    out, model = tmp_path / "out", tmp_path / "m.npz"
    answer = cli("run", video, "-o", out, "--save-model", model)
    assert answer.code == 128 + number
    assert answer.out.endswith(f"; stopped by {BY[number]}; wrote {out / 'mask.mkv'}, {model}\n")
    advice = "with --resume it starts again and writes checkpoints"
    assert (answer.err, names(out)) == (f"bgsub: error: video '{video}': {ENDED}; {advice}\n", ["mask.mkv"])
    assert len(read_video(out / "mask.mkv")) == 7
    assert not bgsub.BackgroundSubtractor.load(model).empty()
    assert signal.getsignal(signal.SIGTERM) == handler
    after_frames(7, number)  # no advice to use options that scan does not have
    assert cli("scan", video).err == f"bgsub: error: video '{video}': stopped after 7 frames\n"


@pytest.mark.parametrize(
    ("words", "number"), [(("track",), signal.SIGTERM), (("live", "--no-window", "--fast"), signal.SIGINT)]
)
def test_json_of_a_stopped_run(cli, tmp_path, video, after_frames, words, number):
    after_frames(7, number)
    answer = cli(words[0], video, "-o", tmp_path / "out", *words[1:], "--json")
    result = json.loads(answer.out)
    assert (answer.code, result["stopped"], result["frames"]) == (128 + number, signal.Signals(number).name, 7)
    assert result["outputs"]
    assert answer.err.startswith(f"bgsub: error: video '{video}': stopped after 7 frames; ")


@pytest.mark.parametrize(("words", "code"), [(("run", "--duration", "1000s"), 130), (("live", "--no-window"), 0)])
def test_camera_is_ended_by_ctrl_c(cli, tmp_path, endless_stream, after_frames, words, code):
    after_frames(7, signal.SIGINT)
    answer = cli(*words, endless_stream.address, "-o", tmp_path / "out", "--json")
    assert (answer.code, json.loads(answer.out)["stopped"]) == (code, "SIGINT")
    assert answer.err == (f"bgsub: error: stream '{endless_stream.address}': {ENDED}\n" if code else "")


@pytest.mark.parametrize("number", BY)
def test_signal_before_the_run(cli, folder, tmp_path, monkeypatch, number):
    broken = Mock(side_effect=KeyboardInterrupt(number))
    monkeypatch.setattr("bgsub.video.sources.images.ImageSequenceSource.__init__", broken)
    answer = cli("run", folder, "-o", tmp_path / "out")
    # The empty line ends the one with ^C.
    assert (answer.code, answer.err) == (128 + number, f"\nbgsub: error: stopped by {BY[number]}\n")


def test_signal_during_a_failure_wins():
    with terminations(), pytest.raises(KeyboardInterrupt) as caught, afterwards():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        raise OSError("the processes have ended")
    assert str(caught.value.__cause__) == "the processes have ended"
    with terminations(), pytest.raises(OSError, match="have ended"), afterwards():
        raise OSError("the processes have ended")


@pytest.mark.skipif(os.name != "posix", reason="signals of a terminal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_run_explains_how_to_continue(cli, tmp_path, after_frames, number):
    words = write_images(tmp_path / "frames", make_scene(120)), "-o", tmp_path, *QUICK
    after_frames(70, number)
    answer = cli("run", *words, "--resume")
    assert answer.code == 128 + number
    assert "; stopped by " in answer.out
    assert "wrote" not in answer.out
    assert 70 <= (saved := saved_frames(tmp_path)) < 120
    assert f"stopped after {saved} frames" in answer.err
    assert f"the same command goes on after {saved} frames" in answer.err
    cli("run", *words, "--resume", "--rank", 2).refused("(--rank 3, now 2); --overwrite starts over")
    assert cli("run", *words, "--resume").code == 0
    assert "done already" in cli("run", *words, "--resume").out
    assert saved_frames(tmp_path) == 0


def test_files_in_a_row_equal_one_file(cli, here, frames):
    for name, part in (("whole", frames), ("part-1", frames[:17]), ("part-2", frames[17:])):
        write_video(here / f"{name}.mkv", part)
    cli("run", "whole.mkv", "-o", "one", "--event-formats", "csv", *QUICK).clean()
    answer = cli("run", "part-1.mkv", "part-2.mkv", "-o", "two", "--event-formats", "csv", *QUICK).clean()
    assert answer.out.startswith("2 videos 'part-1.mkv' to 'part-2.mkv': 30 frames of 48x32; foreground ")
    np.testing.assert_array_equal(read_video("one/mask.mkv"), read_video("two/mask.mkv"))
    assert Path("two/events.csv").read_text() == Path("one/events.csv").read_text()
    cli("run", "part-?.mkv", "-o", "three", "--name", "{source}-{view}", *QUICK).clean()
    assert Path("three/part-mask.mkv").read_bytes() == Path("two/mask.mkv").read_bytes()
    cli("run", "whole.mkv", "0", "-o", ".").refused("'0' does not exist: several sources are")
    words = ("-o", ".", "--name", "part-1", "--save", "mask.mkv", "--overwrite")
    cli("run", "whole.mkv", "part-1.mkv", *words).refused("is the input itself")
