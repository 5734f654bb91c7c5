"""Arrays and still pictures as outputs."""

from __future__ import annotations

import dataclasses
import zipfile

import numpy as np
import pytest
from sink_kit import fed, feed, files
from video_fakes import make_frames, separate

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.video import ArraySink, Frame, StillSink
from bgsub.video.views import VIEWS


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
