"""Images as outputs: names, endings, older runs."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sink_kit import fed, feed, feed_and_raise, files, read_images
from video_fakes import separate

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.video import Frame, ImageSequenceSink
from bgsub.video.sinks.images import NameSet
from bgsub.video.views import VIEWS


def write(sink, image, *names, close=True):
    """Write one picture under several names."""
    for name in names:
        sink.write(Frame(0, name, None, image), separate(image))
    if close:
        sink.close()


def read(path):
    return cv2.imread(str(path), cv2.IMREAD_UNCHANGED)


def test_names_of_images(tmp_path, frames):
    expected = {
        ("mask", None, "in000123"): "bin000123.png",
        ("mask", None, "cam2_0007"): "bin0007.png",
        ("mask", None, "lobby"): "bin_lobby.png",
        ("mask", None, "12b"): "bin_12b.png",
        ("background", None, "in000123"): "background000123.png",
        ("mask", "m", "in000123"): "m000123.png",
        ("mask", "", "in000123"): "000123.png",
    }
    for (view, prefix, name), file in expected.items():
        write(ImageSequenceSink(tmp_path, view, prefix), frames[0], name)
        assert files(tmp_path) == [file]
        (tmp_path / file).unlink()
    write(ImageSequenceSink(tmp_path), frames[0], "a_01", "b_01", "b_01", "b_01")
    assert files(tmp_path) == ["bin01.png", "bin_b_01.png", "bin_b_01_2.png", "bin_b_01_3.png"]


@pytest.mark.parametrize(
    ("ending", "view", "dtype"),
    [
        (".png", "mask", np.float32),
        (".png", "cutout", np.uint8),
        (".png", "background", np.uint16),
        (".tif", "mask", np.uint8),
        (".tif", "cutout", np.float32),
        (".tif", "background", np.uint16),
        (".webp", "mask", np.uint16),
        (".webp", "cutout", np.uint8),
        (".webp", "background", np.uint8),
        (".jpg", "background", np.uint8),
        (".png", "panel", np.uint16),
    ],
)
def test_images_are_lossless_except_for_jpeg(tmp_path, ending, view, dtype):
    image = np.random.default_rng(2).random((31, 45, 3)) * (1 if dtype == np.float32 else np.iinfo(dtype).max)
    separation = dataclasses.replace(separate(image.astype(dtype)), background=image.astype(dtype))
    with ImageSequenceSink(tmp_path, view, ending=ending) as sink:
        sink.write(Frame(0, "in1", None, separation.frame), separation)
    assert files(tmp_path) == [f"{'bin' if view == 'mask' else view}1{ending}"]
    found, expected = read(next(tmp_path.iterdir())), VIEWS[view](separation)
    if ending == ".webp" and view != "background":
        # WebP has no grey, and fully transparent pixels have no colour there.
        found = found[:, :, 0] if view == "mask" else found[:, :, 3]
        expected = expected if view == "mask" else expected[:, :, 3]
    assert found.dtype == expected.dtype
    assert (np.abs(found.astype(int) - expected).max() > 0) == (ending == ".jpg")


def test_images_that_cannot_be_written(tmp_path, frames, monkeypatch):
    for view in ("mask", "cutout"):
        with pytest.raises(ParameterError, match=rf"images of {view} can end in .png, .tif, .webp, got '\.jpg'"):
            ImageSequenceSink(tmp_path, view, ending=".jpg")
    (tmp_path / "bin000001.png").mkdir()
    with pytest.raises(SinkError, match=r"bin000001\.png' cannot be written: Is a directory"):
        feed(ImageSequenceSink(tmp_path), frames)
    monkeypatch.setattr(cv2, "imencode", lambda *_: (False, None))
    with pytest.raises(SinkError, match=r"bin000001\.png' cannot be written: no PNG can hold shape \(32, 48\), uint8"):
        feed(ImageSequenceSink(tmp_path), frames)
    assert files(tmp_path) == []


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


names_of_images = st.one_of(
    st.integers(0, 40).map("bin{:06d}".format),
    st.integers(0, 120).map("bin{}".format),
    st.integers(0, 12).map("mask_in{:02d}".format),
    st.sampled_from(["bin_a", "bin", "b1n", "x9y", "é7"]),
)


@settings(deadline=None, max_examples=50)
@given(st.lists(names_of_images))
def test_a_set_of_names_equals_a_plain_set(names):
    taken, plain = NameSet(), set()
    for name in names:
        assert (name in taken) == (name in plain)
        if name not in plain:
            taken.add(name)
            plain.add(name)
        taken = NameSet(json.loads(json.dumps(taken.ranges())))
        assert len(taken) == len(plain)
    assert all(name in taken for name in plain)


def test_numbers_in_a_row_are_one_range():
    taken = NameSet()
    for number in range(2000):
        taken.add(f"bin{number:07d}")
    assert taken.ranges() == [["bin", 7, 0, 1999]]
