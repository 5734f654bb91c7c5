"""Frames through pipes: what is sent, what breaks off, what nobody writes, and where frames go out again."""

from __future__ import annotations

import os
import threading
from fractions import Fraction

import numpy as np
import pytest
from saying import says
from sink_kit import feed
from video_fakes import COUNT, HEIGHT, WIDTH, needs_pipes, separate, write_video

from bgsub.errors import CutShortError, ParameterError, ReaderGoneError, SinkError, SourceError
from bgsub.video import create_sinks, open_source
from bgsub.video.sinks.stream import EncodedStreamSink, Outlet, RawStreamSink
from bgsub.video.sources.pipes import Pipe, RawFormat, is_pipe, standard_input_file

pytestmark = needs_pipes
RAW = f"{WIDTH}x{HEIGHT}:bgr24@25"


def fragmented(path, frames, flags="frag_keyframe+empty_moov"):
    """Return the frames as the bytes of a fragmented MP4, or of one with other flags."""
    import av  # noqa: PLC0415

    with av.open(str(path), "w", format="mp4", options={"movflags": flags} if flags else {}) as file:
        stream = file.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for image in frames:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="bgr24")))
        file.mux(stream.encode())
    return path.read_bytes()


@pytest.mark.parametrize("pixels", ["bgr24", "rgb24", "gray", "gray16le"])
def test_every_pixel_format_comes_as_it_was(written, frames, pixels):
    sent = {"rgb24": frames[..., ::-1], "gray": frames[..., 0], "gray16le": frames[..., 0].astype("<u2") * 257}
    expected = {"gray": sent["gray"], "gray16le": sent["gray16le"]}.get(pixels, frames)
    with open_source(written(sent.get(pixels, frames).tobytes()), raw=f"{WIDTH}x{HEIGHT}:{pixels}") as source:
        got = [frame.image for frame in source]
        assert source.fps is None
    assert got[0].dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_a_part_is_read_and_no_more(written, frames):
    with open_source(written(frames.tobytes() + b"rest"), raw=RAW, start=2, end="0.4s", every=3) as source:
        assert [frame.index for frame in source] == [2, 5, 8]


@pytest.mark.parametrize("raw", [RAW, None])
def test_what_went_through_does_not_come_again(written, tmp_path, frames, raw):
    sent = frames.tobytes() if raw else fragmented(tmp_path / "clip.mp4", frames)
    with open_source(written(sent), raw=raw) as source:
        assert len(list(source)) == COUNT
        with says(SourceError, f"pipe '{tmp_path / 'fifo0'}' can be read once only"):
            iter(source)


def test_raw_frames_that_break_off_give_the_whole_ones_first(written, tmp_path, frames):
    got = []
    message = (
        f"pipe '{tmp_path / 'fifo0'}' ends within frame 12, after 5 of 4608 bytes: it broke off, or its frames are "
        "not 48x32:bgr24"
    )
    with open_source(written(frames.tobytes() + b"begin"), raw=RAW) as source, says(CutShortError, message):
        got.extend(source)
    assert len(got) == COUNT


def test_a_video_that_breaks_off_gives_the_whole_ones_first(written, tmp_path, frames):
    data, got = fragmented(tmp_path / "clip.mp4", frames), []
    cut = (data.index(b"mdat") + data.index(b"mfra")) // 2
    with open_source(written(data[:cut])) as source, pytest.raises(CutShortError) as caught:
        got.extend(source)
    assert 0 < len(got) < COUNT
    assert str(caught.value) == f"pipe '{tmp_path / 'fifo0'}' breaks off within frame {len(got)}"


@pytest.mark.parametrize(
    ("sent", "raw", "message"),
    [
        (b"", RAW, "is empty"),
        (b"", None, "is empty"),
        (b"words, words, words\n" * 99, None, "is not a video that can be read from front to back (of MP4, one "),
    ],
)
def test_what_is_no_video(written, sent, raw, message):
    with pytest.raises(SourceError, match=rf"^pipe '.*' {message.replace('(', '[(]')}"):
        list(open_source(written(sent), raw=raw))


def test_the_index_of_mp4_must_be_in_front(written, tmp_path, frames):
    with open_source(written(fragmented(tmp_path / "front.mp4", frames, "faststart"))) as source:
        assert len(list(source)) == COUNT
    noise = np.random.default_rng(0).integers(0, 256, (300, HEIGHT, WIDTH, 3), dtype=np.uint8)  # more than is looked at
    with pytest.raises(SourceError, match="is not a video that can be read from front to back"):
        open_source(written(fragmented(tmp_path / "behind.mp4", noise, "")))


def test_a_wait_for_a_silent_writer_can_be_ended(tmp_path, frames):
    path, came = tmp_path / "fifo", threading.Event()
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR)  # never at its end
    os.write(end, frames[:2].tobytes()[:-1])
    got = []

    def read():
        for frame in source:
            got.append(frame.index)
            came.set()

    with open_source(path, raw=RAW) as source:
        reader = threading.Thread(target=read)
        reader.start()
        assert came.wait(30)
        source.cancel()
        reader.join(30)
        assert not reader.is_alive()
    os.close(end)
    assert got == [0]


def test_a_file_of_raw_frames_is_read_like_a_pipe(tmp_path, frames):
    (tmp_path / "frames.raw").write_bytes(frames.tobytes())
    with open_source(tmp_path / "frames.raw", raw=RAW) as source:
        assert source.name == f"file '{tmp_path / 'frames.raw'}'"
        np.testing.assert_array_equal([frame.image for frame in source], frames)


@pytest.mark.parametrize(
    ("spec", "message"),
    [("0", "raw frames come from a pipe or a file, got '0'"), (".", "file '.' cannot be read: Is a directory")],
)
def test_raw_frames_come_from_no_other_source(spec, message):
    with pytest.raises((ParameterError, SourceError)) as caught:
        open_source(spec, raw=RAW)
    assert str(caught.value) == message


@pytest.fixture
def standard_input(tmp_path, monkeypatch):
    """A function that makes a file standard input."""
    before = os.dup(0)

    def put(path):
        with path.open("rb") as file:
            os.dup2(file.fileno(), 0)

    yield put
    os.dup2(before, 0)
    os.close(before)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="files have no names here")
def test_a_file_as_standard_input_is_that_file(tmp_path, frames, standard_input):
    path = write_video(tmp_path / "clip.avi", frames)
    standard_input(path)
    assert (is_pipe("-"), standard_input_file()) == (False, path.resolve())
    with open_source("-") as source:
        assert source.length == COUNT
        assert len(list(source)) == len(list(source)) == COUNT
    os.lseek(0, 1, os.SEEK_SET)  # somebody has read of it: the rest is a stream
    assert is_pipe("-")


def test_a_terminal_is_no_video(standard_input):
    master, slave = os.openpty()
    try:
        os.dup2(slave, 0)
        with says(SourceError, "standard input is a terminal: a video must be piped into it"):
            open_source("-")
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("640x480:bgr24@25", RawFormat(640, 480, "bgr24", Fraction(25))),
        ("1x2:gray16le@30000/1001", RawFormat(1, 2, "gray16le", Fraction(30000, 1001))),
        ("3x4:gray", RawFormat(3, 4, "gray")),
    ],
)
def test_a_raw_format(text, expected):
    assert RawFormat.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("640x480", "raw frames are told by size, pixel format and rate as in 640x480:bgr24@25, got '640x480'"),
        ("8x8:bgr", "raw frames are of bgr24, rgb24, gray, gray16le, got 'bgr'; did you mean 'bgr24'?"),
        ("0x8:gray", "raw frames have sides of 1 to 65536 pixels, got 0x8"),
        ("8x8:gray@0", "raw frames have a rate such as 25, 29.97 or 30000/1001, got '0'"),
        ("8x8:gray@1/0", "raw frames have a rate such as 25, 29.97 or 30000/1001, got '1/0'"),
        ("8x8:gray@1.2.3", "raw frames have a rate such as 25, 29.97 or 30000/1001, got '1.2.3'"),
    ],
)
def test_what_is_no_raw_format(text, message):
    with says(ParameterError, message):
        RawFormat.parse(text)


# Out again


@pytest.mark.parametrize("make", [RawStreamSink, EncodedStreamSink])
def test_a_reader_that_goes_away_is_told_once(make, frames):
    reader, writer = os.pipe()
    sink = make(Outlet(writer), "mask", Fraction(25))
    os.close(reader)
    with says(ReaderGoneError, "nobody reads standard output any more"):
        for _ in range(1000):
            feed(sink, frames)
    sink.close()
    sink.close()


@pytest.mark.parametrize("view", ["mask", "panel", "cutout"])
def test_no_encoded_frame_waits_for_the_next(frames, view):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with EncodedStreamSink(Outlet(writer), view, Fraction(25)) as sink:
        for image in frames:
            feed(sink, [image])
            assert os.read(reader, 1 << 20)  # raises where there is nothing
    os.close(reader)


def test_what_refuses_the_bytes_is_told(frames):
    full = os.open("/dev/full", os.O_WRONLY) if os.path.exists("/dev/full") else pytest.skip("no /dev/full")
    sink = RawStreamSink(Outlet(full), "mask", None)
    with says(SinkError, "standard output cannot be written: No space left on device"):
        feed(sink, frames)
    sink.close()


def test_raw_bytes_are_those_of_the_view_and_told_in_the_words_of_ffmpeg(tmp_path, frames, caplog):
    caplog.set_level("INFO", "bgsub.stream")
    path = tmp_path / "out"
    with RawStreamSink(Outlet(os.open(path, os.O_CREAT | os.O_WRONLY)), "cutout", Fraction(30000, 1001)) as sink:
        feed(sink, frames[:2])
        with pytest.raises(SinkError, match=r"^standard output holds shapes \(32, 48, 4\), frame in000001 has \(16, "):
            feed(sink, frames[:1, :16])
    assert path.stat().st_size == 2 * HEIGHT * WIDTH * 4
    assert caplog.messages == [
        "on standard output are raw frames; ffmpeg and ffplay read them with -f rawvideo -pixel_format bgra "
        "-video_size 48x32 -framerate 30000/1001 -i -"
    ]
    assert separate(frames[0]).mask.shape == (HEIGHT, WIDTH)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["mask", "panel"], "standard output takes one view, got mask, panel"),
        (["panel.mp4"], "standard output takes panel.mkv or panel.raw, got panel.mp4"),
        (["background-image"], "standard output takes a view such as mask or panel, got background-image.png"),
    ],
)
def test_what_standard_output_does_not_take(frames, outputs, message):
    with says(ParameterError, message):
        create_sinks("-", outputs, open_source(frames))


def test_raw_frames_go_into_no_folder(tmp_path, frames):
    with says(ParameterError, "mask.raw is for standard output: -o - --save mask.raw"):
        create_sinks(tmp_path / "out", ["mask.raw"], open_source(frames))
    assert not (tmp_path / "out").exists()


def test_opening_a_pipe_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    Pipe(tmp_path / "fifo").close()
