"""Inputs that end or change in the middle: earlier frames are written and the exit code is 1."""

import json

import numpy as np
import pytest
from cli_inputs import make_scene
from video_fakes import read_video, write_images, write_video

from bgsub._opencv import cv2


@pytest.fixture
def odd(folder):
    """Thirty images, one of which is smaller."""
    image = folder / "in000021.png"
    cv2.imwrite(str(image), cv2.imread(str(image))[:20, :30])
    return folder, f"frame in000021 of images '{folder}' is 30x20 colour uint8"


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_truncated_file(cli, tmp_path, resume):
    cut = write_video(tmp_path / "cut.avi", make_scene(40), codec="MJPG")
    data = cut.read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    words = cut, "-o", tmp_path / "out", "--save", "mask.npz", "--json"
    answer = cli("run", *words, *resume)
    result = json.loads(answer.out)
    assert (answer.code, result["stopped"], result["outputs"]) == (1, "broken", [str(tmp_path / "out" / "mask.npz")])
    assert answer.err.startswith(f"bgsub: error: video '{cut}' is cut short: it ends at ")
    assert answer.err.count("\n") == 1
    count = result["frames"]
    assert 10 < count < 30
    assert len(np.load(tmp_path / "out" / "mask.npz")["mask"]) == count
    assert cli("run", *words, "--resume").code == 1  # the run does not count as complete
    skipped = cli("run", *words, "--overwrite", "--on-error", "skip").ok()
    assert json.loads(skipped.out)["frames"] == count


def test_image_of_another_size(cli, tmp_path, odd):
    folder, message = odd
    answer = cli("run", folder, "-o", tmp_path / "out", "--save", "mask.mkv", "--save-model", tmp_path / "m.npz")
    assert answer.code == 1
    assert answer.err.startswith(f"bgsub: error: {message}, ")
    assert answer.out.endswith(f"wrote {tmp_path / 'out' / 'mask.mkv'}, {tmp_path / 'm.npz'}\n")
    assert len(read_video(tmp_path / "out" / "mask.mkv")) == 20
    assert not list(tmp_path.rglob("*.partial*"))
    skipped = cli("run", folder, "-o", tmp_path / "skipped", "--on-error", "skip").ok()
    assert ": 29 frames of 48x32; " in skipped.out
    assert "1 frame skipped as unreadable" in skipped.out
    assert skipped.err.startswith(f"bgsub: {message}, ")
    assert skipped.err.endswith("; skipped\n")


def test_decompose_names_or_skips_an_image_of_another_size(cli, tmp_path, odd):
    folder, message = odd
    cli("decompose", folder, "-o", tmp_path / "out", "--rank", 1, "-q").refused(message)
    cli("decompose", folder, "-o", tmp_path / "out", "--rank", 1, "--iterations", 5, "--on-error", "skip").ok()


def test_unreadable_first_image(cli, tmp_path, folder):
    first = min(folder.iterdir())
    first.write_bytes(b"no image")
    cli("run", folder, "-o", tmp_path / "out").refused(f"image '{first}' cannot be decoded")


@pytest.mark.parametrize("command", ["run", "track"])
def test_region_outside_the_frame(cli, tmp_path, folder, command):
    words = command, folder, "-o", tmp_path / "out", "--roi", "door=0,0,10,10", "--roi", "far=48,0,10,10"
    cli(*words).refused("region 'far'", "48x32", "outside of the frame")
    assert not (tmp_path / "out").exists()
    cli(command, folder, "-o", tmp_path / "out", "--roi", "partly=40,20,100,100").ok()


def test_image_of_another_depth(cli, tmp_path):
    folder = write_images(tmp_path / "images", make_scene(6))
    cv2.imwrite(str(max(folder.iterdir())), np.zeros((32, 48), np.uint16))
    answer = cli("run", folder, "-o", tmp_path / "out")
    assert answer.code == 1
    assert answer.err.endswith("is 48x32 grey uint16, those before are 48x32 colour uint8\n")
