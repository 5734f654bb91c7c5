"""Video files: times, pixels, damage; pixels are those of OpenCV."""

from fractions import Fraction
from unittest import mock

import av
import numpy as np
import pytest
from av_files import copy_packets, cut_packets, film, write_av
from video_fakes import make_frames, read_frames, read_video, write_video

from bgsub._opencv import cv2
from bgsub.errors import BrokenSourceError, SourceError
from bgsub.video import VideoFileSource, open_source


def images(source):
    return [frame.image for frame in source]


STAMPS = [0, 33, 70, 400, 401, 1000, 1033, 2500, 2540, 2600, 5000, 5021]


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_times_are_those_of_the_file(tmp_path, suffix, caplog):
    with VideoFileSource(write_av(tmp_path / f"clip.{suffix}", film(len(STAMPS)), STAMPS)) as source:
        assert [frame.time for frame in source] == [stamp / 1000 for stamp in STAMPS]
        assert isinstance(source.fps, Fraction)
    stamps, fps = [round(index * 1001 / 30) for index in range(100)], Fraction(30000, 1001)
    with VideoFileSource(write_av(tmp_path / f"fixed.{suffix}", film(100), stamps, fps=fps)) as source:
        assert float(source.fps) == pytest.approx(float(fps), rel=1e-3)
        assert len(list(source)) == 100
    assert caplog.messages == []
    if suffix == "mkv":  # times start at the first frame
        path = write_av(tmp_path / "late.mkv", film(4), [700, 740, 780, 900])
        assert [frame.time for frame in read_frames(path)] == [0, 0.04, 0.08, 0.2]


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_times_without_time_stamps(tmp_path, codec):
    # AVI has no time stamps, and FFmpeg invents wrong ones if frames are out of order.
    frames = read_frames(write_av(tmp_path / "clip.avi", film(60), codec=codec, ticks=25, bf="3"))
    assert [frame.time for frame in frames] == pytest.approx(np.arange(60) / 25)
    assert [frame.index for frame in read_frames(tmp_path / "clip.avi", start=55)] == [55, 56, 57, 58, 59]


def test_times_go_on_where_the_clock_starts_over(tmp_path):
    part = write_av(tmp_path / "part.ts", film(50))
    (tmp_path / "clip.ts").write_bytes(2 * part.read_bytes())
    frames = read_frames(tmp_path / "clip.ts")
    assert [frame.time for frame in frames] == pytest.approx(np.arange(100) / 25)
    assert [frame.index for frame in read_frames(tmp_path / "clip.ts", start="3.8s")] == list(range(95, 100))


def test_frames_that_an_edit_list_leaves_out_are_no_damage(tmp_path, caplog):
    whole = write_av(tmp_path / "whole.mp4", film(100), g="50", bf="0")

    def earlier(_number, packet):
        packet.pts, packet.dts = (stamp - 30 * packet.duration for stamp in (packet.pts, packet.dts))
        return packet

    copy_packets(whole, tmp_path / "clip.mp4", earlier)
    frames, expected = read_frames(tmp_path / "clip.mp4"), read_frames(whole)[30:]
    assert [frame.time for frame in frames] == [index / 25 for index in range(70)]
    np.testing.assert_array_equal(images(frames), images(expected))
    np.testing.assert_array_equal(images(read_frames(tmp_path / "clip.mp4", start=65)), images(expected[65:]))
    assert caplog.messages == []


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_rotation_is_that_of_opencv(tmp_path, rotation):
    if not hasattr(av.VideoStream, "set_display_rotation"):
        pytest.skip("this PyAV cannot write a rotation")
    path = write_av(tmp_path / "clip.mp4", film(5), rotation=rotation)
    with VideoFileSource(path) as source:
        assert source.size == ((48, 64) if rotation % 180 else (64, 48))
        np.testing.assert_array_equal(images(source), read_video(path))


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv422p", "yuv444p", "yuvj420p", "yuv420p10le"])
def test_pixels_are_those_of_opencv(tmp_path, pix_fmt):
    if pix_fmt == "yuv420p10le" and int(cv2.__version__.split(".")[0]) < 5:
        pytest.skip("the FFmpeg of OpenCV 4 rounds differently")
    path = write_av(tmp_path / "clip.mp4", film(8), pix_fmt=pix_fmt)
    np.testing.assert_array_equal(images(read_frames(path)), read_video(path))


def test_lossless_colour_and_grey(tmp_path):
    frames, grey = make_frames(5), film(4)[..., 1]
    np.testing.assert_array_equal(images(read_frames(write_video(tmp_path / "clip.avi", frames))), frames)
    for pix_fmt, pictures in (("gray", grey), ("gray16le", grey.astype(np.uint16) * 257 ^ 0x1234)):
        found = images(read_frames(write_av(tmp_path / "clip.mkv", pictures, codec="ffv1", pix_fmt=pix_fmt)))
        assert found[0].dtype == pictures.dtype
        np.testing.assert_array_equal(found, pictures)


def damage(folder, packets, count=30):
    """A video of grey pictures, without some."""
    whole = write_av(folder / "whole.mkv", film(count)[..., 1], codec="mjpeg", pix_fmt="yuvj420p")
    return cut_packets(whole, folder / "clip.mkv", packets)


def test_damage_stops_or_is_skipped_and_counted(tmp_path, caplog):
    damaged, got = damage(tmp_path, {4, 20, 21}), []
    with VideoFileSource(damaged) as source, pytest.raises(SourceError, match=f"frame 4 of video '{damaged}'"):
        got.extend(frame.index for frame in iter(source))
    assert got == [0, 1, 2, 3]
    with VideoFileSource(damaged, on_error="skip") as source:
        frames = list(source)
        assert source.skipped == 3
    left = [index for index in range(30) if index not in (4, 20, 21)]
    assert [(frame.index, frame.time) for frame in frames] == [(index, index / 25) for index in left]
    assert caplog.messages == [f"frame {n} of video '{damaged}' cannot be decoded; skipped" for n in (4, 20)]


def test_damage_at_the_beginning_and_the_end(tmp_path, caplog):
    frames = read_frames(damage(tmp_path, {0, 1}, 10), on_error="skip")
    assert [(frame.index, frame.time) for frame in frames] == [(index, index / 25) for index in range(2, 10)]
    path = damage(tmp_path, {28})
    assert [frame.index for frame in read_frames(path, on_error="skip")] == [*range(28), 29]
    caplog.clear()
    path = damage(tmp_path, {28, 29})
    assert len(read_frames(path)) == 28
    assert caplog.messages == [f"video '{path}' is cut short: it ends at 1.1 s of 1.2 s, after 28 frames"]


@pytest.mark.parametrize("suffix", ["mkv", "mp4", "ts"])
def test_clock_of_a_segment_that_does_not_begin_at_zero(tmp_path, caplog, suffix):
    path = write_av(tmp_path / f"segment.{suffix}", film(50), [86_400_000 + 40 * index for index in range(50)])
    with open_source(path) as source:
        assert source.length == 50
        assert [frame.index for frame in source] == list(range(50))
    assert caplog.messages == []


def test_a_recording_that_begins_within_a_group_of_pictures(tmp_path, caplog):
    whole = write_av(tmp_path / "whole.ts", film(100), g="25", bf="2")
    copy_packets(whole, tmp_path / "clip.ts", lambda number, packet: packet if number >= 40 else None)
    with mock.patch.object(VideoFileSource, "_open", autospec=True, side_effect=VideoFileSource._open) as opening:
        frames = read_frames(tmp_path / "clip.ts")
    np.testing.assert_array_equal(images(frames)[-50:], images(read_frames(whole))[-50:])
    assert {(*call.args, *call.kwargs.values())[1] for call in opening.call_args_list} == {True}  # with threads
    assert frames[0].time == 0
    assert caplog.messages == []


def test_empty_packets_repeat_a_frame(tmp_path):
    def emptied(number, packet):
        if number not in {5, 6, 17}:
            return packet
        empty = av.Packet(b"")
        empty.pts, empty.dts, empty.time_base = packet.pts, packet.dts, packet.time_base
        return empty

    whole = write_av(tmp_path / "whole.mkv", film(30), codec="mpeg4")
    frames = read_frames(copy_packets(whole, tmp_path / "clip.nut", emptied))  # Matroska leaves them out
    assert [frame.time for frame in frames] == [n / 25 for n in range(30) if n not in {5, 6, 17}]


def test_closed_sources(tmp_path):
    with VideoFileSource(write_av(tmp_path / "clip.mp4", film(40))) as source:
        frames = iter(source)
        next(frames)
    with pytest.raises(SourceError, match=r"is closed$"):
        list(frames)


def whole(tmp_path, kind):
    """Write a video of 40 frames."""
    path = tmp_path / f"whole.{kind}"
    if kind == "mp4":
        return write_av(path, film(40), container={"movflags": "faststart"})
    return write_video(path, make_frames(40), codec="MJPG")


@pytest.mark.parametrize("kind", ["avi", "mkv", "mp4"])
def test_a_file_without_its_end_is_read_up_to_there(tmp_path, caplog, kind):
    path = whole(tmp_path, kind)
    assert len(read_frames(path)) == 40
    assert not caplog.messages
    data = path.read_bytes()
    path.write_bytes(data[: int(0.7 * len(data))])
    came = []
    with open_source(path) as source, pytest.raises(OSError, match=r"is cut short|cannot be decoded"):
        came += source
    assert 10 < len(came) < 38
    with open_source(path, on_error="skip") as source:
        assert len(list(source)) >= len(came)
        assert source.skipped == 0 or kind != "avi"
    if kind == "avi":
        assert caplog.messages[-1].startswith(f"video '{path}' is cut short: it ends at 1.")
    assert len(read_frames(path, end=10)) == 10


@pytest.mark.parametrize("kind", ["clip.ts", "clip.mpg", "clip.h264", "live.mkv", "sound.mkv"])
def test_files_without_a_length_are_not_cut_short(tmp_path, kind, caplog):
    """Streams without a length in the header, and sound that is longer than the pictures."""
    codec = "mpeg2video" if kind == "clip.mpg" else "libx264"
    more = {"live.mkv": {"container": {"live": "1"}}, "sound.mkv": {"sound": 6}}.get(kind, {})
    path = write_av(tmp_path / kind, film(50), codec=codec, ticks=25, bf="0", **more)
    assert 48 <= len(read_frames(path)) <= 50
    assert bool(caplog.messages) == (kind == "sound.mkv")


def test_a_header_that_counts_more_frames_than_there_are(tmp_path):
    """A file of full length with an empty end, as after a crash or an unfinished download."""
    path = whole(tmp_path, "avi")
    half = path.stat().st_size // 2
    path.write_bytes(path.read_bytes()[:half] + bytes(half))
    with open_source(path) as source, pytest.raises(BrokenSourceError, match="is cut short"):
        list(source)
