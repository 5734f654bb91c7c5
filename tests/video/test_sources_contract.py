"""One suite for every kind of source."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from saying import says
from video_fakes import COUNT, HEIGHT, WIDTH, FakeCapture, needs_pipes, write_images, write_video

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.video import Frame, open_source

VIDEOS = ["video", "part of video"]
FILES = [*VIDEOS, "folder", "glob", "printf", "list", "array", "part of array"]
PIPES = [pytest.param(kind, marks=needs_pipes) for kind in ("pipe", "raw pipe")]
LIVE = ["camera", "stream"]


@pytest.fixture(params=FILES + PIPES + LIVE)
def kind(request):
    return request.param


@pytest.fixture
def source(kind, tmp_path, frames, monkeypatch, request):
    options = {"reconnect": False}
    if kind in VIDEOS:
        longer = [*frames, *frames[:3]] if kind.startswith("part of") else frames
        spec = write_video(tmp_path / "clip.avi", np.array(longer))
    elif kind.endswith("pipe"):
        if kind == "pipe":
            sent = write_video(tmp_path / "clip.mkv", frames).read_bytes()
        else:
            sent, options["raw"] = frames.tobytes(), f"{WIDTH}x{HEIGHT}:bgr24@25"
        spec = request.getfixturevalue("written")(sent)
    elif kind in ("folder", "glob", "printf", "list"):
        folder = write_images(tmp_path / "input", frames)
        patterns = {"folder": folder, "glob": f"{folder}/in*.png", "printf": f"{folder}/in%06d.png"}
        spec = patterns.get(kind, sorted(folder.iterdir()))
    elif kind in ("array", "part of array"):
        spec = np.concatenate([frames, frames[:3]]) if kind.startswith("part of") else frames
    elif kind == "camera":
        monkeypatch.setattr(cv2, "VideoCapture", FakeCapture(frames))
        spec = 0
    else:
        spec = request.getfixturevalue("mjpeg_server").address
    if kind.startswith("part of"):
        options["end"] = COUNT
    with open_source(spec, **options) as opened:
        yield opened


def check_numbers(source, numbers, first):
    """Live sources may leave frames out, which they count, but never the last one."""
    if source.live:
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == first + COUNT - 1
        assert len(numbers) + source.dropped == COUNT
    else:
        assert numbers == list(range(first, first + COUNT))
        assert source.dropped == 0


def test_yields_every_frame_in_order(source, kind, frames):
    got = list(source)
    assert all(isinstance(frame, Frame) for frame in got)
    check_numbers(source, [frame.index for frame in got], 0)
    check_numbers(source, [int(frame.name.removeprefix("in")) for frame in got], int(source.numbered))
    for frame in got:
        original = frames[frame.index]
        assert frame.image.dtype == np.uint8
        assert frame.image.shape == (HEIGHT, WIDTH, 3)
        if kind == "stream":
            # JPEG: the bright square is where it was.
            np.testing.assert_array_equal(frame.image[6:10, frame.index + 2 : frame.index + 6] > 150, True)
        else:
            np.testing.assert_array_equal(frame.image, original)


def test_names_its_properties(source, kind):
    assert source.size == (WIDTH, HEIGHT)
    assert source.fps is None or isinstance(source.fps, Fraction)
    assert source.length == (COUNT if kind in FILES else None)
    assert source.live == (kind in LIVE)
    assert source.numbered == (kind in ("folder", "glob", "printf", "list"))
    assert source.skipped == 0
    assert source.name
    assert (source.is_variable_rate, source.has_audio) == (False, False)
    assert source.duration == (float(source.length / source.fps) if source.length and source.fps else None)


def test_times_follow_the_rate(source, kind):
    times = [frame.time for frame in source]
    if source.fps is None:
        assert times == [None] * COUNT
    else:
        assert times[0] == 0
        assert times == sorted(times)
    if kind in VIDEOS or kind.endswith("pipe"):
        np.testing.assert_allclose(times, np.arange(COUNT) / 25, atol=1e-3)


def test_files_start_anew(source, kind):
    first = [frame.image for frame in source]
    if kind in FILES:
        second = [frame.image for frame in source]
        np.testing.assert_array_equal(first, second)


def test_starts_anew_after_a_broken_off_iteration(source, kind):
    index = next(iter(source)).index
    assert index == 0 or (source.live and source.dropped >= index)
    if kind in FILES:
        assert [frame.index for frame in source] == list(range(COUNT))


def test_close_is_final_and_may_be_repeated(source):
    source.close()
    source.close()
    with pytest.raises(SourceError, match=r"is closed$"):
        iter(source)


def test_given_rate_wins(kind, source):
    assert source.fps == {**dict.fromkeys([*VIDEOS, "pipe", "raw pipe"], 25), "camera": 30, "stream": 25}.get(kind)


@pytest.mark.parametrize("kind", ["folder", "array", "video", "camera"])
def test_rate_can_be_given(kind, tmp_path, frames, monkeypatch):
    spec = {"array": frames, "camera": 0}.get(kind)
    if spec is None:
        spec = write_images(tmp_path / "input", frames) if kind == "folder" else write_video(tmp_path / "a.avi", frames)
    if kind == "camera":
        monkeypatch.setattr(cv2, "VideoCapture", FakeCapture(frames))
    with open_source(spec, fps=29.97) as source:
        assert source.fps == Fraction(30000, 1001)
        times = [frame.time for frame in source]
    if kind != "camera":
        np.testing.assert_allclose(times, np.arange(COUNT) * 1001 / 30000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "ignore"}, "on_error must be 'stop' or 'skip', got 'ignore'"),
        ({"fps": 0}, "fps must be a positive number of frames per second, got 0"),
        ({"fps": float("nan")}, "fps must be a positive number of frames per second, got nan"),
        ({"fps": "25"}, "fps must be a positive number of frames per second, got '25'"),
    ],
)
def test_wrong_options(options, message, tmp_path, frames):
    spec = write_images(tmp_path / "input", frames)
    assert issubclass(ParameterError, ValueError)
    with says(ParameterError, message):
        open_source(spec, **options)
