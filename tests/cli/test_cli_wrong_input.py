"""Wrong inputs: exit code 2 and one line with the wrong value and the allowed ones."""

import json

import numpy as np
import pytest
from cli_inputs import make_scene, names
from video_fakes import write_images


@pytest.fixture
def place(here):
    """A working folder with frames and with files of wrong kinds."""
    (here / "text.mp4").write_text("no video, only words\n" * 50)
    (here / "void.mp4").write_bytes(b"")
    (here / "empty").mkdir()
    (here / "words").mkdir()
    (here / "words" / "notes.txt").write_text("words")
    (here / "taken").write_text("a file")
    (here / "junk.npz").write_text("no model")
    np.savez(here / "other.npz", x=1)
    np.savez(here / "old.npz", header=json.dumps({"kind": ["model", 6], "arrays": [], "header": {}}))
    write_images(here / "frames", make_scene(12, empty=12))
    return here


@pytest.mark.parametrize("command", [("run",), ("live", "--no-window")])
def test_sources(cli, place, command):
    for source, message in (
        ("missing.mp4", "no such file or folder: 'missing.mp4'"),
        ("text.mp4", "'text.mp4' is not a video that can be read, or it is damaged"),
        ("void.mp4", "video 'void.mp4' is empty"),
        ("empty", "no images in folder 'empty'"),
        ("words", "no images in folder 'words'; bgsub batch takes folders of videos"),
        ("frames/*.jpg", "no image matches 'frames/*.jpg'"),
        ("img_%04d.png", "no image matches 'img_%04d.png'"),
        ("97", "camera 97 cannot be opened"),
        ("http://127.0.0.1:9/video", "stream 'http://127.0.0.1:9/video' cannot be opened"),
        ("ftp://127.0.0.1/video", "rtsp://, rtsps://, rtmp://"),
    ):
        cli(*command, source, "-o", "out").refused(message)
    assert not (place / "out").exists()


TAKEN = "'taken' is a file, not a folder"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "frames", "-o", "taken"], "cannot write into folder 'taken': " + TAKEN),
        (["track", "frames", "-o", "taken/below"], "cannot write into folder 'taken/below': " + TAKEN),
        (["live", "frames", "--no-window", "-o", "taken"], "cannot write into folder 'taken': " + TAKEN),
        (["demo", "--duration", 1, "-o", "taken"], "cannot write into folder 'taken': " + TAKEN),
        (["run", "frames", "-o", "out.mp4"], "-o takes a folder, got the name of a file, 'out.mp4'"),
        (["batch", "frames", "-o", "out.npz"], "-o takes a folder, got the name of a file, 'out.npz'"),
        (["live", "0", "-o", "out.mkv"], "-o takes a folder, got the name of a file, 'out.mkv'"),
        (["bench", "missing.mp4"], "no such file or folder: 'missing.mp4'"),
        (["bench", "--duration", "long"], "--duration must be a frame number (120), seconds (12.5 or 12s) or h:mm:ss"),
        (["live", "0", "--duration", "0"], "--duration must be more than 0, got '0'"),
        (["evaluate", "frames", "--json", "o.json"], "bgsub evaluate ... --json > o.json"),
        (["live", "--no-window"], "or nothing would show the result; see bgsub live --help"),
        (["live", "0"], "no window can be shown: neither DISPLAY nor WAYLAND_DISPLAY is set"),
        (["fly"], "No such command 'fly'; see bgsub --help"),
        (["rnu"], "No such command 'rnu'; did you mean 'run'?; see bgsub --help"),
        (["run"], "Missing argument 'SOURCE...'; see bgsub run --help"),
        (["run", "frames"], "Missing option '-o' / '--output'"),
        (["run", "--startframes", "3"], "No such option '--startframes'; did you mean '--start-frames'?"),
        (["run", "-z"], "No such option '-z'; see"),
        (["run", "--config", "x"], "No such option '--config'; put it before the command: bgsub --config;"),
        (["run", "--helpall"], "No such option '--helpall'; did you mean '--help-all'?;"),
        (["bench", "frames", "more"], "Got unexpected extra argument"),
        (["completion"], "Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish;"),
    ],
)
def test_commands(cli, place, words, message):
    cli(*words).refused(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--rank 0", "--rank must be an integer >= 1, got 0"),
        ("--rank 2.5", "--rank must be an integer >= 1, got '2.5'"),
        ("--rank 51", "rank must be at most start_frames, here 50, got 51"),
        ("--start-frames 5 --rank 6", "rank must be at most start_frames, here 5, got 6"),
        ("--forgetting 1", "--forgetting must be a number in (0, 1), got 1.0"),
        ("--forgetting nan", "--forgetting must be a number in (0, 1), got nan"),
        ("--forgetting slow", "--forgetting must be a number in (0, 1), got 'slow'"),
        ("--shadows of", "--shadows must be one of on, off, merged, or true or false, got 'of'; did you mean 'off'?"),
        ("--save mask --save panle", "--save: an output must be one of mask, background, "),
        ("--save ,", "--save: at least one output is needed out of mask, "),
        ("--progress none", "Invalid value for '--progress': 'none' is not one of 'auto', 'bar', 'log'; see"),
        ("--fps 0", "Invalid value for '--fps': 0.0 is not in the range x>0"),
        ("--start soon", "--start must be a frame number (120), seconds (12.5 or 12s) or h:mm:ss (1:02:03.5), got"),
        ("--end soon", "--end must be a frame number"),
        ("--every 0", "'--every'"),
        ("--backend gstreamer", "'--backend'"),
        ("--event-formats xml", "--event-formats takes csv, jsonl, coco, html, got 'xml'"),
        ("--roi 1,2,3", "--roi: a region must be"),
        ("--roi a=0,0,5,5 --roi a=0,0,6,6", "--roi: regions must have different names, got 'a' twice"),
        ("--model junk.npz --start-frames 9", "--model brings its own parameters, so --start-frames"),
        ("--model gone.npz", "there is no model file gone.npz"),
        ("--model other.npz", "other.npz is not a bgsub model, or it is damaged"),
        ("--model old.npz", "old.npz is not a bgsub model of version 7: another version of bgsub wrote it"),
        ("--model empty", "the model empty is not a regular file"),
        ("--save-model gone/m.npz", "--save-model takes a file in a folder that exists, got 'gone/m.npz'"),
        ("--save-model empty", "--save-model takes a file, got the folder 'empty'"),
    ],
)
def test_options_of_run(cli, place, words, message):
    cli("run", "frames", "-o", "out", *words.split()).refused(message)
    assert not (place / "out").exists()


def test_damaged_image_stops_the_run_or_is_skipped(cli, place):
    (place / "frames" / "in000007.png").write_bytes(b"no image")
    answer = cli("run", "frames", "-o", "out")
    assert (answer.code, answer.err) == (1, "bgsub: error: image 'frames/in000007.png' cannot be decoded\n")
    assert len(names("out/mask")) == 6
    answer = cli("run", "frames", "-o", "out", "--on-error", "skip", "--overwrite").ok()
    assert answer.err == "bgsub: image 'frames/in000007.png' cannot be decoded; skipped\n"
    assert "images 'frames': 11 frames of 48x32; " in answer.out
    assert "; 1 frame skipped as unreadable; wrote out/mask\n" in answer.out
    assert names("out/mask") == [f"bin{number:06d}.png" for number in range(1, 13) if number != 7]


def test_damaged_model(cli, place):
    cli("run", "frames", "-o", "out", "--save-model", "m.npz").ok()
    whole = (place / "m.npz").read_bytes()
    (place / "half.npz").write_bytes(whole[: len(whole) // 2])
    cli("run", "frames", "-o", "x", "--model", "half.npz").refused("half.npz is not a bgsub model, or it is damaged")
