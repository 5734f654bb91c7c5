"""File outputs: one contract for all, what is particular about each, and every wrong output."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import namedtuple
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from video_fakes import COUNT, FakeSource, make_frames, read_video, separate, write_images, write_video

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.video import Frame, ImageSequenceSink, VideoSink, create_sinks, open_source
from bgsub.video.views import to_bgr8

VIDEOS = ["mask.mkv", "mask.avi", "mask.mp4", "mask.mov"]


def feed(sink, images):
    for index, image in enumerate(images):
        sink.write(Frame(index, f"in{index + 1:06d}", None, image), separate(image))


def feed_and_raise(sink, images, error):
    feed(sink, images)
    raise error


def read_images(folder):
    return [cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in sorted(folder.glob("*.png"))]


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# The contract


@pytest.fixture(params=[*VIDEOS, "mask"])
def target(request, tmp_path):
    return tmp_path / "out" / request.param


def make_sink(target, view="mask"):
    return VideoSink(target, view) if target.suffix else ImageSequenceSink(target, view)


def read(target):
    return read_video(target) if target.suffix else read_images(target)


def partial(target):
    return target.with_name(f"{target.stem}.partial{target.suffix}") if target.suffix else target


@pytest.mark.parametrize("end", ["close", "Ctrl-C"])
def test_finished_output_is_there_under_its_name_only(target, frames, end):
    sink = make_sink(target)
    if end == "close":
        with sink:
            feed(sink, frames)
    else:
        with pytest.raises(KeyboardInterrupt), sink:
            feed_and_raise(sink, frames, KeyboardInterrupt())
    sink.close()
    sink.abort()
    assert len(read(target)) == COUNT
    assert not any("partial" in name for name in files(target.parent))


def test_aborted_output_is_readable_under_another_name(target, frames):
    with pytest.raises(RuntimeError), make_sink(target) as sink:
        feed_and_raise(sink, frames, RuntimeError())
    sink.close()
    assert len(read(partial(target))) == COUNT
    assert not (target.suffix and target.exists())


def test_old_output_is_replaced_at_the_end(target, frames):
    with make_sink(target) as sink:
        feed(sink, frames[:5])
    with make_sink(target) as sink:
        feed(sink, frames)
        assert len(read(target)) == (5 if target.suffix else COUNT)
    assert len(read(target)) == COUNT


def test_without_frames_there_is_no_output(target):
    with make_sink(target):
        pass
    assert files(target.parent) == []


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 3), (33, 47), (33, 48, 3), (32, 47, 1), (2, 300, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("view", ["mask", "foreground", "residual", "panel"])
@pytest.mark.parametrize("name", ["out.mkv", "out.mp4", "out"])
def test_all_kinds_of_frames(tmp_path, name, view, shape, dtype):
    full = 1 if dtype == np.float32 else np.iinfo(dtype).max
    images = (np.random.default_rng(3).random((3, *shape)) * full).astype(dtype)
    with make_sink(tmp_path / name, view) as sink:
        feed(sink, images)
    got = read(tmp_path / name)
    assert len(got) == 3
    scale = 2 if view == "panel" else 1
    height, width = scale * shape[0], scale * shape[1]
    even = (height + height % 2, width + width % 2)
    assert got[0].shape[:2] == ((height, width) if name == "out" else even)


# Video


@pytest.mark.parametrize("suffix", ["mkv", "avi"])
@pytest.mark.parametrize("shape", [(32, 48), (33, 47), (1, 1)])
def test_masks_come_back_exactly(tmp_path, suffix, shape):
    images = (np.random.default_rng(5).random((4, *shape)) * 255).astype(np.uint8)
    with VideoSink(tmp_path / f"mask.{suffix}") as sink:
        feed(sink, images)
    for got, image in zip(read_video(sink.path), images, strict=True):
        mask = separate(image).mask
        np.testing.assert_array_equal(got[: shape[0], : shape[1]], to_bgr8(mask))
        # What an odd size lacks is a copy of the last row and column.
        np.testing.assert_array_equal(got[-1, : shape[1]], got[shape[0] - 1, : shape[1]])
        np.testing.assert_array_equal(got[:, -1], got[:, shape[1] - 1])


@pytest.mark.parametrize("suffix", ["mkv", "mp4"])
def test_colours_come_back_about(tmp_path, suffix):
    image = np.zeros((32, 48, 3), np.uint8)
    image[:] = (40, 120, 250)
    with VideoSink(tmp_path / f"foreground.{suffix}", "foreground") as sink:
        feed(sink, [image] * 3)
    assert np.abs(read_video(sink.path)[2].astype(int) - image).max() < 12


@pytest.mark.parametrize("suffix", ["mkv", "avi", "mp4", "mov"])
@pytest.mark.parametrize("rate", [None, 10, 29.97, Fraction(30000, 1001), Fraction(1, 2)])
def test_rate_is_kept(tmp_path, frames, suffix, rate):
    with VideoSink(tmp_path / f"mask.{suffix}", rate=rate) as sink:
        feed(sink, frames)
    with open_source(sink.path) as source:
        assert float(source.rate) == pytest.approx(float(rate or 25), rel=1e-4)


def test_frames_that_change_their_size(tmp_path, frames):
    sink = VideoSink(tmp_path / "mask.mkv")
    feed(sink, frames)
    with pytest.raises(SinkError) as caught:
        feed(sink, [frames[0][:20]])
    sink.abort()
    assert str(caught.value) == (
        f"'{tmp_path / 'mask.mkv'}' holds images of shape (32, 48), frame in000001 has (20, 48)"
    )


def test_unknown_extension(tmp_path):
    with pytest.raises(ParameterError) as caught:
        VideoSink(tmp_path / "mask.xyz")
    assert str(caught.value) == (
        f"a video file must end in .avi, .mkv, .mp4, .m4v, .mov, got '{tmp_path / 'mask.xyz'}'"
    )


def test_writer_that_cannot_be_opened(tmp_path, frames, capfd):
    sink = VideoSink(tmp_path / "mask.mkv")
    sink.partial_path.mkdir()
    with pytest.raises(SinkError) as caught:
        feed(sink, frames)
    assert str(caught.value) == (
        f"'{tmp_path / 'mask.mkv'}' cannot be written: OpenCV opens no FFV1 video of 48x32 at 25 frames "
        "per second there"
    )
    assert capfd.readouterr() == ("", "")


def test_disk_that_fills_up(tmp_path, frames, monkeypatch):
    usage = namedtuple("usage", "total used free")
    sink = VideoSink(tmp_path / "mask.mkv")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**9, 10**9, 1000))
    with pytest.raises(SinkError) as caught:
        feed(sink, frames)
    sink.abort()
    assert str(caught.value) == f"'{tmp_path / 'mask.mkv'}' cannot be written: no space left on the disk"


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
@pytest.mark.parametrize("suffix", ["mkv", "avi", "mp4"])
def test_file_that_could_not_grow_is_not_passed_off_as_whole(tmp_path, suffix):
    script = f"""
        import resource, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import numpy as np
        from test_sinks import feed
        from bgsub.errors import SinkError
        from bgsub.video import VideoSink
        noise = np.random.default_rng(0).integers(0, 256, (200, 64, 64), dtype=np.uint8)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            with VideoSink({str(tmp_path)!r} + "/mask.{suffix}") as sink:
                feed(sink, noise)
        except SinkError as error:
            print("SinkError", error)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.stdout.startswith(f"SinkError '{tmp_path}/mask.{suffix}' is incomplete"), result
    assert files(tmp_path) == [f"mask.partial.{suffix}"]


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
    with ImageSequenceSink(tmp_path, view, prefix) as sink:
        sink.write(Frame(0, name, None, image), separate(image))
    assert files(tmp_path) == [expected]


def test_equal_numbers_do_not_overwrite_each_other(tmp_path, frames):
    with ImageSequenceSink(tmp_path) as sink:
        for name in ("a_01", "b_01", "b_01", "b_01"):
            sink.write(Frame(0, name, None, frames[0]), separate(frames[0]))
    assert files(tmp_path) == ["bin01.png", "bin_b_01.png", "bin_b_01_2.png", "bin_b_01_3.png"]


def test_depth_is_kept(tmp_path):
    images = (np.random.default_rng(0).random((2, 5, 7, 3)) * 65535).astype(np.uint16)
    with ImageSequenceSink(tmp_path, "foreground") as sink:
        feed(sink, images)
    for got, image in zip(read_images(tmp_path), images, strict=True):
        np.testing.assert_array_equal(got, separate(image).foreground)


def test_image_that_cannot_be_encoded(tmp_path, frames, monkeypatch):
    sink = ImageSequenceSink(tmp_path)
    monkeypatch.setattr(cv2, "imencode", lambda *_: (False, None))
    with pytest.raises(SinkError) as caught:
        feed(sink, frames)
    assert str(caught.value) == (
        f"'{tmp_path / 'bin000001.png'}' cannot be written: no PNG can hold shape (32, 48), uint8"
    )
    assert files(tmp_path) == []


def test_image_that_cannot_be_written_leaves_nothing(tmp_path, frames):
    sink = ImageSequenceSink(tmp_path)
    (tmp_path / "bin000001.png").mkdir()
    with pytest.raises(SinkError) as caught:
        feed(sink, frames)
    assert str(caught.value) == f"'{tmp_path / 'bin000001.png'}' cannot be written: Is a directory"
    assert files(tmp_path) == []


# create_sinks


@pytest.fixture
def numbered(tmp_path, frames):
    return open_source(write_images(tmp_path / "input", frames), rate=10)


def run(sinks, source):
    for frame in source:
        for sink in sinks:
            sink.write(frame, separate(frame.image))
    for sink in sinks:
        sink.close()


def test_images_for_numbered_sources(tmp_path, numbered):
    run(create_sinks(tmp_path / "out", ["mask", "panel"], numbered), numbered)
    expected = [f"mask/bin{number:06d}.png" for number in range(1, COUNT + 1)]
    expected += [f"panel/panel{number:06d}.png" for number in range(1, COUNT + 1)]
    assert files(tmp_path / "out") == expected


@pytest.mark.parametrize("kind", ["fake", "video"])
def test_video_for_others(tmp_path, frames, kind):
    source = FakeSource() if kind == "fake" else open_source(write_video(tmp_path / "a.avi", frames, 10))
    run(create_sinks(tmp_path / "out", ["mask", "panel", "residual"], source), source)
    assert files(tmp_path / "out") == ["mask.mkv", "panel.mp4", "residual.mp4"]
    with open_source(tmp_path / "out" / "mask.mkv") as result:
        assert result.rate == (25 if kind == "fake" else 10)
        assert len(list(result)) == COUNT


def test_format_can_be_chosen(tmp_path, numbered):
    run(create_sinks(tmp_path / "a", ["mask"], numbered, format="video"), numbered)
    run(create_sinks(tmp_path / "b", ["mask"], FakeSource(2), format="images"), FakeSource(2))
    assert files(tmp_path / "a") == ["mask.mkv"]
    assert files(tmp_path / "b") == ["mask/bin000001.png", "mask/bin000002.png"]


@pytest.mark.parametrize("format", ["video", "images"])
def test_overwriting_can_be_forbidden(tmp_path, numbered, format):
    create_sinks(tmp_path / "out", ["mask"], numbered, format=format, overwrite=False)
    run(create_sinks(tmp_path / "out", ["mask"], numbered, format=format), numbered)
    target = tmp_path / "out" / ("mask.mkv" if format == "video" else "mask")
    with pytest.raises(SinkError) as caught:
        create_sinks(tmp_path / "out", ["mask"], numbered, format=format, overwrite=False)
    assert str(caught.value) == f"the output '{target}' exists already"


def test_the_input_is_never_the_output(tmp_path, frames):
    folder = write_images(tmp_path / "mask", frames)
    with pytest.raises(SinkError) as caught:
        create_sinks(tmp_path, ["mask"], open_source(folder))
    assert str(caught.value) == f"the output '{folder}' is the input itself"
    video = write_video(tmp_path / "mask.mkv", frames)
    with open_source(video) as source, pytest.raises(SinkError, match=r"is the input itself$"):
        create_sinks(tmp_path, ["mask"], source)


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "out").touch()
    for folder in (tmp_path / "out", tmp_path / "out" / "deeper"):
        with pytest.raises(SinkError, match=f"^cannot write into folder '{folder}': "):
            create_sinks(folder, ["mask"], FakeSource())


def test_folder_without_permission(tmp_path, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(SinkError) as caught:
        create_sinks(tmp_path, ["mask"], FakeSource())
    assert str(caught.value) == f"cannot write into folder '{tmp_path}': Permission denied"


def test_wrong_view_and_format(tmp_path):
    with pytest.raises(ParameterError) as caught:
        create_sinks(tmp_path / "out", ["mask", "maks"], FakeSource())
    assert str(caught.value) == "view must be one of mask, background, foreground, residual, panel, got 'maks'"
    with pytest.raises(ParameterError) as caught:
        create_sinks(tmp_path / "out", ["mask"], FakeSource(), format="gif")
    assert str(caught.value) == "format must be one of auto, video, images, got 'gif'"
    assert not (tmp_path / "out").exists()
