"""Videos as outputs: pixels, times, alpha, errors."""

from __future__ import annotations

import itertools
import sys
from fractions import Fraction

import av
import numpy as np
import pytest
from sink_kit import fed, feed, feed_and_raise, file_limit, files, make
from video_fakes import read_video, separate

from bgsub.errors import DependencyError, ParameterError, SinkError
from bgsub.video import Frame, VideoSink
from bgsub.video.views import VIEWS, to_bgr8

ENDINGS = ["mkv", "avi", "mp4", "m4v", "mov", "webm"]
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
    ("suffix", "shape"), [("mkv", (33, 47)), ("mkv", (90, 130)), ("mkv", (1, 1)), ("avi", (2, 300)), ("avi", (1, 1))]
)
def test_masks_are_lossless(tmp_path, suffix, shape):
    images = (np.random.default_rng(5).random((4, *shape)) * 255).astype(np.uint8)
    sink = fed(VideoSink(tmp_path / f"mask.{suffix}"), images)
    assert codec(sink.path) == "ffv1"
    expected = np.stack([separate(image).mask for image in images])
    np.testing.assert_array_equal(np.stack(pixels(sink.path, "gray")), expected)
    np.testing.assert_array_equal(np.stack(read_video(sink.path)), np.stack([to_bgr8(mask) for mask in expected]))


@pytest.mark.parametrize(
    ("suffix", "colours", "shape"),
    [("mkv", 0, (33, 47)), ("mkv", 0, (1, 1, 3)), ("mov", 20, (32, 48, 3)), ("webm", None, (33, 47))],
)
def test_alpha_channels_of_cutouts(tmp_path, suffix, colours, shape):
    images = np.random.default_rng(5).integers(0, 256, (4, *shape), dtype=np.uint8)
    sink = fed(VideoSink(tmp_path / f"cutout.{suffix}", "cutout"), images)
    expected = np.stack([VIEWS["cutout"](separate(image)) for image in images]).astype(int)
    found = np.stack(pixels(sink.path, "bgra"))[:, : shape[0], : shape[1]].astype(int)
    assert np.abs(found[..., 3] - expected[..., 3]).max() <= (60 if suffix == "webm" else 0)
    if colours is not None:
        assert np.abs(found[..., :3] - expected[..., :3]).max() <= colours


@pytest.mark.parametrize(
    ("suffix", "view", "shape", "dtype"),
    [
        ("mkv", "panel", (1, 1), np.uint8),
        ("avi", "overlay", (33, 47, 3), np.uint16),
        ("mp4", "residual", (33, 47), np.uint16),
        ("m4v", "foreground", (2, 300, 3), np.float32),
        ("mov", "panel", (33, 48, 1), np.float32),
        ("webm", "foreground", (1, 1, 3), np.uint8),
    ],
)
def test_sizes_of_videos_are_even_and_colours_about_kept(tmp_path, suffix, view, shape, dtype):
    full = 1 if dtype == np.float32 else np.iinfo(dtype).max
    images = (np.random.default_rng(3).random((3, *shape)) * full).astype(dtype)
    sink = fed(VideoSink(tmp_path / f"out.{suffix}", view), images)
    found = pixels(sink.path, "bgr24")
    height, width = VIEWS[view](separate(images[0])).shape[:2]
    assert len(found) == 3
    assert found[0].shape == (height + height % 2, width + width % 2, 3)
    image = np.full((32, 48, 3), (40, 120, 250), np.uint8)
    sink = fed(VideoSink(tmp_path / f"foreground.{suffix}", "foreground"), [image] * 3)
    assert codec(sink.path) == {"avi": "mpeg4", "webm": "vp9"}.get(suffix, "h264")
    for found in (pixels(sink.path, "bgr24")[2], read_video(sink.path)[2]):
        assert np.abs(found.astype(int) - image).max() < 8


# Times


@pytest.mark.parametrize(
    ("suffix", "fps"),
    [*zip(ENDINGS, [Fraction(30000, 1001), Fraction(1, 2), 12.34] * 2, strict=True), ("mp4", Fraction(30000, 1001))],
)
def test_constant_rates(tmp_path, frames, suffix, fps):
    sink = fed(VideoSink(tmp_path / f"panel.{suffix}", "panel", fps), frames, fps=Fraction(fps).limit_denominator(2000))
    exact = [index / Fraction(fps).limit_denominator(2000) for index in range(len(frames))]
    error = max(abs(found - time) for found, time in zip(times(sink.path), exact, strict=True))
    assert error <= (Fraction(1, 2000) if suffix in ("mkv", "webm") else 0)
    with av.open(str(sink.path)) as container:
        assert float(container.streams.video[0].average_rate) == pytest.approx(float(fps), rel=1e-3)


def timed(sink, frames, moments):
    """Write frames at their times, close and return the sink."""
    with sink:
        for index, time in moments:
            sink.write(Frame(index, "x", time, frames[index]), separate(frames[index]))
    return sink


UNEVEN = [5.0, 5.04, 5.0401, 5.3, 5.3, 5.2, 6.0, 16.0]


@pytest.mark.parametrize(("suffix", "error"), [("mkv", 2e-3), ("mp4", 1e-4)])
def test_variable_rates(tmp_path, frames, suffix, error):
    sink = timed(VideoSink(tmp_path / f"mask.{suffix}", fps=25), frames, enumerate(UNEVEN))
    found = times(sink.path)
    assert all(before < after for before, after in itertools.pairwise(found))
    assert found[0] == 0
    expected = np.maximum.accumulate(np.array(UNEVEN) - 5.0)
    np.testing.assert_allclose([float(time) for time in found], expected, atol=error)


def test_avi_takes_the_nearest_frame_of_its_rate(tmp_path, frames):
    sink = timed(VideoSink(tmp_path / "mask.avi", fps=10), frames, enumerate([0, 0.1, 0.33, 0.7]))
    with av.open(str(sink.path)) as container:
        found = [packet.pts * packet.time_base for packet in container.demux(video=0) if packet.size]
    assert [float(time) for time in found] == pytest.approx([0, 0.1, 0.3, 0.7])


def test_frames_without_times_follow_their_index(tmp_path, frames):
    sink = timed(VideoSink(tmp_path / "mask.mp4", fps=20), frames, [(4, None), (5, None), (9, None)])
    assert times(sink.path) == [0, Fraction(1, 20), Fraction(5, 20)]


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


def test_an_aborted_video_of_several_segments_can_be_played(tmp_path, frames):
    sink = VideoSink(tmp_path / "mask.mp4", fps=30)
    with pytest.raises(RuntimeError), sink:
        feed_and_raise(sink, [frames[index % 12] for index in range(SEGMENT + 5)], RuntimeError())
    assert len(read_video(sink.partial_path)) == SEGMENT + 5


# Errors


def test_wrong_sizes_and_endings(tmp_path, frames):
    sink = VideoSink(tmp_path / "mask.mkv")
    feed(sink, frames)
    with pytest.raises(SinkError, match=r"mask\.mkv' .* \(32, 48\), frame in000001 has \(20, 48\)"):
        feed(sink, [frames[0][:20]])
    sink.abort()
    with pytest.raises(ParameterError, match=r"must end in .mkv, .avi, .mp4, .m4v, .mov, .webm, got '.*mask.xyz'"):
        VideoSink(tmp_path / "mask.xyz")
    with pytest.raises(ParameterError, match=r"cutout must end in .mkv, .mov, .webm, got '.mp4' without alpha"):
        VideoSink(tmp_path / "cutout.mp4", "cutout")


def test_builds_of_pyav_without_an_encoder(tmp_path, frames, monkeypatch):
    monkeypatch.setattr("bgsub.video.sinks.encoding._has_encoder", lambda name: False)
    sink = fed(VideoSink(tmp_path / "panel.mp4", "panel"), frames)
    assert codec(sink.path) == "mpeg4"
    with pytest.raises(DependencyError, match=r"^this build of the package av has no VP9 encoder"):
        VideoSink(tmp_path / "panel.webm", "panel")


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


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
@pytest.mark.parametrize(
    ("name", "limit", "checked"),
    [
        *((name, 20_000, False) for name in ("mask.mkv", "mask.avi", "mask.mp4", "panel.webm")),
        ("mask.mkv", 600, False),
        ("mask.mp4", 600, False),
        ("mask.mkv", 20_000, True),
    ],
)
def test_a_file_that_cannot_grow_does_not_get_its_final_name(tmp_path, name, limit, checked, capfd, caplog):
    noise = np.random.default_rng(0).integers(0, 256, (60 if limit > 1000 else 2, 64, 64), dtype=np.uint8)
    sink = make(name, tmp_path)
    if checked:
        sink.checkpoint()
    with file_limit(limit), pytest.raises(SinkError, match=f"{name}' cannot be written: File too large"):
        fed(sink, noise)
    assert (capfd.readouterr(), caplog.messages) == (("", ""), [])
    assert name not in files(tmp_path)


def test_a_failure_is_reported_once(tmp_path, monkeypatch, caplog):
    def refuse(_packets):
        raise OSError(28, "No space left on device")

    frames = np.zeros((3, 16, 16), np.uint8)
    sink = VideoSink(tmp_path / "mask.mkv", "mask", 25)
    sink.write(Frame(0, "a", 0.0, frames[0]), separate(frames[0]))
    monkeypatch.setattr(sink, "_store", refuse)
    with pytest.raises(SinkError, match="No space left on device"):
        sink.write(Frame(1, "b", 0.04, frames[1]), separate(frames[1]))
    sink.abort()
    assert caplog.messages == []


def test_nothing_is_printed_and_a_colon_in_a_name_is_no_protocol(tmp_path, frames, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["cutout.mov", "mask.mkv", "panel.mp4", "panel.webm", "take1:2.avi"]
    for name in names:
        fed(VideoSink(name, name.partition(".")[0] if ":" not in name else "mask"), frames)
    assert files(tmp_path) == names
    assert capfd.readouterr() == ("", "")
