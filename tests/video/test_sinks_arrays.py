"""Arrays and still pictures as outputs."""

from __future__ import annotations

import dataclasses
import zipfile

import numpy as np
import pytest
from saying import says
from sink_kit import fed, feed, files
from video_fakes import make_frames, separate

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.video import ArraySink, Frame, StillSink
from bgsub.video.views import VIEWS


def load(path):
    with np.load(path, allow_pickle=False) as data:
        return {name: data[name] for name in data.files}


@pytest.mark.parametrize(("number", "view"), enumerate(VIEWS))
def test_views_come_back_exactly(tmp_path, number, view):
    dtype = np.dtype(["u1", "u2", "f4"][number % 3])
    full = 1 if dtype == np.float32 else np.iinfo(dtype).max
    images = (np.random.default_rng(3).random((4, 9, 7, 3)) * full).astype(dtype)
    sink = fed(ArraySink(tmp_path / "a.npz", view), images)
    found = load(sink.path)[view]
    expected = np.stack([VIEWS[view](separate(image)) for image in images])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_what_is_known_of_each_frame(tmp_path):
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


def test_no_coefficients_no_events_and_no_time_of_the_file(tmp_path, frames):
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


def test_frames_that_change(tmp_path, frames):
    sink = ArraySink(tmp_path / "mask.npz")
    feed(sink, frames)
    with says(SinkError, f"'{sink.path}' holds images of shape (32, 48), uint8; frame in000001 has (20, 48), uint8"):
        feed(sink, [frames[0][:20]])
    sink.abort()


def test_other_endings(tmp_path):
    with pytest.raises(ParameterError, match=r"^a file of arrays must end in .npz, got '.*mask.npy'$"):
        ArraySink(tmp_path / "mask.npy")
    with pytest.raises(ParameterError, match=r"^a still image must end in .png, .jpg, .tif, got '.*b.gif'$"):
        StillSink(tmp_path / "b.gif")


def test_arrays_that_cannot_be_written(tmp_path, frames):
    sink = ArraySink(tmp_path / "mask.npz")
    (tmp_path / "mask.npz.partial").mkdir()
    with says(SinkError, f"'{sink.path}' cannot be written: Is a directory"):
        feed(sink, frames)


def test_a_full_disk_at_the_end(tmp_path, frames, monkeypatch):
    sink = ArraySink(tmp_path / "mask.npz")
    feed(sink, frames)

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bgsub.video.sinks.arrays._npy", full)
    with says(SinkError, f"'{sink.path}' cannot be written: No space left on device"):
        sink.close()
    assert files(tmp_path) == ["mask.npz.partial"]
    monkeypatch.undo()
    sink.close()
    assert files(tmp_path) == ["mask.npz"]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("ending", [".png", ".tif", ".jpg"])
def test_the_newest_background_is_kept(tmp_path, ending, dtype):
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


def test_a_still_goes_on_from_its_checkpoint(tmp_path, frames):
    sink = StillSink(tmp_path / "b.png")
    feed(sink, frames)
    state = sink.checkpoint()
    resumed = StillSink(tmp_path / "b.png")
    resumed.resume(state)
    resumed.close()
    assert files(tmp_path) == ["b.png"]
    np.testing.assert_array_equal(cv2.imread(str(resumed.path)), separate(frames[-1]).background)
