"""The sound of the source in the results: beep and flash are at the same time."""

from __future__ import annotations

import logging
from fractions import Fraction

import av
import numpy as np
import pytest
from sink_kit import fed, run
from video_fakes import FakeSource, content, separate, write_images

from bgsub.video import Frame, VideoSink, create_sinks, open_source

RATE, SECONDS, SAMPLES = 25, 4, 48_000
FLASH = 2.4  # seconds
_LAYOUTS = {"aac": "fltp", "pcm_s16le": "s16", "libopus": "flt", "libmp3lame": "s16p", "ac3": "fltp"}


def write_flash(path, codec="aac", delay=0.0, rate=SAMPLES):
    """Write a dark video with one white frame and 40 ms of noise at its time; the file starts at `delay` seconds."""
    noise = np.random.default_rng(0).uniform(-0.9, 0.9, rate // RATE)
    sound = np.zeros(SECONDS * rate)
    begin = round(FLASH * rate)
    sound[begin : begin + len(noise)] = noise
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=RATE)
        video.width, video.height, video.pix_fmt = 48, 32, "yuv420p"
        audio = container.add_stream(codec, rate=rate)
        format = _LAYOUTS[codec]
        audio.codec_context.layout, audio.codec_context.format = "mono", format
        resampler = av.AudioResampler(format=format, layout="mono", rate=rate)
        container.start_encoding()
        size = audio.codec_context.frame_size or 1024
        for index in range(SECONDS * RATE):
            level = 255 if index == round(FLASH * RATE) else 10
            frame = av.VideoFrame.from_ndarray(np.full((32, 48, 3), level, np.uint8), format="bgr24")
            frame.pts, frame.time_base = index + round(delay * RATE), Fraction(1, RATE)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        for start in range(0, len(sound) - size, size):
            block = (sound[start : start + size] * 32767).astype(np.int16)
            frame = av.AudioFrame.from_ndarray(block[None], format="s16", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = rate, None, Fraction(1, rate)
            for part in resampler.resample(frame):
                part.pts, part.time_base = start + round(delay * rate), Fraction(1, rate)
                container.mux(audio.encode(part))
        container.mux(audio.encode(None))
    return path


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
    """Return the time of the bright frame and of the last one."""
    with av.open(str(path)) as container:
        seen = [(frame.time, frame.to_ndarray(format="gray").max()) for frame in container.decode(video=0)]
    return next(time for time, level in seen if level > 200), seen[-1][0]


def sounds(path):
    with av.open(str(path)) as container:
        return bool(container.streams.audio)


def take(source, sink, first=0.0, last=SECONDS):
    with open_source(source) as frames, sink:
        for frame in frames:
            if first <= frame.time <= last:
                sink.write(frame, separate(frame.image))


@pytest.mark.parametrize(
    ("codec", "suffix", "target", "expected"),
    [
        ("aac", "mp4", "mp4", "aac"),
        ("aac", "mp4", "mkv", "aac"),
        ("aac", "mp4", "avi", "aac"),
        ("aac", "mp4", "webm", "opus"),
        ("pcm_s16le", "mkv", "mp4", "aac"),
        ("pcm_s16le", "avi", "mov", "pcm_s16le"),
        ("libmp3lame", "mkv", "m4v", "mp3"),
        ("libopus", "mkv", "webm", "opus"),
        ("libopus", "mkv", "mov", "aac"),
    ],
)
def test_flash_and_beep_stay_together(tmp_path, codec, suffix, target, expected):
    source = write_flash(tmp_path / f"in.{suffix}", codec)
    for first, last in ((0, SECONDS), (1.6, 3.0)):
        sink = VideoSink(tmp_path / f"foreground.{target}", "foreground", RATE, audio_from=source)
        take(source, sink, first, last)
        name, begin, end, heard = listen(sink.path)
        flash, seen = look(sink.path)
        assert name == expected
        assert flash == pytest.approx(FLASH - first, abs=0.002)
        assert begin == pytest.approx(flash, abs=0.02)
        assert end - begin == pytest.approx(0.04, abs=0.01)
        assert heard == pytest.approx(min(last, SECONDS) - first, abs=0.08)
        assert seen <= last - first


@pytest.mark.parametrize(
    ("target", "rate", "written"),
    [("mp4", SAMPLES, SAMPLES), ("webm", SAMPLES, SAMPLES), ("mp4", 192_000, 96_000), ("mp4", 5_000, 7_350)],
)
def test_encoded_sound_is_complete_at_a_rate_of_the_encoder(tmp_path, target, rate, written):
    source = write_flash(tmp_path / "in.avi", "pcm_s16le", rate=rate)
    with av.open(str(source)) as container:
        samples = sum(frame.samples for frame in container.decode(audio=0))
    sink = VideoSink(tmp_path / f"foreground.{target}", "foreground", RATE, audio_from=source)
    take(source, sink)
    with av.open(str(sink.path)) as container:
        assert container.streams.audio[0].codec_context.sample_rate == written
    *_, end = listen(sink.path)
    assert end >= (samples - 1) / rate - 0.001


@pytest.mark.parametrize("suffix", ["mkv", "ts"])
def test_a_file_whose_clock_does_not_begin_at_zero(tmp_path, suffix):
    source = write_flash(tmp_path / f"in.{suffix}", delay=2.0)
    sink = VideoSink(tmp_path / "foreground.mkv", "foreground", RATE, audio_from=source)
    take(source, sink, 2.0)
    flash, _ = look(sink.path)
    _, begin, _, _ = listen(sink.path)
    assert flash == pytest.approx(FLASH - 2.0, abs=0.002)
    assert begin == pytest.approx(flash, abs=0.02)


def test_a_resumed_video_has_the_same_sound(tmp_path):
    source = write_flash(tmp_path / "in.mp4")
    whole, checked, resumed = (
        VideoSink(tmp_path / name / "foreground.mp4", "foreground", RATE, audio_from=source)
        for name in ("whole", "checked", "checked")
    )
    resumed.resume(checked.checkpoint())
    for sink in (whole, resumed):
        take(source, sink)
    assert content(tmp_path / "whole") == content(tmp_path / "checked")
    assert listen(tmp_path / "checked" / "foreground.mp4")[0] == "aac"


def test_sound_that_cannot_be_written_is_a_warning(tmp_path, frames, caplog):
    silent, text = tmp_path / "silent.mkv", tmp_path / "text.mp4"
    with VideoSink(silent) as sink:
        sink.write(Frame(0, "a", 0.0, frames[0]), separate(frames[0]))
    text.write_text("no video")
    opus = write_flash(tmp_path / "opus.mkv", "libopus")
    reasons = [
        (silent, "mkv", "it has none"),
        (text, "mkv", "Invalid data"),
        (tmp_path / "missing.mp4", "mkv", "No such file"),
        (opus, "avi", "the file cannot hold opus"),
    ]
    for source, suffix, reason in reasons:
        caplog.clear()
        sink = VideoSink(tmp_path / f"out.{suffix}", "panel", audio_from=source)
        with caplog.at_level(logging.WARNING, "bgsub"):
            fed(sink, frames)
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith(f"no sound of '{source}' in the video: ")
        assert reason in caplog.messages[0]
        with av.open(str(sink.path)) as container:
            assert not container.streams.audio
            assert len(list(container.decode(video=0))) == len(frames)


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


def test_sources_without_sound(tmp_path, frames, caplog):
    write_images(tmp_path / "in", frames)
    with open_source(tmp_path / "in", fps=10) as source:
        for opened in (source, FakeSource()):
            for sink in create_sinks(tmp_path / "out", ["panel.mp4"], opened):
                sink.write(Frame(0, "a", 0.0, frames[0]), separate(frames[0]))
                sink.close()
    assert caplog.messages == []
