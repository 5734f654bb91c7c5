"""Several video files as one: what comes of them, and going on after an interruption."""

from __future__ import annotations

import os
import re
import signal

import numpy as np
import pytest
from cli_inputs import make_scene
from video_fakes import read_video, write_video

QUICK = ("--start-frames", 10)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """``whole.avi``, and the same in ``part-1.avi`` and ``part-2.avi``."""
    monkeypatch.chdir(tmp_path)
    frames = make_scene(30, empty=12)
    for name, part in (("whole", frames), ("part-1", frames[:17]), ("part-2", frames[17:])):
        write_video(tmp_path / f"{name}.avi", part)
    return tmp_path


def test_files_in_a_row_give_what_one_file_gives(cli, place):
    cli("run", "whole.avi", "-o", "one", *QUICK).clean()
    answer = cli("run", "part-1.avi", "part-2.avi", "-o", "two", "--event-formats", "csv", *QUICK).clean()
    assert answer.out.startswith("2 videos 'part-1.avi' to 'part-2.avi': 30 frames of 48x32; foreground ")
    np.testing.assert_array_equal(read_video("one/mask.mkv"), read_video("two/mask.mkv"))
    cli("run", "part-?.avi", "-o", "three", "--name", "{source}-{view}", *QUICK).clean()
    assert (place / "three/part-mask.mkv").read_bytes() == (place / "two/mask.mkv").read_bytes()


def test_objects_are_followed_over_the_border(cli, place):
    cli("track", "whole.avi", "-o", "one", "--event-formats", "csv", *QUICK).clean()
    cli("track", "part-1.avi", "part-2.avi", "-o", "two", "--event-formats", "csv", *QUICK).clean()
    assert (place / "two/events.csv").read_text() == (place / "one/events.csv").read_text()


def test_images_that_a_shell_lists_are_a_sequence(cli, place, folder):
    images = sorted(folder.iterdir())
    cli("run", *images, "-o", "out", *QUICK).clean()
    assert len(list((place / "out/mask").iterdir())) == len(images)


def test_a_run_over_a_row_goes_on(cli, place, signal_after):
    frames = make_scene(560, empty=12)
    for name, part in (("a", frames[:300]), ("b", frames[300:])):
        write_video(place / f"{name}.avi", part)
    words = ("a.avi", "b.avi", "--save", "mask.npz", *QUICK)
    cli("run", *words, "-o", "straight").clean()
    resumed = ("run", *words, "-o", "out", "--resume", "--checkpoint-seconds", 0)
    signal_after(530, signal.SIGINT)
    assert re.search("goes on after 5[3-9][0-9] frames", cli(*resumed).err)
    os.utime("b.avi", (1, 1))
    cli(*resumed).refused_with("the checkpoint in 'out/.resume' was made before '")
    state = (place / "a.avi").stat()
    os.utime("b.avi", ns=(state.st_atime_ns, state.st_mtime_ns))
    cli(*resumed).refused_with("the checkpoint in 'out/.resume' was made before '")
    cli(*resumed, "--overwrite").clean()
    assert (place / "out/mask.npz").read_bytes() == (place / "straight/mask.npz").read_bytes()
    signal_after(530, signal.SIGINT)
    cli(*resumed, "--overwrite")
    assert re.search("resumed after 5[3-9][0-9] frames", cli(*resumed).clean().out)
    assert (place / "out/mask.npz").read_bytes() == (place / "straight/mask.npz").read_bytes()


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (("whole.avi", "none.avi"), "'none.avi' does not exist"),
        (("whole.avi", "0"), "'0' does not exist"),
        (("whole.avi", "-"), "'-' does not exist"),
        (("whole.avi", "."), "'.' is no video file"),
    ],
)
def test_what_is_no_row(cli, place, sources, message):
    needed = "several sources are the video files, or the images, of one camera"
    cli("run", *sources, "-o", "out").refused(f"{message}: {needed}")


def test_outputs_do_not_replace_a_file_of_the_row(cli, place):
    answer = cli("run", "whole.avi", "part-1.avi", "-o", ".", "--name", "part-1", "--save", "mask.avi", "--overwrite")
    answer.refused("the output 'part-1.avi' is the input itself")
