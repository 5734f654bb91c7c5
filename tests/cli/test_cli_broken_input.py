"""Inputs that break off or change in the middle: what was good is finished, and the exit code is 1."""

import json

import numpy as np
import pytest
from cli_inputs import make_scene
from video_fakes import read_video, write_images, write_video

from bgsub._opencv import cv2


@pytest.fixture
def cut(tmp_path):
    path = write_video(tmp_path / "cut.avi", make_scene(40), codec="MJPG")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


@pytest.fixture
def odd(folder):
    """Thirty images, one of which is smaller."""
    images = sorted(folder.iterdir())
    cv2.imwrite(str(images[20]), cv2.imread(str(images[20]))[:20, :30])
    return folder, images[20].stem


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_file_that_is_cut_short(cli, tmp_path, cut, resume):
    words = cut, "-o", tmp_path / "out", "--save", "mask.npz", "--json"
    answer = cli("run", *words, *resume)
    told = json.loads(answer.out)
    assert (answer.code, told["stopped"], told["outputs"]) == (1, "broken", [str(tmp_path / "out" / "mask.npz")])
    assert answer.err.startswith(f"bgsub: error: video '{cut}' is cut short: it ends at ")
    assert answer.err.count("\n") == 1
    count = told["frames"]
    assert 10 < count < 30
    assert len(np.load(tmp_path / "out" / "mask.npz")["mask"]) == count
    assert cli("run", *words, "--resume").code == 1  # it is not taken for done
    skipped = cli("run", *words, "--overwrite", "--on-error", "skip")
    assert (skipped.code, json.loads(skipped.out)["frames"]) == (0, count)


def test_an_image_of_another_size(cli, tmp_path, odd):
    folder, name = odd
    answer = cli("run", folder, "-o", tmp_path / "out", "--save", "mask.mkv", "--save-model", tmp_path / "m.npz")
    these, those = "30x20 colour uint8", "48x32 colour uint8"
    told = f"frame {name} of images '{folder}' is {these}, those before are {those}"
    assert (answer.code, answer.err) == (1, f"bgsub: error: {told}\n")
    assert answer.out.endswith(f"wrote {tmp_path / 'out' / 'mask.mkv'}, {tmp_path / 'm.npz'}\n")
    assert len(read_video(tmp_path / "out" / "mask.mkv")) == 20
    assert not list(tmp_path.rglob("*.partial*"))
    skipped = cli("run", folder, "-o", tmp_path / "skipped", "--on-error", "skip").ok()
    assert ": 29 frames of 48x32; " in skipped.out
    assert "1 frame skipped as unreadable" in skipped.out
    assert skipped.err == f"bgsub: {told}; skipped\n"


def test_a_first_image_that_cannot_be_read_is_wrong_input(cli, tmp_path, folder):
    first = min(folder.iterdir())
    first.write_bytes(b"no image")
    cli("run", folder, "-o", tmp_path / "out").refused(f"image '{first}' cannot be decoded")


def test_decompose_names_an_image_of_another_size_and_may_skip_it(cli, tmp_path, odd):
    folder, name = odd
    answer = cli("decompose", folder, "-o", tmp_path / "out", "--rank", 1, "-q")
    assert answer.code == 2
    assert f"frame {name} of images '{folder}' is 30x20 colour uint8" in answer.err
    cli("decompose", folder, "-o", tmp_path / "out", "--rank", 1, "--on-error", "skip").ok()


@pytest.mark.parametrize("command", ["run", "track", "live"])
def test_an_output_that_is_a_file(cli, tmp_path, video, command):
    taken = tmp_path / "taken"
    taken.touch()
    extra = ["--no-window", "--fast"] if command == "live" else []
    for output in (taken, taken / "below"):
        told = f"cannot write into folder '{output}': '{taken}' is a file, not a folder"
        cli(command, video, "-o", output, *extra).refused(told)


@pytest.mark.parametrize("command", ["run", "track"])
def test_a_region_outside_of_the_picture(cli, tmp_path, folder, command):
    words = command, folder, "-o", tmp_path / "out", "--roi", "door=0,0,10,10", "--roi", "far=48,0,10,10"
    cli(*words).refused("region 'far' must hold pixels of the frame, which is 48x32: it lies outside of the frame")
    assert not (tmp_path / "out").exists()
    cli(command, folder, "-o", tmp_path / "out", "--roi", "partly=40,20,100,100").ok()


@pytest.mark.parametrize(("silence", "at_the_end"), [((), False), (("-q",), True)])
def test_a_file_of_a_batch_that_fails_is_told_once(cli, tmp_path, video, silence, at_the_end):
    pytest.importorskip("distributed")
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    words = "batch", tmp_path / "bad.mp4", "-o", tmp_path / "out", "--workers", 1, *silence
    answer = cli(*words)
    assert answer.code == 1
    assert answer.err.count("is not a video that can be read") == 1
    assert answer.err.startswith("failed: ") == at_the_end


def test_images_of_another_depth(cli, tmp_path):
    folder = write_images(tmp_path / "images", make_scene(6))
    last = max(folder.iterdir())
    cv2.imwrite(str(last), np.zeros((32, 48), np.uint16))
    answer = cli("run", folder, "-o", tmp_path / "out")
    assert answer.code == 1
    assert answer.err.endswith("is 48x32 grey uint16, those before are 48x32 colour uint8\n")
