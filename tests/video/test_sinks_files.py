"""Images and arrays as outputs: names, endings, older runs."""

from __future__ import annotations

import dataclasses
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sink_kit import fed, feed, feed_and_raise, files, read_images
from video_fakes import make_frames, separate

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.video import ArraySink, Frame, ImageSequenceSink, StillSink
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


# Arrays and still images


def load(path):
    with np.load(path, allow_pickle=False) as data:
        return {name: data[name] for name in data.files}


@pytest.mark.parametrize(
    ("view", "dtype"),
    [("mask", "u1"), ("background", "u2"), ("foreground", "f4"), ("probability", "u2"), ("cutout", "f4")],
)
def test_views_are_stored_exactly(tmp_path, view, dtype):
    full = 1 if dtype == "f4" else np.iinfo(dtype).max
    images = (np.random.default_rng(3).random((4, 9, 7, 3)) * full).astype(dtype)
    sink = fed(ArraySink(tmp_path / "a.npz", view), images)
    found = load(sink.path)[view]
    expected = np.stack([VIEWS[view](separate(image)) for image in images])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_facts_of_each_frame(tmp_path):
    image = make_frames(1)[0]
    given = [
        (Frame(3, "in4", None, image), [], None),
        (Frame(5, "in6", 0.1 + 0.2, image), [1.5, -2e-30], "light-change"),
        (Frame(6, "in7", 7.0, image), [1 / 3], "covered"),
    ]
    with ArraySink(tmp_path / "mask.npz") as sink:
        for frame, coefficients, event in given:
            extra = {"coefficients": np.array(coefficients), "event": event}
            sink.write(frame, dataclasses.replace(separate(image), **extra))
    data = load(sink.path)
    assert list(data) == ["mask", "index", "time", "share", "coefficients", "event"]
    np.testing.assert_array_equal(data["index"], [3, 5, 6])
    np.testing.assert_array_equal(data["time"], [np.nan, 0.1 + 0.2, 7.0])
    np.testing.assert_array_equal(data["share"], [separate(image).share] * 3)
    nan = np.nan
    np.testing.assert_array_equal(data["coefficients"], [[nan, nan], [1.5, -2e-30], [1 / 3, nan]])
    np.testing.assert_array_equal(data["event"], ["", "light-change", "covered"])
    assert data["event"].dtype.kind == "U"
    kinds = {"index": np.int64, "time": np.float64, "share": np.float64, "coefficients": np.float64}
    assert {name: data[name].dtype for name in kinds} == kinds


def test_files_without_coefficients_and_events_have_no_time_of_writing(tmp_path, frames):
    sink = fed(ArraySink(tmp_path / "mask.npz"), frames)
    data = load(sink.path)
    assert data["coefficients"].shape == (len(frames), 0)
    assert list(data["event"]) == [""] * len(frames)
    with zipfile.ZipFile(sink.path) as archive:
        assert archive.testzip() is None
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_frames_wait_on_the_disk(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    sink = ArraySink(tmp_path / "background.npz", "foreground")
    for _ in range(3):
        feed(sink, noise)
    assert files(tmp_path) == ["background.npz.partial"]
    assert (tmp_path / "background.npz.partial").stat().st_size > 4 * 64 * 64
    sink.close()
    assert files(tmp_path) == ["background.npz"]


def test_wrong_frames_names_and_folders(tmp_path, frames):
    for kind, name, allowed in ((ArraySink, "mask.npy", ".npz"), (StillSink, "b.gif", ".png, .jpg, .tif")):
        with pytest.raises(ParameterError, match=rf"must end in {allowed}, got '.*{name}'$"):
            kind(tmp_path / name)
    sink = ArraySink(tmp_path / "mask.npz")
    feed(sink, frames)
    with pytest.raises(SinkError, match=r"shape \(32, 48\), uint8; frame in000001 has \(20, 48\), uint8"):
        feed(sink, [frames[0][:20]])
    sink.abort()
    (tmp_path / "other.npz.partial").mkdir()
    with pytest.raises(SinkError, match=r"other\.npz' cannot be written: Is a directory"):
        feed(ArraySink(tmp_path / "other.npz"), frames)


def test_a_full_disk_at_the_end(tmp_path, frames, monkeypatch):
    sink = ArraySink(tmp_path / "mask.npz")
    feed(sink, frames)

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bgsub.video.sinks.arrays._npy", full)
    with pytest.raises(SinkError, match=r"mask\.npz' cannot be written: No space left on device"):
        sink.close()
    assert files(tmp_path) == ["mask.npz.partial"]
    monkeypatch.undo()
    sink.close()
    assert files(tmp_path) == ["mask.npz"]


@pytest.mark.parametrize(
    ("ending", "dtype"),
    [(".png", np.uint8), (".png", np.uint16), (".tif", np.uint16), (".jpg", np.uint16), (".tif", np.float32)],
)
def test_a_still_image_is_the_newest_background(tmp_path, ending, dtype):
    full = 1 if dtype == np.float32 else np.iinfo(dtype).max
    with StillSink(tmp_path / f"background-image{ending}") as sink:
        for level in (0.2, 0.9, 0.5):
            image = np.full((8, 9, 3), level * full, dtype)
            sink.write(Frame(0, "x", None, image), dataclasses.replace(separate(image), background=image))
            assert files(tmp_path) == []
    found = cv2.imread(str(sink.path), cv2.IMREAD_UNCHANGED)
    deep = dtype == np.uint16 and ending != ".jpg"
    assert found.dtype == (np.uint16 if deep else np.uint8)
    assert found.shape == (8, 9, 3)
    assert np.abs(found.astype(float) - (65535 if deep else 255) * 0.5).max() <= 1


def test_a_still_image_continues_from_its_checkpoint(tmp_path, frames):
    sink = StillSink(tmp_path / "b.png")
    feed(sink, frames)
    state = sink.checkpoint()
    resumed = StillSink(tmp_path / "b.png")
    resumed.resume(state)
    resumed.close()
    assert files(tmp_path) == ["b.png"]
    np.testing.assert_array_equal(cv2.imread(str(resumed.path)), separate(frames[-1]).background)
