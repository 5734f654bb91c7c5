"""Videos by OpenCV and image sequences: what is particular about each, and every wrong output."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from saying import says
from sink_kit import fed, feed, feed_and_raise, files, read_images
from video_fakes import make_frames, read_video, separate

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.video import Frame, ImageSequenceSink, VideoSink
from bgsub.video.views import VIEWS


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


@pytest.mark.parametrize(
    ("name", "view", "shape", "dtype"),
    [
        ("out.mkv", "mask", (1, 1), np.uint8),
        ("out.mkv", "foreground", (33, 48, 3), np.uint16),
        ("out.mkv", "panel", (32, 47, 1), np.float32),
        ("out.mp4", "residual", (33, 47), np.uint16),
        ("out.mp4", "foreground", (1, 1, 3), np.float32),
        ("out.mp4", "panel", (2, 300, 3), np.uint8),
        ("out", "mask", (33, 47), np.float32),
        ("out", "residual", (1, 1, 3), np.uint8),
        ("out", "panel", (33, 48, 3), np.uint16),
    ],
)
def test_kinds_of_frames(tmp_path, name, view, shape, dtype):
    full = 1 if dtype == np.float32 else np.iinfo(dtype).max
    images = (np.random.default_rng(3).random((3, *shape)) * full).astype(dtype)
    fed(make_sink(tmp_path / name, view), images)
    got = read(tmp_path / name)
    assert len(got) == 3
    scale = 2 if view == "panel" else 1
    height, width = scale * shape[0], scale * shape[1]
    even = (height + height % 2, width + width % 2)
    assert got[0].shape[:2] == ((height, width) if name == "out" or view == "mask" else even)


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
