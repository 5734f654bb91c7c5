"""What is particular about each kind of source, and every wrong input with its one line."""

from __future__ import annotations

import logging
import socket
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saying import says
from video_fakes import COUNT, FakeCapture, make_frames, write_images, write_video

from bgsub._opencv import cv2
from bgsub.errors import BrokenSourceError, ParameterError, SourceError
from bgsub.video import ArraySource, CameraSource, ImageSequenceSource, VideoFileSource, open_source
from bgsub.video.sources.base import rate_as_fraction
from bgsub.video.sources.images import natural_key


def names(source):
    return [frame.name for frame in source]


# Rates


@pytest.mark.parametrize(
    ("value", "fps"),
    [
        (29.97, Fraction(30000, 1001)),
        (30000 / 1001, Fraction(30000, 1001)),
        (23.976, Fraction(24000, 1001)),
        (23.98, Fraction(24000, 1001)),
        (59.94, Fraction(60000, 1001)),
        (14.999925, Fraction(15)),
        (15, Fraction(15)),
        (12.5, Fraction(25, 2)),
        (0.1, Fraction(1, 10)),
        (0.33333, Fraction(1, 3)),
        (1 / 3600, Fraction(1, 3600)),
        (0.0, None),
        (-1.0, None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_rate_as_fraction(value, fps):
    assert rate_as_fraction(value) == fps


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-5, 1000))
def test_rate_as_fraction_is_close(value):
    assert float(rate_as_fraction(value)) == pytest.approx(value, rel=2e-4, abs=6e-4 * min(value, 1))


@pytest.mark.parametrize("suffix", ["avi", "mkv"])
def test_ntsc_rate_of_a_file(tmp_path, frames, suffix):
    with open_source(write_video(tmp_path / f"clip.{suffix}", frames, 30000 / 1001)) as source:
        assert source.fps == Fraction(30000, 1001)


# Image sequences


def test_natural_order(tmp_path, frames):
    folder = tmp_path / "input"
    write_images(folder, frames, "in{}.png")
    assert names(open_source(folder)) == [f"in{number}" for number in range(1, COUNT + 1)]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 10**12), unique=True))
def test_natural_key_sorts_by_number(numbers):
    paths = [Path(f"a1/in{number}_x.png") for number in numbers]
    assert sorted(paths, key=natural_key) == [Path(f"a1/in{number}_x.png") for number in sorted(numbers)]


def test_extensions_in_capitals_count_and_other_files_do_not(tmp_path, frames):
    folder = write_images(tmp_path / "input", frames[:3], "in{}.png")
    (folder / "in2.png").rename(folder / "in2.PNG")
    (folder / "notes.txt").write_text("no image")
    (folder / "._in1.png").write_bytes(b"left by macOS")
    (folder / "in9.png").mkdir()
    assert names(open_source(folder)) == ["in1", "in2", "in3"]


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "tif", "webp", "jp2", "ppm", "pgm"])
def test_image_formats(tmp_path, frames, suffix):
    images = frames[:2, ..., 0] if suffix == "pgm" else frames[:2]
    folder = write_images(tmp_path / "input", images, "in{}." + suffix)
    with open_source(folder) as source:
        assert [frame.image.shape[:2] for frame in source] == [frames.shape[1:3]] * 2


def test_depth_and_channels_survive(tmp_path):
    deep = (np.arange(12, dtype=np.uint16) * 5000).reshape(3, 4)
    colour = np.dstack([deep, deep + 1, deep + 2])
    alpha = np.dstack([colour, np.full_like(deep, 9)])
    bilevel = np.where(deep > 9000, 255, 0).astype(np.uint8)
    for name, image in (("a_grey", deep), ("b_colour", colour), ("c_alpha", alpha)):
        cv2.imwrite(str(tmp_path / f"{name}.png"), image)
    cv2.imwrite(str(tmp_path / "d_bilevel.png"), bilevel, [cv2.IMWRITE_PNG_BILEVEL, 1])
    images = [frame.image for frame in open_source(tmp_path)]
    for image, expected in zip(images, [deep, colour, colour, bilevel], strict=True):
        assert image.dtype == expected.dtype
        np.testing.assert_array_equal(image, expected)


def test_printf_pattern_takes_what_printf_prints(tmp_path, frames):
    for name in ("img_0001", "img_0002", "img_12345", "img_3", "img_00004", "img_0005b"):
        cv2.imwrite(str(tmp_path / f"{name}.png"), frames[0])
    assert names(open_source(tmp_path / "img_%04d.png")) == ["img_0001", "img_0002", "img_12345"]
    assert names(open_source(tmp_path / "img_%d.png")) == ["img_3", "img_12345"]


def test_names_one_image_and_lists_are_taken_as_they_stand(tmp_path, frames):
    folder = write_images(tmp_path / "in [1] %d", frames[:3])
    assert names(open_source(str(folder))) == ["in000001", "in000002", "in000003"]
    source = open_source(folder / "in000001.png")
    assert isinstance(source, ImageSequenceSource)
    assert names(source) == ["in000001"]
    assert names(open_source([folder / "in000003.png", str(folder / "in000001.png")])) == ["in000003", "in000001"]


@pytest.fixture
def folder_with_broken_image(tmp_path, frames):
    folder = write_images(tmp_path / "input", frames[:4])
    good = (folder / "in000002.png").read_bytes()
    (folder / "in000002.png").write_bytes(good[: len(good) // 2])
    return folder


def test_broken_image_stops_or_is_skipped(folder_with_broken_image, caplog):
    with says(SourceError, f"image '{folder_with_broken_image / 'in000002.png'}' cannot be decoded"):
        list(open_source(folder_with_broken_image))
    source = open_source(folder_with_broken_image, on_error="skip")
    with caplog.at_level(logging.WARNING, "bgsub"):
        got = [(frame.index, frame.name) for frame in source]
    assert got == [(0, "in000001"), (2, "in000003"), (3, "in000004")]
    assert source.skipped == 1
    assert caplog.messages == [f"image '{folder_with_broken_image / 'in000002.png'}' cannot be decoded; skipped"]


def test_size_is_that_of_the_first_good_image(folder_with_broken_image):
    (folder_with_broken_image / "in000001.png").write_bytes(b"")
    assert open_source(folder_with_broken_image, on_error="skip").size == (48, 32)
    with pytest.raises(SourceError, match=r"in000001.png' is empty$"):
        _ = open_source(folder_with_broken_image).size


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.parametrize("ask", [list, lambda source: source.size])
def test_nothing_but_broken_images(tmp_path, on_error, ask):
    (tmp_path / "a.png").write_text("no image")
    with pytest.raises(SourceError):
        ask(open_source(tmp_path, on_error=on_error))


def test_image_that_vanished(tmp_path, frames):
    folder = write_images(tmp_path / "input", frames[:2])
    source = open_source(folder)
    (folder / "in000002.png").unlink()
    with pytest.raises(SourceError, match=r"in000002.png' cannot be read: No such file or directory$"):
        list(source)


# Video files


def test_truncated_file_is_reported_and_read_as_far_as_it_goes(tmp_path, caplog):
    path = write_video(tmp_path / "clip.avi", make_frames(40), codec="MJPG")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    came = []
    with open_source(path) as source, pytest.raises(BrokenSourceError, match="is cut short: it ends"):
        came += source
    with caplog.at_level(logging.WARNING, "bgsub"), open_source(path, on_error="skip") as source:
        count = len(list(source))
    assert 10 < count == len(came) < 30
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"video '{path}' is cut short: it ends at 0.")
    assert source.skipped == 0


def test_whole_file_is_not_reported(tmp_path, caplog):
    path = write_video(tmp_path / "clip.avi", make_frames(40))
    with caplog.at_level(logging.WARNING, "bgsub"), open_source(path) as source:
        assert len(list(source)) == 40
    assert caplog.messages == []


def test_gif_alone_is_a_video_and_in_a_folder_an_image(tmp_path):
    palette, image = "000000ffffff", "2c000000000100010000" + "02024401003b"
    (tmp_path / "a.gif").write_bytes(b"GIF89a" + bytes.fromhex("01000100800000" + palette + image))
    with open_source(tmp_path / "a.gif") as source:
        assert isinstance(source, VideoFileSource)
        assert len(list(source)) == 1
    assert isinstance(open_source(tmp_path), ImageSequenceSource)


def test_a_colon_in_a_name_is_no_protocol(tmp_path, frames, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "plain.avi", frames).rename(tmp_path / "cam:1.avi")
    assert len(list(open_source("cam:1.avi"))) == COUNT


# Cameras


@pytest.mark.parametrize("spec", [2, "2", np.int64(2)])
def test_camera_by_index(monkeypatch, frames, spec):
    capture = FakeCapture(frames, fps=0.0)
    monkeypatch.setattr(cv2, "VideoCapture", capture)
    with open_source(spec) as source:
        assert source.name == "camera 2"
        assert source.fps is None
    assert capture.device == 2
    assert capture.released


def test_camera_that_loses_a_frame_or_sends_none(monkeypatch, frames, caplog):
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture([frames[0], None, frames[1]]))
    source = CameraSource(0, on_error="skip")
    with caplog.at_level(logging.WARNING, "bgsub"):
        numbers = [frame.index for frame in source]
    assert numbers in ([0, 2], [2])  # the newest frame may overtake the first
    assert source.skipped == 1
    assert caplog.messages == ["frame 1 of camera 0 cannot be read; skipped", "camera 0 ended after 3 frames"]
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture([frames[0], None, frames[1]]))
    with says(SourceError, "frame 1 of camera 0 cannot be read"), CameraSource(0, on_error="stop") as source:
        list(source)
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture([]))
    with says(SourceError, "camera 0 sends no frame"), CameraSource(0) as source:
        list(source)


def test_network_address_that_never_answers_is_given_up():
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        address = f"http://user:secret@127.0.0.1:{mute.getsockname()[1]}/stream.mjpg"
        begin = time.monotonic()
        told = address.replace("user:secret@", "")
        with says(SourceError, f"stream '{told}' does not answer within 0.3 s or sends no video"):
            CameraSource(address, open_timeout=0.3)
        assert time.monotonic() - begin < 5


# Arrays


@pytest.mark.parametrize("shape", [(5, 1, 1), (5, 4, 6, 1), (5, 4, 6, 3), (5, 4, 6, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_array_shapes(shape, dtype):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    images = [frame.image for frame in ArraySource(array)]
    expected = array[..., 0] if shape[-1] == 1 and len(shape) == 4 else array[..., :3] if len(shape) == 4 else array
    np.testing.assert_array_equal(images, expected)
    assert images[0].dtype == dtype


@pytest.mark.parametrize(
    ("array", "message"),
    [
        *(
            (
                np.zeros(shape, np.uint8),
                f"array must have shape (n, h, w) or (n, h, w, c) with c 1, 3 or 4, got {shape}",
            )
            for shape in ((4, 6), (0, 4, 6), (5, 4, 6, 2))
        ),
        (np.zeros((5, 4, 6), np.int64), "array must be uint8, uint16 or floating, got int64"),
    ],
)
def test_wrong_arrays(array, message):
    with says(ParameterError, message):
        open_source(array)


# Wrong inputs

ALLOWED = "rtsp://, rtsps://, rtmp://, rtp://, http://, https://, udp://, tcp://, srt://"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Path("0"), "no such file or folder: '0'"),
        ("empty", "no images in folder 'empty'"),
        ("texts", "no images in folder 'texts'; bgsub batch takes folders of videos"),
        ("*.jpg", "no image matches '*.jpg'"),
        ("img_%04d.png", "no image matches 'img_%04d.png'"),
        ("no/folder/img_%04d.png", "no image matches 'no/folder/img_%04d.png'"),
        ([], "the list of images is empty"),
        (97, "camera 97 cannot be opened: it is not there, in use or not permitted"),
        ("97", "camera 97 cannot be opened: it is not there, in use or not permitted"),
        (
            "ftp://me:secret@host/a.avi",
            f"a camera is an index or an address with one of {ALLOWED}; got 'ftp://host/a.avi'",
        ),
    ],
)
def test_wrong_sources(spec, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("texts").mkdir()
    Path("texts/a.txt").write_text("no video\n" * 50)
    with says(SourceError, message):
        open_source(spec)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("spec", [None, True, 1.5, object])
def test_things_that_are_no_source(spec):
    with says(
        ParameterError, f"a source is a camera index, an address, a path, a list of images or an array, got {spec!r}"
    ):
        open_source(spec)


@pytest.mark.parametrize("wrong", [1, np.zeros((4, 5), np.uint8)])
def test_a_list_holds_paths(wrong):
    with says(ParameterError, f"a list of images holds paths, got {type(wrong).__name__}; frames go as one array"):
        open_source([wrong])


def test_wrong_camera_parameters():
    with says(ParameterError, "the index of a camera must be 0 or more, got -1"):
        open_source(-1)
    with says(ParameterError, "read_timeout must be a positive number of seconds, got 0"):
        CameraSource(0, read_timeout=0)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 2])
def test_frames_that_are_not_finite_are_skipped_where_others_are(wrong, at, caplog, tmp_path):
    frames = np.full((4, 32, 48), 0.5, np.float32)
    frames[at, 3, 4] = wrong
    write_images(tmp_path, frames, "in{}.tif")
    source = open_source(tmp_path, on_error="skip")
    assert [frame.index for frame in source.alike(source)] == [index for index in range(4) if index != at]
    assert source.skipped == 1
    assert caplog.messages == [f"frame in{at + 1} of {source.name} has NaN or infinity; skipped"]
    source = open_source(tmp_path)
    assert len(list(source.alike(source))) == 4  # whoever takes them refuses that one


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    def iterdir(_self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with says(SourceError, f"folder '{tmp_path}' cannot be read: Permission denied"):
        open_source(tmp_path)
