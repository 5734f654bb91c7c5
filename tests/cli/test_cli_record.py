"""Clips of motion by ``run``, ``batch`` and ``live``: contents and times against what is known of synthetic films."""

from __future__ import annotations

import csv
import re
import shutil
import signal
from pathlib import Path

import av
import numpy as np
import pytest
from av_files import write_av

from bgsub.video import open_source
from bgsub.video.sinks.copying import PacketCopy
from bgsub.video.sinks.create import label_of
from bgsub.video.sources.camera import CameraSource

RATE, GROUP = 10, 20  # frames a second, frames from keyframe to keyframe
SHAPE = (96, 128, 3)
QUICK = ("--start-frames", 20)
TIGHT = ("--pre-roll", 0.5, "--post-roll", 0.5, "--event-gap", 1)
LOST = 0.35  # seconds: an object may be seen some frames late or longer


def scene(spans, first=0, count=200):
    """A still picture with noise; something crosses it during `spans`, in seconds. Returns frames from `first` on."""
    still = np.kron(np.random.default_rng(1).integers(60, 160, (12, 16, 3)), np.ones((8, 8, 1))).astype(np.uint8)
    frames = np.empty((count, *SHAPE), np.uint8)
    for index, frame in enumerate(frames, first):
        frame[...] = still + np.random.default_rng(index).integers(0, 6, SHAPE, dtype=np.uint8)
        if any(start <= index / RATE < end for start, end in spans):
            left = 4 * index % 100
            frame[30:70, left : left + 20] = 20, 230, 240
    return frames


def write(path, spans, first=0, count=200, **options):
    stamps = [1000 * index // RATE for index in range(count)]
    options = {"g": str(GROUP), "sc_threshold": "0", **options}
    return write_av(path, scene(spans, first, count), stamps, fps=RATE, **options)


SPANS = ((6, 8), (12, 14), (16.5, 17.5))


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """``plain.mp4`` with three moments; ``cam-1.mp4`` to ``cam-3.mp4`` with one over the first border."""
    folder = tmp_path_factory.mktemp("films")
    write(folder / "plain.mp4", SPANS, sound=20)
    for number in range(3):
        write(folder / f"cam-{number + 1}.mp4", ((17, 22), (45, 47)), 200 * number, sound=20)
    return folder


@pytest.fixture
def plain(films):
    return films / "plain.mp4"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(folder):
    return list(csv.DictReader((Path(folder) / "clips.csv").open()))


def spans_of(folder):
    return [(float(row["start"]), float(row["end"])) for row in rows(folder)]


def near(spans, rolls=0.5):
    """What the clips of moments must be, not counting keyframes."""
    return [(pytest.approx(start - rolls, abs=LOST), pytest.approx(end + rolls, abs=LOST)) for start, end in spans]


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def test_clips_of_a_file_are_copied_and_nothing_else_is_written(cli, place, plain):
    answer = cli("run", plain, "--record", "clips", *TIGHT, *QUICK).clean()
    assert answer.out.endswith("; 3 clips; wrote clips\n")
    assert names(place) == ["clips"]
    assert names("clips") == ["clips.csv", *(f"plain-000{n}.{end}" for n in (1, 2, 3) for end in ("jpg", "mp4"))]
    for row, (start, end) in zip(rows("clips"), SPANS, strict=True):
        # It begins at the keyframe before, every 2 s.
        assert float(row["start"]) == pytest.approx((start - 0.5) // 2 * 2)
        assert float(row["end"]) == pytest.approx(end + 0.5, abs=LOST)
        assert (row["source"], row["source_time"], row["thumbnail"][-4:]) == ("plain.mp4", row["start_time"], ".jpg")
        with open_source(Path("clips", row["file"])) as clip, open_source(plain) as source:
            assert clip.has_audio
            frames = list(source)
            begin = round(float(row["start"]) * RATE)
            for one, other in zip(clip, frames[begin:], strict=False):
                np.testing.assert_array_equal(one.image, other.image)
                assert one.time == pytest.approx(other.time - float(row["start"]), abs=1e-6)
    assert rows("clips")[1]["start_time"] == "00:00:10.000"


def test_what_is_encoded_keeps_the_sound(cli, place, plain):
    cli("run", plain, "--record", "clips", "--privacy", "0,0,20,20", *TIGHT, *QUICK).clean()
    assert spans_of("clips") == near(SPANS)
    for row, (start, end) in zip(rows("clips"), spans_of("clips"), strict=True):
        with av.open(str(Path("clips", row["file"]))) as clip:
            sound = clip.streams.audio[0]
            assert float(sound.duration * sound.time_base) == pytest.approx(end - start, abs=0.3)
        with open_source(Path("clips", row["file"])) as clip:
            assert not next(iter(clip)).image[2:16, 2:16].max() > 24


@pytest.mark.parametrize("ending", [".mkv", ".mov", ".ts"])
def test_other_containers(cli, place, ending):
    path = write(place / f"in{ending}", ((5, 7),), count=100, sound=True)
    cli("run", path, "--record", "clips", *TIGHT, *QUICK).clean()
    (row,) = rows("clips")
    assert row["file"] == ("in-0001.mkv" if ending == ".ts" else f"in-0001{ending}")
    assert float(row["start"]) == pytest.approx(4.0)


def test_a_variable_rate(cli, place):
    stamps = np.cumsum(np.random.default_rng(5).integers(60, 160, 200))
    stamps -= stamps[0]
    path = write_av(place / "in.mp4", scene(((8, 12),)), stamps.tolist(), fps=RATE, g=str(GROUP), sc_threshold="0")
    cli("run", path, "--record", "clips", *TIGHT, *QUICK).clean()
    ((start, end),) = spans_of("clips")
    seconds = stamps / 1000
    assert start == pytest.approx(seconds[(np.searchsorted(seconds, seconds[80] - 0.5)) // GROUP * GROUP], abs=2e-3)
    assert end == pytest.approx(seconds[119] + 0.5, abs=LOST)


def test_motion_over_the_border_of_two_files_is_one_clip(cli, place, films):
    answer = cli("run", *(films / f"cam-{n}.mp4" for n in (1, 2, 3)), "--record", "clips", *TIGHT, *QUICK).clean()
    assert "3 videos '" in answer.out
    assert names("clips") == ["cam-0001.jpg", "cam-0001.mp4", "cam-0002.jpg", "cam-0002.mp4", "clips.csv"]
    first, second = rows("clips")
    assert (first["start"], first["source"], first["source_time"]) == ("16.000", "cam-1.mp4", "00:00:16.000")
    assert float(first["end"]) == pytest.approx(22.5, abs=LOST)
    assert (second["start"], second["source"], second["source_time"]) == ("44.000", "cam-3.mp4", "00:00:04.000")
    with open_source(Path("clips", "cam-0001.mp4")) as clip:
        frames = list(clip)
        assert clip.has_audio
    assert [frame.time for frame in frames] == pytest.approx([index / RATE for index in range(len(frames))], abs=1e-6)
    assert len(frames) >= round((float(first["end"]) - 16) * RATE) + 1
    with open_source(films / "cam-2.mp4") as source:
        np.testing.assert_array_equal(frames[40].image, next(iter(source)).image)


def test_files_that_were_encoded_differently_are_not_copied(cli, place, films):
    other = write(place / "cam-2.mp4", ((17, 22),), 200, bf="0", sound=20)
    cli("run", films / "cam-1.mp4", other, "--record", "clips", *TIGHT, *QUICK).clean()
    assert spans_of("clips") == near(((17, 22),))


def test_length_gap_and_longest_clip(cli, place, plain):
    def clips(*words):
        shutil.rmtree("clips", ignore_errors=True)
        answer = cli("run", plain, "--record", "clips", "--pre-roll", 0.5, "--post-roll", 0.5, *words, *QUICK).ok()
        return spans_of("clips") or answer.err

    # Only the last moment is shorter than 1.6 s.
    assert len(clips("--event-gap", 1, "--min-event-length", 1.6)) == 2
    # 2.5 s lie between the last two, 4 s between the first two.
    assert len(clips("--event-gap", 3)) == 2
    assert len(clips("--event-gap", 5)) == 1
    told = clips("--motion-threshold", 0.9)
    assert re.fullmatch(r"bgsub: no clip: at most [56].\d % of a frame was foreground, .* motion threshold\n", told)
    split = clips("--event-gap", 1, "--max-clip-length", 1)
    assert len(split) == 3 + 3 + 2
    assert all(end - start <= 1 + GROUP / RATE for start, end in split)


def test_nothing_moves(cli, place):
    path = write(place / "still.mp4", (), count=60)
    answer = cli("run", path, "--record", "clips", *QUICK).clean()
    assert answer.out.endswith("; no motion, no clip; wrote clips\n")
    assert names("clips") == ["clips.csv"]
    assert rows("clips") == []


def test_what_is_asked_for_is_written_beside_the_clips(cli, place, plain):
    cli("run", plain, "-o", "out", "--record", "clips", "--save", "mask", "--event-formats", "csv", *QUICK).clean()
    assert names("out") == ["events.csv", "mask.mkv"]
    assert len(rows("clips")) == 1


def test_what_stops_early_leaves_its_clip(cli, place, plain, signal_after):
    signal_after(70, signal.SIGINT)
    answer = cli("run", plain, "--record", "clips", *TIGHT, *QUICK)
    assert answer.code == 130
    assert answer.err.endswith(": stopped after 70 frames; the outputs end there\n")
    assert names(place) == ["clips"]
    ((start, end),) = spans_of("clips")
    assert (start, end) == (4.0, pytest.approx(6.9))


def test_the_output_folder_is_needed_for_anything_else(cli, place, plain):
    for words in ((), ("--save", "mask"), ("--event-formats", "csv")):
        recording = () if not words else ("--record", "clips")
        cli("run", plain, *recording, *words).refused_with("Missing option '-o' / '--output'")
    cli("track", plain, "--record", "clips").refused_with("Missing option '-o' / '--output'")
    assert names(place) == []


def test_a_batch_records_into_the_folder_of_each_file(cli, place, films, serial):
    shutil.copy(films / "plain.mp4", place / "one.mp4")
    shutil.copy(films / "cam-1.mp4", place / "two.mp4")
    cli("batch", "one.mp4", "two.mp4", "-o", "out", "--record", "clips", *TIGHT, *QUICK).ok()
    assert names("out/one") == names("out/two") == ["clips", "result.json"]
    assert len(rows("out/one/clips")) == 3
    assert len(rows("out/two/clips")) == 1
    again = cli("batch", "one.mp4", "two.mp4", "-o", "out", "--record", "clips", *TIGHT, *QUICK).ok()
    assert again.out.startswith("0 done, 0 failed, 2 done before")
    for name in ("a/clips", "/clips", "."):
        answer = cli("batch", "one.mp4", "-o", "new", "--record", name)
        answer.refused(f"--record takes the name of a folder without a folder here, got '{Path(name)}'")


def test_live_records_the_same_clips(cli, place, plain):
    cli("live", plain, "--fast", "--no-window", "--record", "live", *TIGHT, *QUICK).clean()
    cli("run", plain, "--record", "run", *TIGHT, *QUICK).clean()
    assert rows("live") == rows("run")
    assert names("live") == names("run")
    assert names(place) == ["live", "run"]


def test_two_cameras_have_a_folder_each(cli, place, films):
    sources = (films / "plain.mp4", films / "cam-1.mp4")
    cli("live", *sources, "--fast", "--no-window", "--record", "clips", *TIGHT, *QUICK).clean()
    assert [len(rows(path)) for path in sorted(Path("clips").iterdir())] == [1, 3]


def test_a_folder_that_cannot_be_written(cli, place, plain):
    Path("clips").write_text("a file")
    cli("run", plain, "--record", "clips/below").refused_with("cannot write into folder 'clips/below': ")


def test_a_full_disk_ends_the_run_in_one_line(cli, place, plain, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PacketCopy, "_mux", full)
    answer = cli("run", plain, "--record", "clips", *TIGHT, *QUICK)
    message = f"'clips/plain-0001.mp4' cannot be copied out of '{plain}': No space left on device"
    answer.refused(message, code=1)
    assert names("clips") == []


def test_files_of_different_sizes(cli, place, plain):
    small = write_av(place / "small.mp4", scene(())[:5, :48, :64])
    message = f"files in a row need frames of one size: video '{small}' has 64x48, before it 128x96"
    cli("run", plain, small, "--record", "clips").refused(message)
    assert names(place) == ["small.mp4"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--pre-roll", "1"), "--pre-roll needs --record"),
        (("--motion-threshold", "0.1"), "--motion-threshold needs --record, --on-event, --webhook or --snapshots"),
        (("--event-gap", "1"), "--event-gap needs --record, --on-event, --webhook or --snapshots"),
        (("--record", "c", "--resume"), "clips of motion cannot be resumed: use either record or resume"),
    ],
)
def test_what_does_not_go_together(cli, place, plain, words, message):
    cli("run", plain, "-o", "out", *words).refused(message)


@pytest.mark.parametrize("words", [("--post-roll", "-1"), ("--max-clip-length", "0"), ("--motion-threshold", "2")])
def test_numbers_out_of_range(cli, place, plain, words):
    cli("run", plain, "--record", "c", *words).refused_with(f"Invalid value for '{words[0]}'")


def test_names_of_clips(folder, mjpeg_server):
    assert label_of(open_source(folder)) == "frames"
    with CameraSource(mjpeg_server.address) as source:
        assert label_of(source) == mjpeg_server.address.removeprefix("http://")
    source.name = "camera 0"
    assert label_of(source) == "camera 0"


def test_every_few_frames_are_enough_to_find_the_clips(cli, place, plain):
    cli("run", plain, "--record", "clips", "--every", 3, "--start", 1.0, *TIGHT, "--start-frames", 10).clean()
    assert [round(float(row["start"])) for row in rows("clips")] == [4, 10, 16]
    with open_source(Path("clips", rows("clips")[0]["file"])) as clip:
        assert sum(1 for _ in clip) >= 45
