"""The messages quoted on the troubleshooting page are those of the program."""

import re
import shutil

import numpy as np
import pytest
from pages import DOCS
from video_fakes import write_images, write_video

import bgsub
from bgsub.cli import invoke
from bgsub.errors import ParameterError
from bgsub.scene.frame_format import FrameFormat, check_stream_memory
from bgsub.synthetic import scene

PAGE = (DOCS / "when-it-goes-wrong.md").read_text(encoding="utf-8")


def quotes(text):
    return re.findall(r"^> (.+)$", text, re.MULTILINE)


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
    message = capsys.readouterr().err.removeprefix("bgsub: error: ").removesuffix("\n")
    assert words in message
    assert message in quotes(PAGE)


def test_an_unknown_settings_key(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BGSUB_NO_CONFIG", raising=False)
    (tmp_path / "bgsub.toml").write_text("treshold = 1\n")
    assert invoke(["run", "missing.mp4", "-o", "out"]) == 2
    assert capsys.readouterr().err.removeprefix("bgsub: error: ").rstrip("\n") in quotes(PAGE)


def test_insufficient_memory(monkeypatch):
    monkeypatch.setattr("bgsub.numerics.memory.available_memory", lambda: int(3.1e9))
    parameters = bgsub.parameters.SubtractorParameters(scale=1)
    with pytest.raises(ParameterError) as caught:
        check_stream_memory(FrameFormat((4320, 7680, 3), "uint8", 255.0), parameters)
    assert str(caught.value) in quotes(PAGE)


@pytest.mark.parametrize(
    "frames",
    [
        [np.zeros((120, 160, 3), np.uint8), np.zeros((240, 320, 3), np.uint8)],
        [np.full((12, 16), 200, np.float32)],
        [np.zeros((12, 16, 3), np.int32)],
    ],
)
def test_refused_frames(frames):
    *before, last = frames
    subtractor = bgsub.BackgroundSubtractor()
    for frame in before:
        subtractor.apply(frame)
    with pytest.raises(ParameterError) as caught:
        subtractor.apply(last)
    assert str(caught.value) in quotes(PAGE)
