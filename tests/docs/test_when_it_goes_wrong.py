"""The messages quoted on the troubleshooting page are those of the program, and the remedies work."""

import ast
import re
import shutil
from functools import cache

import numpy as np
import pytest
from pages import DOCS, PAGES, ROOT
from video_fakes import write_images, write_video

import bgsub
from bgsub.cli import invoke
from bgsub.errors import ParameterError
from bgsub.evaluation.metrics import Confusion, confusion
from bgsub.scene.frame_format import FrameFormat, check_stream_memory
from bgsub.synthetic import scene

PAGE = (DOCS / "when-it-goes-wrong.md").read_text(encoding="utf-8")
_LEAST = 12  # minimum length of the fixed parts of a message; shorter ones match too much


def quotes(text):
    return re.findall(r"^> (.+)$", text, re.MULTILINE)


def _literals(node):
    """Return the fixed parts of a string between its placeholders."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.split(r"%(?:\.?\d?\w|\(\w+\)s)", node.value)
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = [""]
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts[-1] += value.value
        else:
            parts.append("")
    return parts


@cache
def messages():
    """Return a pattern for each string in the source code."""
    nodes = (node for path in (ROOT / "bgsub").rglob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    texts = {tuple(parts) for parts in map(_literals, nodes) if parts and sum(map(len, parts)) >= _LEAST}
    return [re.compile("(?s:.*)".join(map(re.escape, parts))) for parts in texts]


def is_in_the_program(quote):
    if any(words in quote for words in RUNS):
        return True  # covered by test_failing_commands_print_the_quoted_message
    # An error message may have a prefix.
    whole = [quote, quote.partition(": ")[2], quote.partition("...; ")[2]]
    return any(pattern.fullmatch(text) for pattern in messages() for text in whole)


def test_quoted_messages_exist_in_the_program():
    for page in PAGES:
        for quote in quotes((DOCS / page).read_text(encoding="utf-8")):
            assert is_in_the_program(quote), f"{page}: {quote}"
    assert not is_in_the_program("no such file anywhere: 'missing.mp4'")


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
    "by other options": (["run cam-1.mp4 -o out --save mask,panel --resume", "run cam-1.mp4 -o out --resume"], 2),
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
    with pytest.raises(ParameterError) as caught:
        check_stream_memory(FrameFormat((4320, 7680, 3), "uint8", 255.0), bgsub.parameters.SubtractorParameters())
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


@pytest.fixture(scope="module")
def street():
    return list(scene("street", size=(160, 120), length=120, seed=1, lamps=False))


def f_measure(street, change, **parameters):
    subtractor, total = bgsub.BackgroundSubtractor(**parameters), Confusion()
    for index, (frame, truth) in enumerate(street):
        mask = subtractor.apply(change(frame, index))
        total += confusion(mask, truth) if index >= 60 else Confusion()
    return total.f_measure


def test_light_false_helps_with_strong_flicker(street):
    def flickering(frame, index):
        return (frame * (0.9 + 0.1 * np.sin(2.1 * index))).astype(np.uint8)

    assert f_measure(street, flickering, light=False) > f_measure(street, flickering) + 0.05


def test_max_value_helps_with_twelve_bits_in_sixteen(street):
    def deep(frame, _index):
        return frame[..., 1].astype(np.uint16) * 16

    assert f_measure(street, deep, max_value=4095.0) > 0.7
    assert f_measure(street, deep) < 0.5
