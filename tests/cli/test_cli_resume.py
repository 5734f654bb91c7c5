"""``bgsub run --resume`` after a stop or a kill, and several files of one camera."""

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from cli_inputs import QUICK, make_scene
from video_fakes import content, read_video, write_images, write_video

from bgsub.errors import SourceError
from bgsub.jobs.checkpoints import Checkpoint


def saved_frames(output):
    """The number of frames in the newest checkpoint; 0 while there is none."""
    try:
        return Checkpoint.read(output / ".resume" / "state").frames
    except SourceError:
        return 0


@pytest.mark.skipif(os.name != "posix", reason="signals of a terminal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_run_explains_how_to_continue(cli, tmp_path, signal_after, number):
    words = write_images(tmp_path / "frames", make_scene(120)), "-o", tmp_path, *QUICK
    signal_after(70, number)
    answer = cli("run", *words, "--resume")
    assert answer.code == 128 + number
    assert "; stopped by " in answer.out
    assert "wrote" not in answer.out
    saved = saved_frames(tmp_path)
    assert 70 <= saved < 120
    assert f"stopped after {saved} frames" in answer.err
    assert f"the same command goes on after {saved} frames" in answer.err
    cli("run", *words, "--resume", "--rank", 2).refused("(--rank 3, now 2); --overwrite starts over")
    assert cli("run", *words, "--resume").code == 0
    assert saved_frames(tmp_path) == 0


def test_results_are_replaced_only_with_overwrite(cli, folder, tmp_path):
    words = "run", folder, "-o", tmp_path / "out"
    cli(*words).ok()
    before = content(tmp_path / "out")
    cli(*words).refused("exists already")
    assert content(tmp_path / "out") == before
    cli(*words, "--overwrite").ok()
    assert content(tmp_path / "out") == before


def test_camera_cannot_be_resumed(cli, mjpeg_server, tmp_path):
    cli("run", mjpeg_server.address, "-o", tmp_path, "--resume").refused("cannot be resumed: the source is live")


@pytest.fixture
def parts(here):
    """``whole.avi``, and the same frames in ``part-1.avi`` and ``part-2.avi``."""
    frames = make_scene(30, empty=12)
    for name, part in (("whole", frames), ("part-1", frames[:17]), ("part-2", frames[17:])):
        write_video(here / f"{name}.avi", part)
    return here


def test_files_in_a_row_equal_one_file(cli, parts):
    cli("run", "whole.avi", "-o", "one", "--event-formats", "csv", *QUICK).clean()
    answer = cli("run", "part-1.avi", "part-2.avi", "-o", "two", "--event-formats", "csv", *QUICK).clean()
    assert answer.out.startswith("2 videos 'part-1.avi' to 'part-2.avi': 30 frames of 48x32; foreground ")
    np.testing.assert_array_equal(read_video("one/mask.mkv"), read_video("two/mask.mkv"))
    assert Path("two/events.csv").read_text() == Path("one/events.csv").read_text()
    cli("run", "part-?.avi", "-o", "three", "--name", "{source}-{view}", *QUICK).clean()
    assert Path("three/part-mask.mkv").read_bytes() == Path("two/mask.mkv").read_bytes()


def test_listed_images_are_a_sequence(cli, tmp_path, folder):
    cli("run", *sorted(folder.iterdir()), "-o", tmp_path / "out", *QUICK).clean()
    assert len(list((tmp_path / "out/mask").iterdir())) == 30


@pytest.mark.slow
def test_files_in_a_row_are_resumed(cli, here, signal_after):
    frames = make_scene(560, empty=12)
    for name, part in (("a", frames[:300]), ("b", frames[300:])):
        write_video(here / f"{name}.avi", part)
    words = ("a.avi", "b.avi", "--save", "mask.npz", *QUICK)
    cli("run", *words, "-o", "straight").clean()
    resumed = ("run", *words, "-o", "out", "--resume", "--checkpoint-seconds", 0)
    signal_after(530, signal.SIGINT)
    assert re.search("goes on after 5[3-9][0-9] frames", cli(*resumed).err)
    stamp = Path("b.avi").stat()
    os.utime("b.avi", (1, 1))
    cli(*resumed).refused("the checkpoint in 'out/.resume' was made before '")
    os.utime("b.avi", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert re.search("resumed after 5[3-9][0-9] frames", cli(*resumed).clean().out)
    assert Path("out/mask.npz").read_bytes() == Path("straight/mask.npz").read_bytes()


def test_wrong_files_in_a_row(cli, parts):
    for sources, message in (
        (("whole.avi", "none.avi"), "'none.avi' does not exist: several sources are"),
        (("whole.avi", "0"), "'0' does not exist: several sources are"),
        (("whole.avi", "."), "'.' is no video file: several sources are"),
        (("whole.avi", "part-1.avi", "--name", "part-1", "--save", "mask.avi", "--overwrite"), "is the input itself"),
    ):
        cli("run", *sources, "-o", ".").refused(message)
