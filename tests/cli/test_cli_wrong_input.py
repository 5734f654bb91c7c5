"""Wrong inputs: exit code 2 and one line that names the thing, what is allowed and what came."""

import json

import numpy as np
import pytest
from cli_inputs import make_scene
from video_fakes import write_images

from bgsub.video.timecode import SYNTAX

RUN_HELP = "see bgsub run --help"
VIEWS = (
    "mask, background, foreground, residual, probability, cutout, overlay, contours, panel, boxes, input, "
    "background-image"
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with all kinds of wrong things in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.mp4").write_text("no video, only words\n" * 50)
    (tmp_path / "void.mp4").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "notes.txt").write_text("words")
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "junk.npz").write_text("no model")
    np.savez(tmp_path / "other.npz", x=1)
    np.savez(tmp_path / "old.npz", header=json.dumps({"kind": ["model", 6], "arrays": [], "header": {}}))
    write_images(tmp_path / "frames", make_scene(12, empty=12))
    return tmp_path


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.mp4", "no such file or folder: 'missing.mp4'"),
        ("text.mp4", "'text.mp4' is not a video that can be read, or it is damaged"),
        ("void.mp4", "video 'void.mp4' is empty"),
        ("empty", "no images in folder 'empty'"),
        ("words", "no images in folder 'words'; bgsub batch takes folders of videos"),
        ("frames/*.jpg", "no image matches 'frames/*.jpg'"),
        ("img_%04d.png", "no image matches 'img_%04d.png'"),
        ("97", "camera 97 cannot be opened: it is not there, in use or not permitted"),
        (
            "http://127.0.0.1:9/video",
            "stream 'http://127.0.0.1:9/video' cannot be opened: no answer, no access, or no video",
        ),
        (
            "ftp://127.0.0.1/video",
            "a camera is an index or an address with one of rtsp://, rtsps://, rtmp://, rtp://, http://, "
            "https://, udp://, tcp://, srt://; got 'ftp://127.0.0.1/video'",
        ),
    ],
)
def test_a_source_that_cannot_be_read(cli, place, source, message):
    cli("run", source, "-o", "out").refused(message)
    cli("live", source, "--no-window", "-o", "out").refused(message)
    assert not (place / "out").exists()


TAKEN = "'taken' is a file, not a folder"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "frames", "-o", "taken"], "cannot write into folder 'taken': " + TAKEN),
        (["run", "frames", "-o", "taken/below"], "cannot write into folder 'taken/below': " + TAKEN),
        (["run", "frames", "-o", "out.mp4"], "-o takes a folder, got the name of a file, 'out.mp4'"),
        (["batch", "frames", "-o", "out.npz"], "-o takes a folder, got the name of a file, 'out.npz'"),
        (["live", "0", "-o", "out.mkv"], "-o takes a folder, got the name of a file, 'out.mkv'"),
        (["demo", "--duration", 1, "-o", "taken"], "cannot write into folder 'taken': " + TAKEN),
        (["bench", "missing.mp4"], "no such file or folder: 'missing.mp4'"),
        (["bench", "--duration", "long"], f"--duration must be {SYNTAX}, got 'long'"),
        (["live", "0", "--duration", "0"], "--duration must be more than 0, got '0'"),
        (
            ["evaluate", "frames", "--json", "o.json"],
            "--json prints and takes no file: bgsub evaluate ... --json > o.json",
        ),
        (
            ["run", "frames", "-o", "out", "--model", "old.npz"],
            "old.npz is not a bgsub model of version 7: another version of bgsub wrote it; create it again",
        ),
        (
            ["live", "--no-window"],
            "--no-window needs --output, --record, --on-event, --webhook, --snapshots, --serve or --virtual-camera, or "
            "nothing would show the result; see bgsub live --help",
        ),
        (
            ["live", "0"],
            "no window can be shown: neither DISPLAY nor WAYLAND_DISPLAY is set; "
            "--serve PORT shows the run in a browser, --no-window runs without a window",
        ),
    ],
)
def test_what_is_refused(cli, place, words, message):
    cli(*words).refused(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rank", "0"], "--rank must be an integer >= 1, got 0"),
        (["--rank", "2.5"], "--rank must be an integer >= 1, got '2.5'"),
        (["--rank", "many"], "--rank must be an integer >= 1, got 'many'"),
        (["--rank", "51"], "rank must be at most start_frames, here 50, got 51"),
        (["--start-frames", "5", "--rank", "6"], "rank must be at most start_frames, here 5, got 6"),
        (["--forgetting", "0"], "--forgetting must be a number in (0, 1), got 0.0"),
        (["--forgetting", "1"], "--forgetting must be a number in (0, 1), got 1.0"),
        (["--forgetting", "1.5"], "--forgetting must be a number in (0, 1), got 1.5"),
        (["--forgetting", "nan"], "--forgetting must be a number in (0, 1), got nan"),
        (["--forgetting", "slow"], "--forgetting must be a number in (0, 1), got 'slow'"),
        (
            ["--shadows", "of"],
            "--shadows must be one of on, off, merged, or true or false, got 'of'; did you mean 'off'?",
        ),
        (["--save", "mask", "--save", "panle"], f"--save: an output must be one of {VIEWS}, got 'panle'"),
        (["--save", "mask,halo"], f"--save: an output must be one of {VIEWS}, got 'halo'"),
        (["--save", ","], f"--save: at least one output is needed out of {VIEWS}"),
        (["--progress", "none"], "Invalid value for '--progress': 'none' is not one of 'auto', 'bar', 'log'; see"),
        (["--fps", "0"], "Invalid value for '--fps': 0.0 is not in the range x>0"),
        (["--model", "junk.npz", "--start-frames", "9"], "--model brings its own parameters, so --start-frames"),
        (["--model", "gone.npz"], "there is no model file gone.npz"),
        (["--model", "other.npz"], "other.npz is not a bgsub model, or it is damaged"),
        (["--model", "junk.npz"], "junk.npz is not a bgsub model, or it is damaged"),
        (["--model", "empty"], "the model empty is not a regular file"),
        (["--save-model", "gone/m.npz"], "--save-model takes a file in a folder that exists, got 'gone/m.npz'"),
        (["--save-model", "empty"], "--save-model takes a file, got the folder 'empty'"),
    ],
)
def test_a_wrong_option(cli, place, words, message):
    cli("run", "frames", "-o", "out", *words).refused_with(message)
    assert not (place / "out").exists()


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        (["fly"], "No such command 'fly'", "see bgsub --help"),
        (["run"], "Missing argument 'SOURCE...'", "see bgsub run --help"),
        (["run", "frames"], "Missing option '-o' / '--output'", "see bgsub run --help"),
        (["run", "frames", "-o", "out", "--wings"], "No such option", "see bgsub run --help"),
        (["rnu"], "No such command 'rnu'; did you mean 'run'?", "see bgsub --help"),
        (["run", "--startframes", "3"], "No such option '--startframes'; did you mean '--start-frames'?", RUN_HELP),
        (["run", "-z"], "No such option '-z'; see", RUN_HELP),
        (
            ["run", "--config", "x"],
            "No such option '--config'; put it before the command: bgsub --config;",
            RUN_HELP,
        ),
        (["run", "--helpall"], "No such option '--helpall'; did you mean '--help-all'?;", RUN_HELP),
        (["bench", "frames", "more"], "Got unexpected extra argument", "see bgsub bench --help"),
        (["evaluate"], "Missing argument 'DIR...'", "see bgsub evaluate --help"),
        (
            ["completion"],
            "Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish;",
            "see bgsub completion --help",
        ),
    ],
)
def test_a_wrong_command_line(cli, place, words, start, end):
    cli(*words).refused_with(start, f"; {end}\n")


def test_an_image_that_is_broken_stops_the_run_or_is_skipped(cli, place):
    (place / "frames" / "in000007.png").write_bytes(b"no image")
    answer = cli("run", "frames", "-o", "out")
    assert (answer.code, answer.err) == (1, "bgsub: error: image 'frames/in000007.png' cannot be decoded\n")
    assert len(list((place / "out" / "mask").iterdir())) == 6
    answer = cli("run", "frames", "-o", "out", "--on-error", "skip", "--overwrite").ok()
    assert answer.err == "bgsub: image 'frames/in000007.png' cannot be decoded; skipped\n"
    assert answer.out == (
        "images 'frames': 11 frames of 48x32; foreground 0.0 %; video shorter than the start phase, all masks are "
        "provisional; 1 frame skipped as unreadable; wrote out/mask\n"
    )
    written = {path.name for path in (place / "out" / "mask").iterdir()}
    assert written == {f"bin{number:06d}.png" for number in range(1, 13) if number != 7}


def test_a_model_for_other_frames_or_a_damaged_one_is_refused(cli, place):
    assert cli("run", "frames", "-o", "out", "--save-model", "m.npz").code == 0
    whole = (place / "m.npz").read_bytes()
    (place / "half.npz").write_bytes(whole[: len(whole) // 2])
    cli("run", "frames", "-o", "x", "--model", "half.npz").refused("half.npz is not a bgsub model, or it is damaged")
    write_images(place / "small", make_scene(3, 30, 40))
    answer = cli("run", "small", "-o", "out2", "--model", "m.npz")
    assert (answer.code, answer.out) == (2, "")
    assert "those of the saved model, uint8 of shape (32, 48, 3), got uint8 of shape (30, 40, 3)" in answer.err
