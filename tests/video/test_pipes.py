"""Frames from pipes and on standard output."""

import os
from fractions import Fraction

import numpy as np
import pytest
from av_files import write_av
from sink_kit import feed
from video_fakes import COUNT, HEIGHT, WIDTH, needs_pipes, read_frames

from bgsub.errors import CutShortError, ParameterError, SinkError, SourceError
from bgsub.video import create_sinks, open_source
from bgsub.video.sinks.video import Outlet, StreamSink

pytestmark = needs_pipes


def fragmented(path, frames, flags="frag_keyframe+empty_moov"):
    """Return the frames as the bytes of a fragmented MP4, or of one with other flags."""
    return write_av(path, frames, codec="mpeg4", ticks=25, container=flags and {"movflags": flags}).read_bytes()


def test_a_pipe_can_be_read_once_and_in_part(written, tmp_path, frames):
    sent = fragmented(tmp_path / "clip.mp4", frames)
    with open_source(written(sent)) as source:
        assert len(list(source)) == COUNT
        with pytest.raises(SourceError, match=r"^pipe '.*fifo0' can be read once only$"):
            iter(source)
    assert [frame.index for frame in read_frames(written(sent + b"rest"), start=2, end="0.4s", every=3)] == [2, 5, 8]


def test_input_that_breaks_off_gives_the_complete_frames_first(written, tmp_path, frames):
    data, got = fragmented(tmp_path / "clip.mp4", frames), []
    part = (data.index(b"mdat") + data.index(b"mfra")) // 2
    with open_source(written(data[:part])) as source, pytest.raises(CutShortError) as caught:
        got.extend(source)
    assert 0 < len(got) < COUNT
    assert str(caught.value).endswith(f"fifo0' breaks off within frame {len(got)}")


def test_matroska_that_lacks_the_bytes_it_names_breaks_off(written, tmp_path, frames, caplog):
    """FFmpeg takes a file that ends between or within its blocks for complete."""
    data, got = write_av(tmp_path / "clip.mkv", frames, codec="mpeg4", ticks=25).read_bytes(), []
    assert len(read_frames(written(data))) == COUNT
    part = data[: 3 * len(data) // 4]
    with open_source(written(part)) as source, pytest.raises(CutShortError, match="fifo1' breaks off within frame"):
        got.extend(source)
    assert 0 < len(got) < COUNT
    assert len(read_frames(written(part), on_error="skip")) == len(got)
    assert "fifo2' breaks off within frame" in caplog.text


def test_input_that_is_no_video(written, tmp_path, frames):
    with pytest.raises(SourceError, match=r"^pipe '.*' is empty"):
        open_source(written(b""))
    with pytest.raises(SourceError, match=r"^pipe '.*' is not a video that can be read without seeking"):
        list(open_source(written(b"words, words, words\n" * 99)))
    assert len(read_frames(written(fragmented(tmp_path / "front.mp4", frames, "faststart")))) == COUNT
    noise = np.random.default_rng(0).integers(0, 256, (300, HEIGHT, WIDTH, 3), dtype=np.uint8)  # more than is searched
    with pytest.raises(SourceError, match="is not a video that can be read without seeking"):
        open_source(written(fragmented(tmp_path / "behind.mp4", noise, None)))


@pytest.mark.parametrize("view", ["mask", "panel"])
def test_no_encoded_frame_waits_for_the_next(frames, view):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with StreamSink(Outlet(writer), view, Fraction(25)) as sink:
        for image in frames:
            feed(sink, [image])
            assert os.read(reader, 1 << 20)  # raises where there is nothing
    os.close(reader)


def test_a_full_device_behind_standard_output(frames):
    full = os.open("/dev/full", os.O_WRONLY) if os.path.exists("/dev/full") else pytest.skip("no /dev/full")
    sink = StreamSink(Outlet(full), "mask", None)
    with pytest.raises(SinkError, match=r"^standard output cannot be written: No space left on device$"):
        feed(sink, frames)
    sink.close()


def test_outputs_that_are_wrong_on_standard_output_or_in_a_folder(tmp_path, frames):
    for outputs, words in (
        (["mask", "panel"], "^standard output takes one view, got mask, panel$"),
        (["panel.mp4"], r"^standard output takes panel\.mkv, got panel\.mp4$"),
        (["background-image"], r"^standard output takes a view such as mask or panel, got background-image\.png$"),
    ):
        with pytest.raises(ParameterError, match=words):
            create_sinks("-", outputs, open_source(frames))
