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
from bgsub.scene import frame_format
from bgsub.scene.frame_format import FrameFormat
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
    if quote in {message for _, _, message in RUNS}:
        return True  # covered by test_failing_commands_print_the_quoted_message
    # An error message may have a prefix.
    whole = [quote, quote.partition(": ")[2], quote.partition("...; ")[2]]
    return any(pattern.fullmatch(text) for pattern in messages() for text in whole)


@pytest.mark.parametrize("page", PAGES)
def test_quoted_messages_exist_in_the_program(page):
    for quote in quotes((DOCS / page).read_text(encoding="utf-8")):
        assert is_in_the_program(quote), quote


def test_an_unknown_message_is_detected():
    assert not is_in_the_program("no such file anywhere: 'missing.mp4'")


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    """A folder with broken inputs."""
    folder = tmp_path_factory.mktemp("things")
    frames = np.stack([image for image, _ in scene("street", size=(160, 120), length=60, seed=1)])
    write_video(folder / "street.mp4", frames, codec="mp4v")
    write_video(folder / "cam-1.mp4", frames[:20], codec="mp4v")
    write_video(folder / "other.mp4", frames[:20, :100], codec="mp4v")
    (folder / "half.mp4").write_bytes((folder / "street.mp4").read_bytes()[:20_000])
    write_images(folder / "frames", np.pad(frames[:12], ((0, 0), (0, 8), (0, 0), (0, 0))))
    (folder / "frames" / "in000007.png").write_bytes(b"no image")
    return folder


RUNS = [  # commands in sequence, exit code and message of the last
    (["run missing.mp4 -o out"], 2, "no such file or folder: 'missing.mp4'"),
    (["run half.mp4 -o out"], 2, "'half.mp4' is not a video that can be read, or it is damaged"),
    (["run frames -o out"], 1, "image 'frames/in000007.png' cannot be decoded"),
    (
        ["run cam-1.mp4 other.mp4 -o out"],
        2,
        "files in a row need frames of one size: video 'other.mp4' has 160x100, before it 160x120",
    ),
    (
        ["run street.mp4 -o out", "run street.mp4 -o out"],
        2,
        "the output 'out/mask.mkv' exists already; --overwrite replaces it",
    ),
    (
        ["run cam-1.mp4 -o out --save mask,panel --resume", "run cam-1.mp4 -o out --resume"],
        2,
        "the outputs in 'out' were made by other options (--save mask panel, now mask); --overwrite starts anew",
    ),
    (
        ["run cam-1.mp4 -o out --save cutout.mp4"],
        2,
        "--save: cutout can end in .mkv, .mov, .webm, .png, .tif, .webp, .npz, got 'cutout.mp4', "
        "which has no alpha channel",
    ),
    (
        ["run cam-1.mp4 -o out --treshold 1"],
        2,
        "No such option '--treshold'; did you mean '--threshold'?; see bgsub run --help",
    ),
    (
        ["run cam-1.mp4 -o out --save-model m.npz", "run frames -o out2 --model m.npz"],
        2,
        "frame in000001: every frame must be like those of the saved model, uint8 of shape (120, 160, 3), "
        "got uint8 of shape (128, 160, 3)",
    ),
    (
        ["live cam-1.mp4"],
        2,
        "no window can be shown: neither DISPLAY nor WAYLAND_DISPLAY is set; "
        "--serve PORT shows the run in a browser, --no-window runs without a window",
    ),
    (["run 97 -o out"], 2, "camera 97 cannot be opened: it is not there, in use or not permitted"),
]


@pytest.mark.parametrize(("commands", "code", "message"), RUNS)
def test_failing_commands_print_the_quoted_message(commands, code, message, things, tmp_path, monkeypatch, capsys):
    shutil.copytree(things, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for variable in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    *before, last = [[*command.split(), "--quiet"] for command in commands]
    assert [invoke(words) for words in before] == [0] * len(before)
    assert invoke(last) == code
    assert capsys.readouterr().err == f"bgsub: error: {message}\n"
    assert message in quotes(PAGE)


def test_an_unknown_settings_key(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BGSUB_NO_CONFIG", raising=False)
    (tmp_path / "bgsub.toml").write_text("treshold = 1\n")
    assert invoke(["run", "missing.mp4", "-o", "out"]) == 2
    assert capsys.readouterr().err.removeprefix("bgsub: error: ").rstrip("\n") in quotes(PAGE)


def test_insufficient_memory(monkeypatch):
    monkeypatch.setattr("bgsub.numerics.memory.available_memory", lambda: int(3.1e9))
    frames = FrameFormat((4320, 7680, 3), "uint8", 255.0)
    with pytest.raises(ParameterError) as caught:
        frame_format.check_stream_memory(frames, bgsub.parameters.SubtractorParameters())
    assert str(caught.value) in quotes(PAGE)


@pytest.mark.parametrize(
    ("frames", "parameters", "message"),
    [
        (
            [np.zeros((120, 160, 3), np.uint8), np.zeros((240, 320, 3), np.uint8)],
            {},
            "every frame must be like the first one, uint8 of shape (120, 160, 3), got uint8 of shape (240, 320, 3); "
            "on_change='restart' begins anew with it",
        ),
        (
            [np.full((12, 16), 200, np.float32)],
            {},
            "a floating-point frame must lie in [0, 1], got 200; max_value says what full scale is, as 255.0",
        ),
        ([np.zeros((12, 16, 3), np.int32)], {}, "a frame must be of type uint8, uint16 or floating point, got int32"),
    ],
)
def test_refused_frames(frames, parameters, message):
    *before, last = frames
    subtractor = bgsub.BackgroundSubtractor(**parameters)
    for frame in before:
        subtractor.apply(frame)
    with pytest.raises(ParameterError) as caught:
        subtractor.apply(last)
    assert str(caught.value) == message
    assert message in quotes(PAGE)


@pytest.fixture(scope="module")
def street():
    return list(scene("street", size=(160, 120), length=150, seed=1, lamps=False))


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
