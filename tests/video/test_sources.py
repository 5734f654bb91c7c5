"""What is special about each kind of source, and wrong inputs."""

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
from video_fakes import COUNT, FakeCapture, write_images, write_video

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.video import ArraySource, CameraSource, ImageSequenceSource, VideoFileSource, open_source
from bgsub.video.sources.base import rate_as_fraction
from bgsub.video.sources.images import natural_key


def names(source):
    return [frame.name for frame in source]


# Rates


def test_rates_become_the_usual_fractions(tmp_path, frames):
    expected = {
        29.97: Fraction(30000, 1001),
        30000 / 1001: Fraction(30000, 1001),
        23.98: Fraction(24000, 1001),
        59.94: Fraction(60000, 1001),
        14.999925: Fraction(15),
        12.5: Fraction(25, 2),
        0.1: Fraction(1, 10),
        0.33333: Fraction(1, 3),
        1 / 3600: Fraction(1, 3600),
        **dict.fromkeys((0.0, -1.0, float("nan"), float("inf"))),
    }
    assert {value: rate_as_fraction(value) for value in expected} == expected
    with open_source(write_video(tmp_path / "clip.avi", frames[:2], 30000 / 1001)) as source:
        assert source.fps == Fraction(30000, 1001)


@settings(deadline=None, max_examples=30)
@given(st.floats(1e-5, 1000))
def test_rates_stay_close(value):
    assert float(rate_as_fraction(value)) == pytest.approx(value, rel=2e-4, abs=6e-4 * min(value, 1))


# Image sequences


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 10**12), unique=True))
def test_natural_key_sorts_by_number(numbers):
    paths = [Path(f"a1/in{number}_x.png") for number in numbers]
    assert sorted(paths, key=natural_key) == [Path(f"a1/in{number}_x.png") for number in sorted(numbers)]


def test_a_folder_gives_its_images_in_natural_order(tmp_path, frames):
    folder = write_images(tmp_path / "input", frames, "in{}.png")
    (folder / "in2.png").rename(folder / "in2.PNG")
    (folder / "notes.txt").write_text("no image")
    (folder / "._in1.png").write_bytes(b"left by macOS")
    (folder / "in99.png").mkdir()
    assert names(open_source(folder)) == [f"in{number}" for number in range(1, COUNT + 1)]


def test_image_formats(tmp_path, frames):
    for suffix in ("jpg", "png", "bmp", "tif", "webp", "jp2", "ppm", "pgm"):
        images = frames[:2, ..., 0] if suffix == "pgm" else frames[:2]
        folder = write_images(tmp_path / suffix, images, "in{}." + suffix)
        with open_source(folder) as source:
            assert [frame.image.shape[:2] for frame in source] == [frames.shape[1:3]] * 2, suffix


def test_depth_and_channels_of_images_are_kept(tmp_path):
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


def test_printf_patterns(tmp_path, frames):
    for name in ("img_0001", "img_0002", "img_12345", "img_3", "img_00004", "img_0005b"):
        cv2.imwrite(str(tmp_path / f"{name}.png"), frames[0])
    assert names(open_source(tmp_path / "img_%04d.png")) == ["img_0001", "img_0002", "img_12345"]
    assert names(open_source(tmp_path / "img_%d.png")) == ["img_3", "img_12345"]


def test_existing_names_are_no_patterns_and_lists_keep_their_order(tmp_path, frames):
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


def test_a_broken_image_stops_or_is_skipped(folder_with_broken_image, caplog):
    with pytest.raises(SourceError, match=r"in000002\.png' cannot be decoded"):
        list(open_source(folder_with_broken_image))
    source = open_source(folder_with_broken_image, on_error="skip")
    with caplog.at_level(logging.WARNING, "bgsub"):
        got = [(frame.index, frame.name) for frame in source]
    assert got == [(0, "in000001"), (2, "in000003"), (3, "in000004")]
    assert source.skipped == 1
    assert caplog.messages == [f"image '{folder_with_broken_image / 'in000002.png'}' cannot be decoded; skipped"]
    (folder_with_broken_image / "in000001.png").write_bytes(b"")  # the size is that of the first good image
    assert open_source(folder_with_broken_image, on_error="skip").size == (48, 32)
    with pytest.raises(SourceError, match=r"in000001.png' is empty$"):
        _ = open_source(folder_with_broken_image).size


def test_a_folder_without_readable_images(tmp_path, frames, monkeypatch):
    (tmp_path / "a.png").write_text("no image")
    for on_error in ("stop", "skip"):
        for use in (list, lambda source: source.size):
            with pytest.raises(SourceError):
                use(open_source(tmp_path, on_error=on_error))
    source = open_source(folder := write_images(tmp_path / "input", frames[:2]))
    (folder / "in000002.png").unlink()
    with pytest.raises(SourceError, match=r"in000002.png' cannot be read: No such file"):
        list(source)

    def iterdir(_self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with pytest.raises(SourceError, match=f"^folder '{tmp_path}' cannot be read: Permission denied"):
        open_source(tmp_path)


# Video files


def test_gifs_and_colons_in_names(tmp_path, frames, monkeypatch):
    palette, image = "000000ffffff", "2c000000000100010000" + "02024401003b"
    (tmp_path / "a.gif").write_bytes(b"GIF89a" + bytes.fromhex("01000100800000" + palette + image))
    with open_source(tmp_path / "a.gif") as source:
        assert isinstance(source, VideoFileSource)
        assert len(list(source)) == 1
    assert isinstance(open_source(tmp_path), ImageSequenceSource)
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "plain.avi", frames).rename(tmp_path / "cam:1.avi")
    assert len(list(open_source("cam:1.avi"))) == COUNT


# Cameras


@pytest.mark.parametrize("spec", [2, "2", np.int64(2)])
def test_camera_by_index(monkeypatch, frames, spec):
    capture = FakeCapture(frames, fps=0.0)
    monkeypatch.setattr(cv2, "VideoCapture", capture)
    with open_source(spec) as source:
        assert (source.name, source.fps) == ("camera 2", None)
    assert capture.device == 2
    assert capture.released


def test_a_camera_that_loses_a_frame_or_sends_none(monkeypatch, frames, caplog):
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture([frames[0], None, frames[1]]))
    source = CameraSource(0, on_error="skip")
    with caplog.at_level(logging.WARNING, "bgsub"):
        numbers = [frame.index for frame in source]
    assert numbers in ([0, 2], [2])  # the newest frame may overtake the first
    assert source.skipped == 1
    assert caplog.messages == ["frame 1 of camera 0 cannot be read; skipped", "camera 0 ended after 3 frames"]
    for images, words in (([frames[0], None, frames[1]], "frame 1 of camera 0"), ([], "camera 0 sends no frame")):
        monkeypatch.setattr(cv2, "VideoCapture", FakeCapture(images))
        with pytest.raises(SourceError, match=words), CameraSource(0, on_error="stop") as source:
            list(source)


def test_an_address_without_an_answer_is_given_up():
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        place = f"127.0.0.1:{mute.getsockname()[1]}/stream.mjpg"
        begin = time.monotonic()
        with pytest.raises(SourceError, match=rf"^stream 'http://{place}' .* 0\.3 s"):  # without the password
            CameraSource(f"http://user:secret@{place}", open_timeout=0.3)
        assert time.monotonic() - begin < 5


# Arrays


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((5, 1, 1), np.uint8), ((5, 4, 6, 1), np.uint16), ((5, 4, 6, 3), np.float32), ((5, 4, 6, 4), np.uint8)],
)
def test_array_shapes(shape, dtype):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    images = [frame.image for frame in ArraySource(array)]
    expected = array[..., 0] if shape[-1] == 1 and len(shape) == 4 else array[..., :3] if len(shape) == 4 else array
    np.testing.assert_array_equal(images, expected)
    assert images[0].dtype == dtype


def test_wrong_arrays():
    for shape in ((4, 6), (0, 4, 6), (5, 4, 6, 2)):
        with pytest.raises(ParameterError, match=r"array must have shape .* with c 1, 3 or 4, got"):
            open_source(np.zeros(shape, np.uint8))
    with pytest.raises(ParameterError, match="array must be uint8, uint16 or floating, got int64"):
        open_source(np.zeros((5, 4, 6), np.int64))


# Wrong inputs


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (Path("0"), "^no such file or folder: '0'$"),
        ("empty", "^no images in folder 'empty'$"),
        ("texts", "^no images in folder 'texts'; bgsub batch takes folders of videos$"),
        ("*.jpg", r"^no image matches '\*.jpg'$"),
        ("no/folder/img_%04d.png", "^no image matches 'no/folder/img_%04d.png'$"),
        ([], "list of images is empty"),
        ("97", "^camera 97 cannot be opened"),
        ("ftp://me:secret@host/a.avi", "rtsp://, .*http://, https://.*; got 'ftp://host/a.avi'$"),
    ],
)
def test_wrong_sources(spec, words, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("texts").mkdir()
    Path("texts/a.txt").write_text("no video\n" * 50)
    with pytest.raises(SourceError, match=words):
        open_source(spec)
    assert capfd.readouterr() == ("", "")


def test_wrong_parameters():
    for wrong in (None, True, 1.5, object):
        with pytest.raises(ParameterError, match=r"a source is a camera index, an address, a path, .*, got "):
            open_source(wrong)
    for wrong in (1, np.zeros((4, 5), np.uint8)):
        with pytest.raises(ParameterError, match=f"paths, got {type(wrong).__name__}"):
            open_source([wrong])
    with pytest.raises(ParameterError, match="index of a camera must be 0 or more, got -1"):
        open_source(-1)
    with pytest.raises(ParameterError, match=r"read_timeout must be .*, got 0"):
        CameraSource(0, read_timeout=0)


@pytest.mark.parametrize(("wrong", "at"), [(np.nan, 0), (np.inf, 2)])
def test_frames_that_are_not_finite_can_be_skipped(wrong, at, caplog, tmp_path):
    frames = np.full((4, 32, 48), 0.5, np.float32)
    frames[at, 3, 4] = wrong
    write_images(tmp_path, frames, "in{}.tif")
    source = open_source(tmp_path, on_error="skip")
    assert [frame.index for frame in source.alike(source)] == [index for index in range(4) if index != at]
    assert source.skipped == 1
    assert caplog.messages == [f"frame in{at + 1} of {source.name} has NaN or infinity; skipped"]
    source = open_source(tmp_path)
    assert len(list(source.alike(source))) == 4  # the subtractor refuses that frame
