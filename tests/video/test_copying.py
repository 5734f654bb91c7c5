"""Copied parts of video files: the same packets from the previous keyframe on, with their sound."""

from __future__ import annotations

import av
import numpy as np
import pytest
from av_files import film, write_av
from test_sinks_audio import FLASH, listen, look, write_flash
from video_fakes import separate

from bgsub.errors import SinkError
from bgsub.video import open_source
from bgsub.video.sinks.copying import CopySink, PacketCopy, ending_of_copy

COUNT, GROUP = 100, 20


def copy(path, target, first, last):
    """Copy frames `first` to `last` by index; return the frames of the source and when the copy begins."""
    with open_source(path) as source, CopySink(target, source.files) as sink:
        frames = list(source)
        for frame in frames[first : last + 1]:
            sink.write(frame, separate(frame.image))
    return frames, sink.start


def packets(path):
    with av.open(str(path)) as file:
        return [(bytes(packet), packet.is_keyframe) for packet in file.demux(video=0) if packet.size]


@pytest.mark.parametrize(
    ("ending", "bf", "first", "last"),
    [
        (".mp4", "0", 50, 69),
        (".mp4", "2", 40, 40),
        (".mp4", "2", 95, 99),
        (".mkv", "2", 50, 69),
        (".mov", "0", 95, 99),
    ],
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
    with open_source(target) as source:
        got = list(source)
    # With B-frames, the clip ends with their group.
    assert last - begin + 1 <= len(got) <= last - begin + 1 + (0 if bf == "0" else 5)
    for one, other in zip(got, frames[begin:], strict=False):
        assert one.time == pytest.approx(other.time - start, abs=1e-3)
        np.testing.assert_array_equal(one.image, other.image)


@pytest.mark.parametrize(
    ("codec", "suffix", "delay"),
    [("aac", "mp4", 0.0), ("aac", "mkv", 0.8), ("pcm_s16le", "mov", 0.8), ("libopus", "mkv", 0.0)],
)
def test_flash_and_beep_stay_together(tmp_path, codec, suffix, delay):
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


@pytest.mark.skipif(not hasattr(av.VideoStream, "set_display_rotation"), reason="this PyAV writes no rotation")
def test_the_rotation_is_kept(tmp_path):
    path = write_av(tmp_path / "in.mp4", film(50), rotation=90, g="20")
    frames, start = copy(path, tmp_path / "clip.mp4", 25, 40)
    with open_source(tmp_path / "clip.mp4") as source:
        np.testing.assert_array_equal(next(iter(source)).image, frames[round(start * 25)].image)


@pytest.mark.parametrize("ending", [".mp4", ".mkv"])
def test_times_of_a_variable_rate_are_kept(tmp_path, ending):
    stamps = np.cumsum(np.random.default_rng(4).integers(20, 200, 60)).tolist()
    path = write_av(tmp_path / f"in{ending}", film(60), [stamp - stamps[0] for stamp in stamps], g="10")
    frames, start = copy(path, target := tmp_path / f"clip{ending}", 27, 45)
    with open_source(target) as source:
        times = [frame.time + start for frame in source]
    begin = next(i for i, frame in enumerate(frames) if frame.time == pytest.approx(start, abs=1e-6))
    np.testing.assert_allclose(times, [frame.time for frame in frames[begin : begin + len(times)]], atol=1.1e-3)
    assert frames[27].time >= start
    assert times[-1] >= frames[45].time - 1.1e-3


def test_a_clip_of_several_files(tmp_path):
    images = film(COUNT)
    paths = [tmp_path / name for name in ("a.mp4", "b.mp4", "c.mp4")]
    for path, part in zip(paths, np.split(images, [40, 60]), strict=True):
        write_av(path, part, g="20", sound=True)
    with open_source(paths) as source, CopySink(tmp_path / "clip.mp4", source.files) as sink:
        frames = list(source)
        for frame in frames[35:71]:
            sink.write(frame, separate(frame.image))
    begin = round(sink.start * 25)
    with open_source(tmp_path / "clip.mp4") as source:
        got = list(source)
    assert begin <= 35
    assert begin + len(got) >= 71
    for one, other in zip(got, frames[begin:], strict=False):
        assert one.time == pytest.approx(other.time - sink.start, abs=1e-6)
        np.testing.assert_array_equal(one.image, other.image)


@pytest.mark.parametrize(("name", "ending"), [("in.mp4", ".mp4"), ("in.MOV", ".mov"), ("in.ts", ".mkv")])
def test_the_container_is_that_of_the_source_if_possible(tmp_path, name, ending):
    path = write_av(tmp_path / name, film(30), sound=True, g="10")
    assert ending_of_copy(path) == ending
    frames, start = copy(path, tmp_path / f"clip{ending}", 15, 29)
    with open_source(tmp_path / f"clip{ending}") as source:
        got = list(source)
    assert len(got) == 30 - round(start * 25)
    np.testing.assert_array_equal(got[-1].image, frames[-1].image)


def test_no_clip_without_frames_after_an_abort_and_after_errors(tmp_path, monkeypatch):
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

    def full(*_):
        raise OSError(28, "No space left on device")

    words = f"'{target}' cannot be copied out of '{path}'"
    with monkeypatch.context() as patch:
        patch.setattr(PacketCopy, "_mux", full)
        with pytest.raises(SinkError, match=f"^{words}: No space left on device$"):
            copy(path, target, 0, 9)
    assert sorted(tmp_path.iterdir()) == [path]
    path.unlink()
    with pytest.raises(SinkError, match=f"^{words}: No such file or directory$"):
        late.close()
    assert list(tmp_path.iterdir()) == []
