"""Videos by OpenCV and image sequences: what is particular about each, and every wrong output."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import namedtuple
from fractions import Fraction

import numpy as np
import pytest
from saying import says
from sink_kit import fed, feed, feed_and_raise, files, read_images, starved
from video_fakes import make_frames, read_video, separate

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.video import Frame, ImageSequenceSink, VideoSink, open_source
from bgsub.video.views import VIEWS, to_bgr8


def make_sink(target, view="mask"):
    return VideoSink(target, view) if target.suffix else ImageSequenceSink(target, view)


def write(sink, image, *names, close=True):
    """Write one picture under several names."""
    for name in names:
        sink.write(Frame(0, name, None, image), separate(image))
    if close:
        sink.close()


def read(target):
    return read_video(target) if target.suffix else read_images(target)


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 3), (33, 47), (33, 48, 3), (32, 47, 1), (2, 300, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("view", ["mask", "foreground", "residual", "panel"])
@pytest.mark.parametrize("name", ["out.mkv", "out.mp4", "out"])
def test_all_kinds_of_frames(tmp_path, name, view, shape, dtype):
    full = 1 if dtype == np.float32 else np.iinfo(dtype).max
    images = (np.random.default_rng(3).random((3, *shape)) * full).astype(dtype)
    fed(make_sink(tmp_path / name, view), images)
    got = read(tmp_path / name)
    assert len(got) == 3
    scale = 2 if view == "panel" else 1
    height, width = scale * shape[0], scale * shape[1]
    even = (height + height % 2, width + width % 2)
    assert got[0].shape[:2] == ((height, width) if name == "out" else even)


# Video


@pytest.mark.parametrize("suffix", ["mkv", "avi"])
@pytest.mark.parametrize("shape", [(32, 48), (33, 47), (1, 1)])
def test_masks_come_back_exactly(tmp_path, suffix, shape):
    images = (np.random.default_rng(5).random((4, *shape)) * 255).astype(np.uint8)
    sink = fed(VideoSink(tmp_path / f"mask.{suffix}"), images)
    for got, image in zip(read_video(sink.path), images, strict=True):
        mask = separate(image).mask
        np.testing.assert_array_equal(got[: shape[0], : shape[1]], to_bgr8(mask))
        # What an odd size lacks is a copy of the last row and column.
        np.testing.assert_array_equal(got[-1, : shape[1]], got[shape[0] - 1, : shape[1]])
        np.testing.assert_array_equal(got[:, -1], got[:, shape[1] - 1])


@pytest.mark.parametrize("suffix", ["mkv", "mp4"])
def test_colours_come_back_about(tmp_path, suffix):
    image = np.full((32, 48, 3), (40, 120, 250), np.uint8)
    sink = fed(VideoSink(tmp_path / f"foreground.{suffix}", "foreground"), [image] * 3)
    assert np.abs(read_video(sink.path)[2].astype(int) - image).max() < 12


@pytest.mark.parametrize("suffix", ["mkv", "avi", "mp4", "mov"])
@pytest.mark.parametrize("fps", [None, 10, 29.97, Fraction(30000, 1001), Fraction(1, 2)])
def test_rate_is_kept(tmp_path, frames, suffix, fps):
    sink = fed(VideoSink(tmp_path / f"mask.{suffix}", fps=fps), frames)
    with open_source(sink.path) as source:
        assert float(source.fps) == pytest.approx(float(fps or 25), rel=1e-4)


def test_frames_that_change_their_size(tmp_path, frames):
    sink = VideoSink(tmp_path / "mask.mkv")
    feed(sink, frames)
    with says(SinkError, f"'{tmp_path / 'mask.mkv'}' holds images of shape (32, 48), frame in000001 has (20, 48)"):
        feed(sink, [frames[0][:20]])
    sink.abort()


def test_unknown_extension(tmp_path):
    with says(ParameterError, f"a video file must end in .avi, .mkv, .mp4, .m4v, .mov, got '{tmp_path / 'mask.xyz'}'"):
        VideoSink(tmp_path / "mask.xyz")


def test_writer_that_cannot_be_opened(tmp_path, frames, capfd):
    sink = VideoSink(tmp_path / "mask.mkv")
    sink.partial_path.mkdir()
    video = "FFV1 video of 48x32 at 25 frames per second"
    with says(SinkError, f"'{sink.path}' cannot be written: OpenCV opens no {video} there"):
        feed(sink, frames)
    assert capfd.readouterr() == ("", "")


def test_disk_that_fills_up(tmp_path, frames, monkeypatch):
    usage = namedtuple("usage", "total used free")
    sink = VideoSink(tmp_path / "mask.mkv")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**9, 10**9, 1000))
    with says(SinkError, f"'{tmp_path / 'mask.mkv'}' cannot be written: no space left on the disk"):
        feed(sink, frames)
    sink.abort()


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
@pytest.mark.parametrize("suffix", ["mkv", "avi", "mp4"])
def test_file_that_could_not_grow_is_not_passed_off_as_whole(tmp_path, suffix):
    result = starved(f"mask.{suffix} opencv", tmp_path, 20_000, 200)
    assert result.stdout.startswith(f"SinkError '{tmp_path}/mask.{suffix}' is incomplete"), result
    assert files(tmp_path) == [f"mask.partial.{suffix}"]


# Images


@pytest.mark.parametrize(
    ("view", "prefix", "name", "expected"),
    [
        ("mask", None, "in000123", "bin000123.png"),
        ("mask", None, "cam2_0007", "bin0007.png"),
        ("mask", None, "lobby", "bin_lobby.png"),
        ("mask", None, "12b", "bin_12b.png"),
        ("background", None, "in000123", "background000123.png"),
        ("mask", "m", "in000123", "m000123.png"),
        ("mask", "", "in000123", "000123.png"),
    ],
)
def test_names_of_images(tmp_path, view, prefix, name, expected):
    image = make_frames(1)[0]
    write(ImageSequenceSink(tmp_path, view, prefix), image, name)
    assert files(tmp_path) == [expected]


def test_equal_numbers_do_not_overwrite_each_other(tmp_path, frames):
    write(ImageSequenceSink(tmp_path), frames[0], "a_01", "b_01", "b_01", "b_01")
    assert files(tmp_path) == ["bin01.png", "bin_b_01.png", "bin_b_01_2.png", "bin_b_01_3.png"]


def test_depth_is_kept(tmp_path):
    images = (np.random.default_rng(0).random((2, 5, 7, 3)) * 65535).astype(np.uint16)
    fed(ImageSequenceSink(tmp_path, "foreground"), images)
    for got, image in zip(read_images(tmp_path), images, strict=True):
        np.testing.assert_array_equal(got, separate(image).foreground)


def test_image_that_cannot_be_encoded(tmp_path, frames, monkeypatch):
    sink = ImageSequenceSink(tmp_path)
    monkeypatch.setattr(cv2, "imencode", lambda *_: (False, None))
    with says(SinkError, f"'{tmp_path / 'bin000001.png'}' cannot be written: no PNG can hold shape (32, 48), uint8"):
        feed(sink, frames)
    assert files(tmp_path) == []


def test_image_that_cannot_be_written_leaves_nothing(tmp_path, frames):
    sink = ImageSequenceSink(tmp_path)
    (tmp_path / "bin000001.png").mkdir()
    with says(SinkError, f"'{tmp_path / 'bin000001.png'}' cannot be written: Is a directory"):
        feed(sink, frames)
    assert files(tmp_path) == []


@pytest.mark.parametrize("ending", [".png", ".tif", ".webp", ".jpg"])
def test_kinds_of_images(tmp_path, frames, ending):
    fed(ImageSequenceSink(tmp_path, "foreground", ending=ending), frames[:2])
    assert files(tmp_path) == [f"foreground000001{ending}", f"foreground000002{ending}"]
    found = cv2.imread(str(tmp_path / f"foreground000002{ending}"), cv2.IMREAD_UNCHANGED).astype(int)
    difference = np.abs(found - separate(frames[1]).foreground).max()
    assert (difference > 0) == (ending == ".jpg")


@pytest.mark.parametrize("ending", [".png", ".tif", ".webp"])
@pytest.mark.parametrize("view", ["mask", "cutout"])
def test_labels_and_alpha_come_back_exactly(tmp_path, ending, view):
    image = np.random.default_rng(2).integers(0, 256, (31, 45, 3), dtype=np.uint8)
    fed(ImageSequenceSink(tmp_path, view, ending=ending), [image])
    found = cv2.imread(str(next(tmp_path.iterdir())), cv2.IMREAD_UNCHANGED)
    expected = VIEWS[view](separate(image))
    if ending == ".webp":
        # WebP has no grey, and what is fully transparent has no colour there.
        found = found[:, :, 0] if view == "mask" else found[:, :, 3]
        expected = expected if view == "mask" else expected[:, :, 3]
    np.testing.assert_array_equal(found, expected)


def test_tiff_keeps_16_bit(tmp_path):
    image = (np.random.default_rng(0).random((5, 7, 3)) * 65535).astype(np.uint16)
    with ImageSequenceSink(tmp_path, "background", ending=".tif") as sink:
        sink.write(Frame(0, "in1", None, image), dataclasses.replace(separate(image), background=image))
    np.testing.assert_array_equal(cv2.imread(str(tmp_path / "background1.tif"), cv2.IMREAD_UNCHANGED), image)


@pytest.mark.parametrize("view", ["mask", "cutout"])
def test_jpeg_is_refused_for_labels_and_alpha(tmp_path, view):
    with says(ParameterError, f"images of {view} can end in .png, .tif, .webp, got '.jpg'"):
        ImageSequenceSink(tmp_path, view, ending=".jpg")


def test_images_of_an_older_run_are_removed_at_the_end(tmp_path, frames):
    sink = fed(ImageSequenceSink(tmp_path), frames)
    others = ["bin.png", "bin_lobby.png", "bin000099.tif", "cabin000009.png", "bin000009.png.txt", "panel000009.png"]
    for name in others:
        (tmp_path / name).write_bytes(b"not ours")
    sink = ImageSequenceSink(tmp_path, clean=True)
    sink.close()
    assert len(read_images(tmp_path)) >= len(frames)  # nothing came, nothing is replaced
    with pytest.raises(RuntimeError), ImageSequenceSink(tmp_path, clean=True) as sink:
        feed_and_raise(sink, frames[:2], RuntimeError())
    assert "bin000012.png" in files(tmp_path)  # given up
    fed(ImageSequenceSink(tmp_path, clean=True), frames[:3])
    assert files(tmp_path) == sorted([*others, "bin000001.png", "bin000002.png", "bin000003.png"])


def test_names_go_on_after_a_checkpoint(tmp_path, frames):
    names = ["a_01", "b_01", "b_01", "in0002", "in0003", "lobby"]
    sink = ImageSequenceSink(tmp_path)
    write(sink, frames[0], *names, close=False)
    state = json.loads(json.dumps(sink.checkpoint()))
    assert len(state["names"]) == 5  # numbers in a row are one range
    (tmp_path / "bin0007.png").write_bytes(b"from after the checkpoint")
    resumed = ImageSequenceSink(tmp_path, clean=True)
    resumed.resume(state)
    write(resumed, frames[0], "b_01", "in0004")
    expected = ["bin0002.png", "bin0003.png", "bin0004.png", "bin01.png", "bin_b_01.png", "bin_b_01_2.png"]
    assert files(tmp_path) == [*expected, "bin_b_01_6.png", "bin_lobby.png"]
