"""Videos as outputs: pixels, times, alpha, errors."""

import dataclasses
import itertools
import sys
import threading
from fractions import Fraction

import av
import numpy as np
import pytest
from sink_kit import fed, feed, feed_and_raise, files, limited, make, random_images
from video_fakes import make_frames, read_video, separate

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.video import ArraySink, Frame, ImageSequenceSink, StillSink, VideoSink
from bgsub.video.views import VIEWS

SEGMENT = 20


@pytest.fixture(autouse=True)
def short_segments(monkeypatch):
    monkeypatch.setattr("bgsub.video.sinks.video._SEGMENT", SEGMENT)


def pixels(path, format):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        if stream.codec_context.name != "vp9":
            return [frame.to_ndarray(format=format) for frame in container.decode(stream)]
        # FFmpeg's own decoder drops the alpha channel.
        decoder = av.CodecContext.create("libvpx-vp9", "r")
        frames = [frame for packet in container.demux(stream) for frame in decoder.decode(packet)]
        return [frame.to_ndarray(format=format) for frame in frames]


def times(path):
    with av.open(str(path)) as container:
        return [frame.pts * frame.time_base for frame in container.decode(video=0)]


def codec(path):
    with av.open(str(path)) as container:
        return container.streams.video[0].codec_context.codec.canonical_name


@pytest.mark.parametrize(
    ("suffix", "colours", "shape"), [("mkv", 0, (33, 47)), ("mkv", 0, (1, 1, 3)), ("mov", 20, (32, 48, 3))]
)
def test_alpha_channels_of_cutouts(tmp_path, suffix, colours, shape):
    images = random_images((4, *shape), np.uint8)
    sink = fed(VideoSink(tmp_path / f"cutout.{suffix}", "cutout"), images)
    expected = np.stack([VIEWS["cutout"](separate(image)) for image in images]).astype(int)
    found = np.stack(pixels(sink.path, "bgra"))[:, : shape[0], : shape[1]].astype(int)
    assert np.abs(found[..., 3] - expected[..., 3]).max() == 0
    assert np.abs(found[..., :3] - expected[..., :3]).max() <= colours


@pytest.mark.parametrize(
    ("suffix", "view", "shape", "dtype"),
    [
        ("mkv", "panel", (1, 1), np.uint8),
        ("mkv", "overlay", (33, 47, 3), np.uint16),
        ("mp4", "residual", (33, 47), np.uint16),
        ("m4v", "foreground", (2, 300, 3), np.float32),
        ("mov", "panel", (33, 48, 1), np.float32),
        ("mp4", "foreground", (1, 1, 3), np.uint8),
    ],
)
def test_sizes_of_videos_are_even_and_colours_about_kept(tmp_path, suffix, view, shape, dtype):
    images = random_images((3, *shape), dtype)
    sink = fed(VideoSink(tmp_path / f"out.{suffix}", view), images)
    found = pixels(sink.path, "bgr24")
    height, width = VIEWS[view](separate(images[0])).shape[:2]
    assert len(found) == 3
    assert found[0].shape == (height + height % 2, width + width % 2, 3)
    image = np.full((32, 48, 3), (40, 120, 250), np.uint8)
    sink = fed(VideoSink(tmp_path / f"foreground.{suffix}", "foreground"), [image] * 3)
    assert codec(sink.path) == "h264"
    for found in (pixels(sink.path, "bgr24")[2], read_video(sink.path)[2]):
        assert np.abs(found.astype(int) - image).max() < 8


NTSC = Fraction(30000, 1001)


@pytest.mark.parametrize(
    ("suffix", "fps"), [("mkv", NTSC), ("mp4", Fraction(1, 2)), ("m4v", 12.34), ("mov", Fraction(25)), ("mp4", NTSC)]
)
def test_constant_rates(tmp_path, frames, suffix, fps):
    rate = Fraction(fps).limit_denominator(2000)
    sink = fed(VideoSink(tmp_path / f"panel.{suffix}", "panel", fps), frames, fps=rate)
    exact = [index / rate for index in range(len(frames))]
    error = max(abs(found - time) for found, time in zip(times(sink.path), exact, strict=True))
    assert error <= (Fraction(1, 2000) if suffix == "mkv" else 0)
    with av.open(str(sink.path)) as container:
        assert float(container.streams.video[0].average_rate) == pytest.approx(float(fps), rel=1e-3)


@pytest.mark.parametrize(("suffix", "error"), [("mkv", 2e-3), ("mp4", 1e-4)])
def test_variable_rates(tmp_path, frames, suffix, error):
    uneven = [5.0, 5.04, 5.0401, 5.3, 5.3, 5.2, 6.0, 16.0]
    with VideoSink(tmp_path / f"mask.{suffix}", fps=25) as sink:
        for index, time in enumerate(uneven):
            sink.write(Frame(index, "x", time, frames[index]), separate(frames[index]))
    found = times(sink.path)
    assert all(before < after for before, after in itertools.pairwise(found))
    assert found[0] == 0
    expected = np.maximum.accumulate(np.array(uneven) - 5.0)
    np.testing.assert_allclose([float(time) for time in found], expected, atol=error)


def test_segments_start_with_keyframes_and_the_index_is_in_front(tmp_path, frames):
    many = [frames[index % 12] for index in range(SEGMENT + 3)]
    sink = fed(VideoSink(tmp_path / "panel.mp4", "panel", 25), many, fps=25)
    with av.open(str(sink.path)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    assert packets[SEGMENT].is_keyframe
    assert [packet.pts for packet in packets] == [packet.dts for packet in packets]
    assert len(packets) == SEGMENT + 3
    data = sink.path.read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")


def test_builds_of_pyav_without_an_encoder(tmp_path, frames, monkeypatch):
    monkeypatch.setattr(av, "codecs_available", set())
    sink = fed(VideoSink(tmp_path / "panel.mp4", "panel"), frames)
    assert codec(sink.path) == "mpeg4"


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
@pytest.mark.parametrize("name", ["mask.mkv", "mask.mp4"])
@pytest.mark.parametrize(("limit", "checked"), [(20_000, False), (600, False), (20_000, True)])
def test_a_file_that_cannot_grow_does_not_get_its_final_name(tmp_path, name, limit, checked, capfd, caplog):
    noise = np.random.default_rng(0).integers(0, 256, (60 if limit > 1000 else 2, 64, 64), dtype=np.uint8)
    for thread in threading.enumerate():
        if thread.name in ("kernel-loader", "kernel-settling"):  # of an earlier test: logs when it ends
            thread.join()
    caplog.clear()
    sink = make(name, tmp_path)
    if checked:
        sink.checkpoint()
    with limited("FSIZE", limit), pytest.raises(SinkError, match=f"{name}' cannot be written: File too large"):
        fed(sink, noise)
    assert (capfd.readouterr(), caplog.messages) == (("", ""), [])
    assert name not in files(tmp_path)


def test_nothing_is_printed_and_a_colon_in_a_name_is_no_protocol(here, frames, capfd):
    names = ["cutout.mov", "mask.mkv", "panel.mp4", "take1:2.mkv"]
    for name in names:
        fed(VideoSink(name, name.partition(".")[0] if ":" not in name else "mask"), frames)
    assert files(here) == names
    assert capfd.readouterr() == ("", "")


def test_a_folder_with_the_name_of_the_partial_file(tmp_path, frames):
    for name in ("mask.partial.mkv", "mask.mkv.partial"):
        (tmp_path / name).mkdir()
    for checked in (False, True):
        sink = VideoSink(tmp_path / "mask.mkv")
        if checked:
            sink.checkpoint()
        with pytest.raises(SinkError, match=r"mask\.mkv' cannot be written: Is a directory"):
            fed(sink, frames)
        sink.abort()


def write(sink, image, *names):
    """Write one picture under several names."""
    with sink:
        for name in names:
            sink.write(Frame(0, name, None, image), separate(image))


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
        *((".png", *pair) for pair in (("mask", "f4"), ("cutout", "u1"), ("background", "u2"), ("panel", "u2"))),
        *((".tif", *pair) for pair in (("mask", "u1"), ("cutout", "f4"), ("background", "u2"))),
        *((".webp", *pair) for pair in (("mask", "u2"), ("cutout", "u1"), ("background", "u1"))),
        (".jpg", "background", "u1"),
    ],
)
def test_images_are_lossless_except_for_jpeg(tmp_path, ending, view, dtype):
    image = random_images((31, 45, 3), dtype)
    separation = dataclasses.replace(separate(image), background=image)
    with ImageSequenceSink(tmp_path, view, ending=ending) as sink:
        sink.write(Frame(0, "in1", None, separation.frame), separation)
    assert files(tmp_path) == [f"{'bin' if view == 'mask' else view}1{ending}"]
    (path,) = tmp_path.iterdir()
    found, expected = cv2.imread(str(path), cv2.IMREAD_UNCHANGED), VIEWS[view](separation)
    if ending == ".webp" and view != "background":
        # WebP has no grey, and fully transparent pixels have no colour there.
        found = found[:, :, 0] if view == "mask" else found[:, :, 3]
        expected = expected if view == "mask" else expected[:, :, 3]
    assert found.dtype == expected.dtype
    assert (np.abs(found.astype(int) - expected).max() > 0) == (ending == ".jpg")


def test_images_that_cannot_be_written(tmp_path, frames, monkeypatch):
    with pytest.raises(ParameterError, match=r"images of cutout can end in .png, .tif, .webp, got '\.jpg'"):
        ImageSequenceSink(tmp_path, "cutout", ending=".jpg")
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
    assert len(files(tmp_path)) == len(frames) + len(others)  # nothing came, nothing is replaced
    with pytest.raises(RuntimeError), ImageSequenceSink(tmp_path, clean=True) as sink:
        feed_and_raise(sink, frames[:2], RuntimeError())
    assert "bin000012.png" in files(tmp_path)  # given up
    fed(ImageSequenceSink(tmp_path, clean=True), frames[:3])
    assert files(tmp_path) == sorted([*others, "bin000001.png", "bin000002.png", "bin000003.png"])


@pytest.mark.parametrize(
    ("view", "dtype"),
    [("mask", "u1"), ("background", "u2"), ("foreground", "f4"), ("probability", "u2"), ("cutout", "f4")],
)
def test_views_are_stored_exactly(tmp_path, view, dtype):
    images = random_images((4, 9, 7, 3), dtype)
    sink = fed(ArraySink(tmp_path / "a.npz", view), images)
    found = np.load(sink.path)[view]
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
    data = np.load(sink.path)
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


def test_wrong_sizes_of_frames_names_and_folders(tmp_path, frames):
    with pytest.raises(SinkError, match=r"mask\.mkv' .* \(32, 48\), frame in000002 has \(20, 48\)"):
        fed(VideoSink(tmp_path / "mask.mkv"), [frames[0], frames[0][:20]])
    with pytest.raises(ParameterError, match=r"must end in .mkv, .mp4, .m4v, .mov, got '.*mask.xyz'"):
        VideoSink(tmp_path / "mask.xyz")
    with pytest.raises(ParameterError, match=r"cutout must end in .mkv, .mov, got '.mp4' without alpha"):
        VideoSink(tmp_path / "cutout.mp4", "cutout")
    for kind, name, allowed in ((ArraySink, "mask.npy", ".npz"), (StillSink, "b.gif", ".png, .jpg, .tif")):
        with pytest.raises(ParameterError, match=rf"must end in {allowed}, got '.*{name}'$"):
            kind(tmp_path / name)
    with pytest.raises(SinkError, match=r"\(32, 48\), uint8; frame in000002 has \(20, 48\), uint8"):
        fed(ArraySink(tmp_path / "mask.npz"), [frames[0], frames[0][:20]])
    (tmp_path / "other.npz.partial").mkdir()
    with pytest.raises(SinkError, match=r"other\.npz' cannot be written: Is a directory"):
        feed(ArraySink(tmp_path / "other.npz"), frames)


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
