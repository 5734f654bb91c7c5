"""The sound of the source in the results: beep and flash are at the same time."""

from unittest import mock

import av
import numpy as np
import pytest
from av_files import SAMPLES, copy_packets, film, write_av
from sink_kit import fed, run
from video_fakes import read_frames, read_video, separate

from bgsub.errors import SinkError
from bgsub.video import VideoSink, create_sinks, open_source
from bgsub.video.sinks.copying import CopySink, PacketCopy, Piece, ending_of_copy

RATE, SECONDS = 25, 4
FLASH = 2.4  # seconds


def write_flash(path, codec="aac", delay=0.0, encoder="mpeg4", title=""):
    """Write a dark video with one white frame and 40 ms of noise at its time; the file starts at `delay` seconds."""
    sound, begin = np.zeros(SECONDS * SAMPLES, np.int16), round(FLASH * SAMPLES)
    sound[begin : begin + SAMPLES // RATE] = 32767 * np.random.default_rng(0).uniform(-0.9, 0.9, SAMPLES // RATE)
    frames = np.full((SECONDS * RATE, 32, 48, 3), 10, np.uint8)
    frames[round(FLASH * RATE)] = 255
    stamps = [index + round(delay * RATE) for index in range(len(frames))]
    return write_av(path, frames, stamps, encoder, sound=sound, audio=codec, ticks=RATE, title=title, g="12", bf="0")


def listen(path):
    """Return codec, first and last time that is loud, and end of the sound, in seconds."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLES)
        times, sound = [], []
        for frame in container.decode(stream):
            start = frame.time
            for part in resampler.resample(frame):
                values = part.to_ndarray()[0]
                times.append(start + np.arange(len(values)) / SAMPLES)
                sound.append(values)
                start += len(values) / SAMPLES
        times, sound = np.concatenate(times), np.abs(np.concatenate(sound))
        loud = times[sound > 0.2]
        return stream.codec_context.codec.canonical_name, loud[0], loud[-1], times[-1]


def look(path):
    """Return the times of the bright frame and of the last one."""
    with av.open(str(path)) as container:
        seen = [(frame.time, frame.to_ndarray(format="gray").max()) for frame in container.decode(video=0)]
    return next(time for time, level in seen if level > 200), seen[-1][0]


def sounds(path):
    with av.open(str(path)) as container:
        return bool(container.streams.audio)


def take(source, target, first=0.0, last=SECONDS):
    """Write the frames of a part of a video with its sound; return the file."""
    with open_source(source) as frames, VideoSink(target, "foreground", RATE, audio_from=source) as sink:
        for frame in frames:
            if first <= frame.time <= last:
                sink.write(frame, separate(frame.image))
    return target


@pytest.mark.parametrize(
    ("codec", "suffix", "delay", "target", "expected"),
    [
        ("aac", "mp4", 0, "mp4", "aac"),
        ("aac", "mkv", 2, "mkv", "aac"),  # a clock that does not begin at zero
        ("aac", "ts", 2, "mkv", "aac"),
        ("pcm_s16le", "avi", 0, "mov", "pcm_s16le"),
        ("libmp3lame", "mkv", 0, "m4v", "mp3"),
        ("libopus", "mkv", 0, "mp4", "opus"),
    ],
)
def test_flash_and_beep_stay_together(tmp_path, codec, suffix, delay, target, expected):
    source = write_flash(tmp_path / f"in.{suffix}", codec, delay)
    for first, last in ((0, SECONDS), (1.6, 3.0)):
        made = take(source, tmp_path / f"foreground.{target}", first, last)
        name, begin, end, heard = listen(made)
        flash, seen = look(made)
        assert name == expected
        assert flash == pytest.approx(FLASH - first, abs=0.002)
        assert begin == pytest.approx(flash, abs=0.02)
        assert end - begin == pytest.approx(0.04, abs=0.01)
        assert heard == pytest.approx(min(last, SECONDS) - first, abs=0.08)
        assert seen <= last - first


def test_flash_and_beep_stay_together_after_a_start_within_a_group_of_pictures(tmp_path):
    whole = write_flash(tmp_path / "whole.ts", encoder="libx264")
    with av.open(whole) as file:
        begin = file.start_time / av.time_base + 1.1
    late = lambda _number, packet: packet if packet.pts * packet.time_base >= begin else None  # noqa: E731
    source = copy_packets(whole, tmp_path / "in.ts", late)
    made = take(source, tmp_path / "foreground.mkv")
    flash, _seen = look(made)
    assert 0.5 < flash < FLASH - 1.2
    assert listen(made)[1] == pytest.approx(flash, abs=0.02)


def test_the_sound_goes_on_where_the_clock_starts_over(tmp_path):
    source = write_flash(tmp_path / "in.ts")
    source.write_bytes(2 * source.read_bytes())
    made = take(source, tmp_path / "foreground.mp4", 0, 2 * SECONDS)
    assert look(made)[1] == pytest.approx(2 * SECONDS - 1 / RATE, abs=0.002)
    _name, begin, end, _last = listen(made)
    assert (begin, end) == pytest.approx((FLASH, SECONDS + FLASH + 0.04), abs=0.06)
    later = take(source, tmp_path / "later.mp4", SECONDS + 1, 2 * SECONDS)
    assert look(later)[0] == pytest.approx(FLASH - 1, abs=0.002)
    assert listen(later)[1] == pytest.approx(FLASH - 1, abs=0.06)


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_metadata_that_are_not_utf8_do_not_matter(tmp_path, suffix):
    source = write_flash(tmp_path / f"in.{suffix}", title="TITLE")
    source.write_bytes(source.read_bytes().replace(b"TITLE", b"T\xff\xfe\xe9E"))
    made = take(source, tmp_path / f"foreground.{suffix}")
    copied = tmp_path / f"copied.{suffix}"
    packets = PacketCopy(copied, source)
    packets.append(Piece(source))
    packets.close()
    assert [listen(path)[0] for path in (made, copied)] == ["aac", "aac"]


def test_sound_that_cannot_be_written_is_a_warning(tmp_path, frames, caplog):
    silent = fed(VideoSink(tmp_path / "silent.mkv"), frames[:1]).path
    (tmp_path / "text.mp4").write_text("no video")
    opus = write_flash(tmp_path / "opus.mkv", "libopus")
    for source, suffix, reason in (
        (silent, "mkv", "it has none"),
        (tmp_path / "text.mp4", "mkv", "Invalid data"),
        (tmp_path / "missing.mp4", "mkv", "No such file"),
        (opus, "mov", "the file cannot hold opus"),
    ):
        caplog.clear()
        sink = fed(VideoSink(tmp_path / f"out.{suffix}", "panel", audio_from=source), frames)
        (message,) = caplog.messages
        assert message.startswith(f"no sound of '{source}' in the video: ")
        assert reason in message
        assert not sounds(sink.path)
        assert len(read_video(sink.path)) == len(frames)


def test_pictures_have_the_sound_and_masks_none(tmp_path):
    source = write_flash(tmp_path / "in.mp4")
    views = ["mask", "background", "foreground", "residual", "probability", "cutout", "overlay", "contours", "panel"]
    with open_source(source) as opened:
        sinks = create_sinks(tmp_path / "out", views, opened)
        run(sinks, opened)
    with_sound = [sink.path.stem for sink in sinks if sounds(sink.path)]
    assert with_sound == ["foreground", "cutout", "overlay", "contours", "panel"]


@pytest.mark.parametrize(("fps", "kept"), [(float(RATE), True), (RATE * 2, False)])
def test_no_sound_with_a_different_frame_rate(tmp_path, caplog, fps, kept):
    path = write_flash(tmp_path / "in.mp4")
    with open_source(path, fps=fps, start=2) as source:
        sinks = create_sinks(tmp_path / "out", ["panel.mp4", "overlay.mov", "mask"], source)
        run(sinks, source)
    assert [sounds(sink.path) for sink in sinks] == [kept, kept, False]
    warning = f"no sound of video '{path}' in the output: the given frame rate is not that of the file"
    assert caplog.messages == ([] if kept else [warning])


COUNT, GROUP = 100, 20


def copy(path, target, first, last):
    """Copy frames `first` to `last` by index; return the frames of the source and when the copy begins."""
    with open_source(path) as source, CopySink(target, source.files) as sink:
        frames = list(source)
        for frame in frames[first : last + 1]:
            sink.write(frame, separate(frame.image))
    return frames, sink.start


def check_copy(path, frames, start, error):
    """Check that a copy has the frames from `start` seconds on, and return how many."""
    got = read_frames(path)
    for one, other in zip(got, frames[round(start * 25) :], strict=False):
        assert one.time == pytest.approx(other.time - start, abs=error)
        np.testing.assert_array_equal(one.image, other.image)
    return len(got)


def packets(path):
    with av.open(str(path)) as file:
        return [(bytes(packet), packet.is_keyframe) for packet in file.demux(video=0) if packet.size]


@pytest.mark.parametrize(
    ("ending", "bf", "first", "last"),
    [(".mp4", "0", 50, 69), (".mp4", "2", 40, 40), (".mp4", "2", 95, 99), (".mkv", "2", 50, 69), (".mov", "0", 95, 99)],
)
def test_packets_are_those_of_the_source_from_the_previous_keyframe_on(tmp_path, ending, bf, first, last):
    path = write_av(tmp_path / f"in{ending}", film(COUNT), bf=bf, g=str(GROUP), sc_threshold="0")
    frames, start = copy(path, target := tmp_path / f"clip{ending}", first, last)
    begin = round(start * 25)
    assert begin == first // GROUP * GROUP
    before, after = packets(path), packets(target)
    at = before.index(after[0])
    assert after == before[at : at + len(after)]
    assert after[0][1]
    # With B-frames, the clip ends with their group.
    assert 0 <= check_copy(target, frames, start, 1e-3) - (last - begin + 1) <= (0 if bf == "0" else 5)


@pytest.mark.parametrize(
    ("codec", "suffix", "delay"),
    [("aac", "mp4", 0.0), ("aac", "mkv", 0.8), ("pcm_s16le", "mov", 0.8), ("libopus", "mkv", 0.0)],
)
def test_flash_and_beep_stay_together_in_a_copy(tmp_path, codec, suffix, delay):
    path = write_flash(tmp_path / f"in.{suffix}", codec, delay)
    target = tmp_path / f"clip.{suffix}"
    _, start = copy(path, target, 45, 80)
    _, begin, end, last = listen(target)
    flash, shown = look(target)
    assert 0 < start <= 45 / 25
    assert flash == pytest.approx(FLASH - start, abs=0.03)
    assert begin == pytest.approx(flash, abs=0.03)
    assert end == pytest.approx(flash + 0.04, abs=0.03)
    assert last == pytest.approx(shown, abs=0.08)


def test_a_clip_of_several_files(tmp_path):
    parts = zip("abc", np.split(film(COUNT), [40, 60]), strict=True)
    paths = [write_av(tmp_path / f"{name}.mp4", part, g="20", sound=True) for name, part in parts]
    frames, start = copy(paths, target := tmp_path / "clip.mp4", 35, 70)
    begin = round(start * 25)
    assert begin <= 35
    assert begin + check_copy(target, frames, start, 1e-6) >= 71


def test_no_clip_without_frames_after_an_abort_and_after_errors(tmp_path):
    path, target = write_av(tmp_path / "in.mp4", film(30)), tmp_path / "clip.mp4"
    with open_source(path) as source:
        CopySink(target, source.files).close()
        sink = CopySink(target, source.files)
        sink.write(next(iter(source)), None)
        sink.abort()
        sink.close()
        assert sink.start is None
        assert not target.exists()
        late = CopySink(target, source.files)
        late.write(next(iter(source)), None)

    words = f"'{target}' cannot be copied out of '{path}'"
    full = mock.patch.object(PacketCopy, "_mux", side_effect=OSError(28, "No space left on device"))
    with full, pytest.raises(SinkError, match=f"^{words}: No space left on device$"):
        copy(path, target, 0, 9)
    assert sorted(tmp_path.iterdir()) == [path]
    path.unlink()
    with pytest.raises(SinkError, match=f"^{words}: No such file or directory$"):
        late.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "ending"), [("in.mp4", ".mp4"), ("in.MOV", ".mov"), ("in.ts", ".mkv")])
def test_the_container_is_that_of_the_source_if_possible(tmp_path, name, ending):
    path = write_av(tmp_path / name, film(30), sound=True, g="10")
    assert ending_of_copy(path) == ending
    frames, start = copy(path, target := tmp_path / f"clip{ending}", 15, 29)
    assert check_copy(target, frames, start, 1e-3) == 30 - round(start * 25)
