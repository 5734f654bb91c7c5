"""The commands whose messages the troubleshooting page explains."""

import shutil

import numpy as np
import pytest
from pages import DOCS
from video_fakes import write_images, write_video

from bgsub.cli import invoke
from bgsub.synthetic import scene

PAGE = (DOCS / "when-it-goes-wrong.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    """A folder with broken inputs."""
    folder = tmp_path_factory.mktemp("things")
    frames = np.stack([image for image, _ in scene("street", size=(160, 120), length=60, seed=1)])
    street = write_video(folder / "street.mp4", frames, codec="mp4v")
    write_video(folder / "cam-1.mp4", frames[:20], codec="mp4v")
    write_video(folder / "other.mp4", frames[:20, :100], codec="mp4v")
    (folder / "half.mp4").write_bytes(street.read_bytes()[:20_000])
    write_images(folder / "frames", np.pad(frames[:12], ((0, 0), (0, 8), (0, 0), (0, 0))))
    (folder / "frames" / "in000007.png").write_bytes(b"no image")
    return folder


RUNS = {  # the key words of a quoted message: commands in sequence, and the exit code of the last
    "no such file or folder: 'missing.mp4'": (["run missing.mp4 -o out"], 2),
    "'half.mp4' is not a video": (["run half.mp4 -o out"], 2),
    "image 'frames/in000007.png'": (["run frames -o out"], 1),
    "files in a row": (["run cam-1.mp4 other.mp4 -o out"], 2),
    "exists already": (["run cam-1.mp4 -o out", "run cam-1.mp4 -o out"], 2),
    "by other options": (["run cam-1.mp4 -o out --rank 2 --resume", "run cam-1.mp4 -o out --resume"], 2),
    "cutout can end in": (["run cam-1.mp4 -o out --save cutout.mp4"], 2),
    "No such option '--treshold'": (["run cam-1.mp4 -o out --treshold 1"], 2),
    "those of the saved model": (["run cam-1.mp4 -o out --save-model m.npz", "run frames -o out2 --model m.npz"], 2),
    "no window can be shown": (["live cam-1.mp4"], 2),
    "camera 97": (["run 97 -o out"], 2),
}


@pytest.mark.parametrize("words", RUNS)
def test_failing_commands_print_the_quoted_message(words, things, tmp_path, monkeypatch, capsys):
    shutil.copytree(things, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    commands, code = RUNS[words]
    *before, last = [[*command.split(), "--quiet"] for command in commands]
    assert [invoke(arguments) for arguments in before] == [0] * len(before)
    assert invoke(last) == code
    assert words in capsys.readouterr().err
    assert words in PAGE
