"""The contract of all kinds of sources."""

from fractions import Fraction

import numpy as np
import pytest
from camera_servers import HttpCamera
from live_fakes import serving
from video_fakes import COUNT, HEIGHT, WIDTH, FakeCapture, needs_pipes, write_images, write_video

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.live.viewer import MULTIPART_TYPE, encode_part
from bgsub.video import Frame, open_source

VIDEOS = ["video", "part of video"]
PAGES = ["stack", "part of stack"]
FILES = [*VIDEOS, *PAGES, "folder", "glob", "printf", "list", "array", "part of array"]
LIVE = ["camera", "stream"]


@pytest.fixture(params=[*FILES, pytest.param("pipe", marks=needs_pipes), *LIVE])
def kind(request):
    return request.param


@pytest.fixture
def network_camera(frames):
    body = b"".join(encode_part(cv2.imencode(".jpg", frame)[1].tobytes()) for frame in frames)
    with serving(server := HttpCamera(answer=lambda _: (200, {"Content-Type": MULTIPART_TYPE, "body": body}))):
        yield server


@pytest.fixture
def source_of(tmp_path, frames, monkeypatch, request):
    """A function that opens a source of a kind with the frames."""

    def open_kind(kind, **options):
        options["reconnect"] = False
        some = np.concatenate([frames, frames[:3]]) if kind.startswith("part of") else frames
        if kind.startswith("part of"):
            options["end"] = COUNT
        if kind in VIDEOS:
            spec = write_video(tmp_path / "clip.avi", some)
        elif kind in PAGES:
            spec = tmp_path / "stack.tif"
            cv2.imwritemulti(str(spec), list(some))
        elif kind == "pipe":
            spec = request.getfixturevalue("written")(write_video(tmp_path / "clip.mkv", frames).read_bytes())
        elif kind in ("folder", "glob", "printf", "list"):
            folder = write_images(tmp_path / "input", frames)
            patterns = {"folder": folder, "glob": f"{folder}/in*.png", "printf": f"{folder}/in%06d.png"}
            spec = patterns.get(kind, sorted(folder.iterdir()))
        elif kind in ("array", "part of array"):
            spec = some
        elif kind == "camera":
            monkeypatch.setattr(cv2, "VideoCapture", FakeCapture(frames))
            spec = 0
        else:
            spec = f"http://127.0.0.1:{request.getfixturevalue('network_camera').port}/stream.mjpg"
        return open_source(spec, **options)

    return open_kind


@pytest.fixture
def source(source_of, kind):
    with source_of(kind) as opened:
        yield opened


def check_numbers(source, numbers, first):
    """Live sources may drop frames, which they count, but never the last one."""
    if source.live:
        assert (numbers, numbers[-1]) == (sorted(set(numbers)), first + COUNT - 1)
        assert len(numbers) + source.dropped == COUNT
    else:
        assert (numbers, source.dropped) == (list(range(first, first + COUNT)), 0)


def test_yields_every_frame_in_order(source, kind, frames):
    got = list(source)
    assert all(isinstance(frame, Frame) for frame in got)
    check_numbers(source, [frame.index for frame in got], 0)
    check_numbers(source, [int(frame.name.removeprefix("in")) for frame in got], int(source.numbered))
    for frame in got:
        original = frames[frame.index]
        assert (frame.image.dtype, frame.image.shape) == (np.uint8, (HEIGHT, WIDTH, 3))
        if kind == "stream":
            np.testing.assert_array_equal(frame.image[6:10, frame.index + 2 : frame.index + 6] > 150, True)
        else:
            np.testing.assert_array_equal(frame.image, original)
    times = [frame.time for frame in got]
    if source.fps is None:
        assert times == [None] * COUNT
    else:
        assert (times[0], times) == (0, sorted(times))
    if kind in VIDEOS or kind.endswith("pipe"):
        np.testing.assert_allclose(times, np.arange(COUNT) / 25, atol=1e-3)


def test_properties(source, kind):
    assert source.size == (WIDTH, HEIGHT)
    fps = {**dict.fromkeys([*VIDEOS, "pipe"], 25), "camera": 30, "stream": 25}.get(kind)
    assert source.fps == fps
    assert source.fps is None or isinstance(source.fps, Fraction)
    assert (source.length, source.live) == (COUNT if kind in FILES else None, kind in LIVE)
    assert (source.numbered, source.skipped) == (kind in ("folder", "glob", "printf", "list"), 0)
    assert source.name
    assert not source.has_audio
    source.close()
    source.close()
    with pytest.raises(SourceError, match=r"is closed$"):
        iter(source)


def test_an_iteration_that_was_broken_off_can_start_again(source, kind):
    index = next(iter(source)).index
    assert index == 0 or (source.live and source.dropped >= index)
    if kind in FILES:
        assert [frame.index for frame in source] == list(range(COUNT))
        assert [frame.index for frame in source] == list(range(COUNT))


@pytest.mark.parametrize("kind", ["folder", "array", "video", "camera"])
def test_the_rate_can_be_given(source_of, kind):
    with source_of(kind, fps=29.97) as source:
        assert source.fps == Fraction(30000, 1001)
        times = [frame.time for frame in source]
    if kind != "camera":
        np.testing.assert_allclose(times, np.arange(COUNT) * 1001 / 30000)


def test_wrong_options(frames, tmp_path):
    spec = write_images(tmp_path, frames[:1])
    assert issubclass(ParameterError, ValueError)
    with pytest.raises(ParameterError, match="on_error must be 'stop' or 'skip', got 'ignore'"):
        open_source(spec, on_error="ignore")
    for fps in (0, float("nan"), "25"):
        with pytest.raises(ParameterError, match=f"fps must be a positive number of frames per second, got '?{fps}"):
            open_source(spec, fps=fps)
