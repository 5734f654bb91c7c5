"""Frames from pipes and on standard output."""

from __future__ import annotations

import os
import threading
from fractions import Fraction

import av
import numpy as np
import pytest
from sink_kit import feed
from video_fakes import COUNT, HEIGHT, WIDTH, needs_pipes, write_video

from bgsub.errors import CutShortError, ParameterError, ReaderGoneError, SinkError, SourceError
from bgsub.video import create_sinks, open_source
from bgsub.video.sinks.stream import EncodedStreamSink, Outlet, RawStreamSink
from bgsub.video.sources.pipes import Pipe, RawFormat, is_pipe, standard_input_file

pytestmark = needs_pipes
RAW = f"{WIDTH}x{HEIGHT}:bgr24@25"


def fragmented(path, frames, flags="frag_keyframe+empty_moov"):
    """Return the frames as the bytes of a fragmented MP4, or of one with other flags."""
    with av.open(str(path), "w", format="mp4", options={"movflags": flags} if flags else {}) as file:
        stream = file.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for image in frames:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="bgr24")))
        file.mux(stream.encode())
    return path.read_bytes()


@pytest.mark.parametrize("pixels", ["bgr24", "rgb24", "gray", "gray16le"])
def test_pixel_formats_of_raw_frames(written, frames, pixels):
    sent = {"rgb24": frames[..., ::-1], "gray": frames[..., 0], "gray16le": frames[..., 0].astype("<u2") * 257}
    expected = {"gray": sent["gray"], "gray16le": sent["gray16le"]}.get(pixels, frames)
    with open_source(written(sent.get(pixels, frames).tobytes()), raw=f"{WIDTH}x{HEIGHT}:{pixels}") as source:
        got = [frame.image for frame in source]
        assert source.fps is None
    assert got[0].dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("raw", [RAW, None])
def test_a_pipe_can_be_read_once_and_in_part(written, tmp_path, frames, raw):
    sent = frames.tobytes() if raw else fragmented(tmp_path / "clip.mp4", frames)
    with open_source(written(sent), raw=raw) as source:
        assert len(list(source)) == COUNT
        with pytest.raises(SourceError, match=r"^pipe '.*fifo0' can be read once only$"):
            iter(source)
    with open_source(written(sent + b"rest"), raw=raw, start=2, end="0.4s", every=3) as source:
        assert [frame.index for frame in source] == [2, 5, 8]


def test_input_that_breaks_off_gives_the_complete_frames_first(written, tmp_path, frames):
    got = []
    with (
        open_source(written(frames.tobytes() + b"begin"), raw=RAW) as source,
        pytest.raises(CutShortError, match=r"fifo0' ends within frame 12, after 5 of 4608 bytes: .* not 48x32:bgr24$"),
    ):
        got.extend(source)
    assert len(got) == COUNT
    data, got = fragmented(tmp_path / "clip.mp4", frames), []
    part = (data.index(b"mdat") + data.index(b"mfra")) // 2
    with open_source(written(data[:part])) as source, pytest.raises(CutShortError) as caught:
        got.extend(source)
    assert 0 < len(got) < COUNT
    assert str(caught.value).endswith(f"fifo1' breaks off within frame {len(got)}")


def test_input_that_is_no_video(written, tmp_path, frames):
    for raw in (RAW, None):
        with pytest.raises(SourceError, match=r"^pipe '.*' is empty"):
            list(open_source(written(b""), raw=raw))
    with pytest.raises(
        SourceError, match=r"^pipe '.*' is not a video that can be read from front to back \(of MP4, one "
    ):
        list(open_source(written(b"words, words, words\n" * 99)))
    with open_source(written(fragmented(tmp_path / "front.mp4", frames, "faststart"))) as source:
        assert len(list(source)) == COUNT
    noise = np.random.default_rng(0).integers(0, 256, (300, HEIGHT, WIDTH, 3), dtype=np.uint8)  # more than is searched
    with pytest.raises(SourceError, match="is not a video that can be read from front to back"):
        open_source(written(fragmented(tmp_path / "behind.mp4", noise, "")))


def test_a_wait_for_a_silent_writer_can_be_ended(tmp_path, frames):
    path, came = tmp_path / "fifo", threading.Event()
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR)  # so that the pipe never ends
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


def test_raw_frames_in_a_file(tmp_path, frames):
    (tmp_path / "frames.raw").write_bytes(frames.tobytes())
    with open_source(tmp_path / "frames.raw", raw=RAW) as source:
        assert source.name == f"file '{tmp_path / 'frames.raw'}'"
        np.testing.assert_array_equal([frame.image for frame in source], frames)
    for spec, words in (
        ("0", "^raw frames come from a pipe or a file, got '0'$"),
        (".", "^file '.' .*: Is a directory$"),
    ):
        with pytest.raises((ParameterError, SourceError), match=words):
            open_source(spec, raw=RAW)


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
    os.lseek(0, 1, os.SEEK_SET)  # partly read: the rest is a stream
    assert is_pipe("-")


def test_a_terminal_is_no_video(standard_input):
    master, slave = os.openpty()
    try:
        os.dup2(slave, 0)
        with pytest.raises(SourceError, match="standard input is a terminal"):
            open_source("-")
    finally:
        os.close(master)
        os.close(slave)


def test_raw_formats():
    expected = {
        "640x480:bgr24@25": RawFormat(640, 480, "bgr24", Fraction(25)),
        "1x2:gray16le@30000/1001": RawFormat(1, 2, "gray16le", Fraction(30000, 1001)),
        "3x4:gray": RawFormat(3, 4, "gray"),
    }
    assert {text: RawFormat.parse(text) for text in expected} == expected
    wrong = {
        "640x480": "size, pixel format and rate as in 640x480:bgr24@25, got '640x480'$",
        "8x8:bgr": r"bgr24, rgb24, gray, gray16le, got 'bgr'; did you mean 'bgr24'\?$",
        "0x8:gray": "1 to 65536 pixels, got 0x8$",
        "8x8:gray@0": "a rate such as 25, 29.97 or 30000/1001, got '0'$",
        "8x8:gray@1/0": r"a rate such as .*, got '1/0'$",
        "8x8:gray@1.2.3": r"a rate such as .*, got '1.2.3'$",
    }
    for text, words in wrong.items():
        with pytest.raises(ParameterError, match=words):
            RawFormat.parse(text)


# Standard output


@pytest.mark.parametrize("make", [RawStreamSink, EncodedStreamSink])
def test_a_closed_reader_is_reported_once(make, frames):
    reader, writer = os.pipe()
    sink = make(Outlet(writer), "mask", Fraction(25))
    os.close(reader)
    with pytest.raises(ReaderGoneError, match="standard output"):
        feed(sink, [*frames] * 1000)
    sink.close()
    sink.close()


@pytest.mark.parametrize("view", ["mask", "panel"])
def test_no_encoded_frame_waits_for_the_next(frames, view):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with EncodedStreamSink(Outlet(writer), view, Fraction(25)) as sink:
        for image in frames:
            feed(sink, [image])
            assert os.read(reader, 1 << 20)  # raises where there is nothing
    os.close(reader)


def test_a_full_device_behind_standard_output(frames):
    full = os.open("/dev/full", os.O_WRONLY) if os.path.exists("/dev/full") else pytest.skip("no /dev/full")
    sink = RawStreamSink(Outlet(full), "mask", None)
    with pytest.raises(SinkError, match=r"^standard output cannot be written: No space left on device$"):
        feed(sink, frames)
    sink.close()


def test_raw_frames_are_the_bytes_of_the_view_with_a_hint_for_ffmpeg(tmp_path, frames, caplog):
    caplog.set_level("INFO", "bgsub.stream")
    path = tmp_path / "out"
    with RawStreamSink(Outlet(os.open(path, os.O_CREAT | os.O_WRONLY)), "cutout", Fraction(30000, 1001)) as sink:
        feed(sink, frames[:2])
        with pytest.raises(SinkError, match=r"has frames of shape \(32, 48, 4\), frame in000001 has \(16, "):
            feed(sink, frames[:1, :16])
    assert path.stat().st_size == 2 * HEIGHT * WIDTH * 4
    assert caplog.messages == [
        "on standard output are raw frames; ffmpeg and ffplay read them with -f rawvideo -pixel_format bgra "
        "-video_size 48x32 -framerate 30000/1001 -i -"
    ]


def test_outputs_that_are_wrong_on_standard_output_or_in_a_folder(tmp_path, frames):
    for outputs, words in (
        (["mask", "panel"], "^standard output takes one view, got mask, panel$"),
        (["panel.mp4"], r"^standard output takes panel\.mkv or panel\.raw, got panel\.mp4$"),
        (["background-image"], r"^standard output takes a view such as mask or panel, got background-image\.png$"),
    ):
        with pytest.raises(ParameterError, match=words):
            create_sinks("-", outputs, open_source(frames))
    with pytest.raises(ParameterError, match=r"^mask\.raw is for standard output"):
        create_sinks(tmp_path / "out", ["mask.raw"], open_source(frames))
    assert not (tmp_path / "out").exists()


def test_opening_a_pipe_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    Pipe(tmp_path / "fifo").close()
