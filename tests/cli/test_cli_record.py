"""Clips of motion by ``run``, ``batch`` and ``live``: contents and times of synthetic films."""

import json
import shutil
from pathlib import Path

import av
import numpy as np
import pytest
from av_files import write_av
from cli_inputs import names
from video_fakes import read_table, write_images

from bgsub.jobs import batch
from bgsub.jobs.batch import BatchResult
from bgsub.video import open_source

RATE, GROUP = 10, 20  # frames per second, frames between keyframes
SHAPE, QUICK = (96, 128, 3), ("--start-frames", 20)
TIGHT = ("--pre-roll", 0.5, "--post-roll", 0.5, "--event-gap", 1)
CLIPS = Path("clips", "clips.csv")
LATE = 0.35  # seconds: detection may start or end some frames late


def scene(spans, first=0, count=200):
    """Frames of a still picture with noise; an object crosses it during `spans`, in seconds."""
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
    """``plain.mp4``, ``exact.mp4``: three moments; ``cam-1.mp4`` to ``cam-3.mp4``: one across the first border."""
    folder = tmp_path_factory.mktemp("films")
    write(folder / "plain.mp4", SPANS, sound=20)
    write(folder / "exact.mp4", SPANS, pix_fmt="yuv444p", qp="0")  # without the blur of compression
    for number in range(3):
        write(folder / f"cam-{number + 1}.mp4", ((17, 22), (45, 47)), 200 * number, sound=20)
    return folder


@pytest.fixture
def plain(films):
    return films / "plain.mp4"


def spans():
    return [(float(row["start"]), float(row["end"])) for row in read_table(CLIPS)]


def test_clips_are_copied_without_other_outputs(cli, here, plain):
    answer = cli("run", plain, "--record", "clips", *TIGHT, *QUICK).clean()
    assert answer.out.endswith("; 3 motion events; 3 clips; wrote clips\n")
    table = [line.split() for line in answer.out.splitlines()[:4]]
    assert table[0] == ["#", "start", "end", "length", "peak", "box", "clip", "picture"]
    assert [row[-2:] for row in table[1:]] == [[f"plain-000{n}.mp4", f"plain-000{n}.jpg"] for n in (1, 2, 3)]
    assert names(here) == ["clips"]
    assert names("clips") == ["clips.csv", *(f"plain-000{n}.{end}" for n in (1, 2, 3) for end in ("jpg", "mp4"))]
    for row, (start, end) in zip(read_table(CLIPS), SPANS, strict=True):
        # A copied clip begins at a keyframe; there is one every 2 s.
        assert float(row["start"]) == pytest.approx((start - 0.5) // 2 * 2)
        assert float(row["end"]) == pytest.approx(end + 0.5, abs=LATE)
        assert (row["source"], row["source_time"], row["thumbnail"][-4:]) == ("plain.mp4", row["start_time"], ".jpg")
        with open_source(Path("clips", row["file"])) as clip, open_source(plain) as source:
            assert clip.has_audio
            frames = list(source)
            for one, other in zip(clip, frames[round(float(row["start"]) * RATE) :], strict=False):
                np.testing.assert_array_equal(one.image, other.image)
                assert one.time == pytest.approx(other.time - float(row["start"]), abs=1e-6)
    assert read_table(CLIPS)[1]["start_time"] == "00:00:10.000"


def test_encoded_clips_keep_the_sound(cli, here, plain):
    cli("run", plain, "--record", "clips", "--privacy", "0,0,20,20", *TIGHT, *QUICK).clean()
    assert spans() == [(pytest.approx(a - 0.5, abs=LATE), pytest.approx(b + 0.5, abs=LATE)) for a, b in SPANS]
    for row, (start, end) in zip(read_table(CLIPS), spans(), strict=True):
        with av.open(str(Path("clips", row["file"]))) as clip:
            sound = clip.streams.audio[0]
            assert float(sound.duration * sound.time_base) == pytest.approx(end - start, abs=0.3)
        with open_source(Path("clips", row["file"])) as clip:
            assert next(iter(clip)).image[2:16, 2:16].max() <= 24


@pytest.mark.slow
def test_motion_across_two_files_is_one_clip(cli, here, films):
    answer = cli("run", *(films / f"cam-{n}.mp4" for n in (1, 2, 3)), "--record", "clips", *TIGHT, *QUICK).clean()
    assert "3 videos '" in answer.out
    assert names("clips") == ["cam-0001.jpg", "cam-0001.mp4", "cam-0002.jpg", "cam-0002.mp4", "clips.csv"]
    first, second = read_table(CLIPS)
    assert (first["start"], first["source"], first["source_time"]) == ("16.000", "cam-1.mp4", "00:00:16.000")
    assert float(first["end"]) == pytest.approx(22.5, abs=LATE)
    assert (second["start"], second["source"], second["source_time"]) == ("44.000", "cam-3.mp4", "00:00:04.000")
    with open_source(Path("clips", "cam-0001.mp4")) as clip:
        frames = list(clip)
        assert clip.has_audio
    assert [frame.time for frame in frames] == pytest.approx([index / RATE for index in range(len(frames))], abs=1e-6)
    assert len(frames) >= round((float(first["end"]) - 16) * RATE) + 1
    with open_source(films / "cam-2.mp4") as source:
        np.testing.assert_array_equal(frames[40].image, next(iter(source)).image)


@pytest.mark.slow
def test_batch_records_into_the_folder_of_each_file(cli, here, films, serial):
    shutil.copy(films / "plain.mp4", here / "one.mp4")
    shutil.copy(films / "cam-1.mp4", here / "two.mp4")
    cli("batch", "one.mp4", "two.mp4", "-o", "out", "--record", "clips", *TIGHT, *QUICK).ok()
    assert names("out/one") == names("out/two") == ["clips", "result.json"]
    assert [len(read_table(Path("out", name, CLIPS))) for name in ("one", "two")] == [3, 1]
    again = cli("batch", "one.mp4", "two.mp4", "-o", "out", "--record", "clips", *TIGHT, *QUICK).ok()
    assert again.out.startswith("0 done, 0 failed, 2 done before")


SCAN = ("--event-gap", 1, *QUICK)


def test_scan_lists_motion_and_writes_nothing(cli, here, films):
    lines = cli("scan", films / "exact.mp4", *SCAN).clean().out.splitlines()
    assert lines[0].split() == ["#", "start", "end", "length", "peak", "box"]
    assert lines[-1].endswith("; 3 motion events")
    assert ([line.split()[0] for line in lines[1:-1]], names(here)) == (["1", "2", "3"], [])
    listed = json.loads(cli("scan", films / "exact.mp4", "--json", *SCAN).clean().out)["motion"]
    for row, (start, end) in zip(listed, SPANS, strict=True):
        assert (row["start"], row["end"]) == (pytest.approx(start, abs=LATE), pytest.approx(end, abs=LATE))
        assert row["length"] == pytest.approx(row["end"] - row["start"])
        _, y, w, h = row["box"]
        assert (y, h, w) == (pytest.approx(30, abs=1), pytest.approx(40, abs=1), pytest.approx(20, abs=1))
        assert row["peak_share"] == pytest.approx(20 * 40 / (96 * 128), rel=0.15)
        assert (row["source"], row["clip"], row["picture"]) == ("exact.mp4", None, None)


def test_scan_of_a_region_of_which_motion_is_a_share(cli, here, plain):
    """The object, 6 % of the frame, fills the region for a moment in two of its three walks."""
    words = ("scan", plain, "--roi", "gate=40,30,20,40", "--csv", "motion.csv", *SCAN, "--min-event-length", 0)
    assert "; 2 motion events" in cli(*words, "--motion-threshold", "60%").clean().out
    first, *others = read_table(Path("motion.csv"))
    assert (first["regions"], len(others), float(first["peak_share"]) > 0.8) == ("gate", 1, True)
    assert float(first["x"]) >= 40
    assert "; no motion" in cli(*words, "--motion-threshold", "gate=100%", "--motion-threshold", 0).clean().out
    cli(*words, "--motion-threshold", "gat=2%").refused("is for a region: gate; got 'gat'; did you mean 'gate'?")


def test_scan_ends_after_some_events(cli, here, plain, monkeypatch):
    answer = cli("scan", plain, "--max-events", 2, "--snapshots", "pictures", *SCAN).clean()
    assert "; 2 motion events; stopped by --max-events; wrote pictures\n" in answer.out
    assert len(answer.out.splitlines()) == 4
    assert names("pictures") == ["plain-snapshot-0001.jpg", "plain-snapshot-0002.jpg"]
    monkeypatch.setenv("BGSUB_MOTION_THRESHOLD", "100%")
    answer = cli("scan", plain, "--snapshots", "others", *SCAN).ok()
    assert "; no motion\n" in answer.out
    assert not (here / "others").exists()


@pytest.mark.slow
def test_scan_of_several_files_names_them(cli, here, films):
    answer = cli("scan", *(films / f"cam-{n}.mp4" for n in (1, 2, 3)), *SCAN).clean()
    first, second = answer.out.splitlines()[1:3]
    assert "cam-1.mp4 00:00:1" in first
    assert "cam-3.mp4 00:00:0" in second
    write_images(here / "images", list(scene(SPANS)))
    assert "  frame 6" in cli("scan", "images", "--event-gap", 0.5, *QUICK).clean().out


def test_search_and_overview_of_results(cli, here, plain):
    words = ("--record", "out/clips", "-o", "out", "--event-formats", "jsonl,pictures", *TIGHT, *QUICK)
    cli("run", plain, *words).clean()
    answer = cli("overview", "out", "--title", "Film").clean()
    page, objects = Path("out/overview.html").read_text(), Path("out/events.jsonl").read_text().count('"object"')
    assert objects >= 3  # one jumps back to the left
    assert answer.out == f"{3 + objects} events; wrote out/overview.html\n"
    assert (page.count('"kind":"object"'), page.count('"kind":"clip"')) == (objects, 3)
    assert page.count('"picture":"objects/00000') == objects
    found = cli("search", "out", "--region", "gate=40,0,20,96", "--csv", "found.csv").clean()
    assert found.out.splitlines()[-1].startswith("out: ")
    listed = read_table(Path("found.csv"))
    assert len(listed) == len(found.out.splitlines()) - 2 >= 2
    assert ({row["regions"] for row in listed}, float(listed[0]["start"])) == ({"gate"}, pytest.approx(6, abs=0.5))
    later = json.loads(cli("search", "out", "--region", "gate=40,0,20,96", "--from", "10s", "--json").clean().out)
    assert [row["start"] for row in later] == [float(row["start"]) for row in listed if float(row["end"]) >= 10]
    assert cli("search", "out", "--region", "0,0,5,5").clean().out == "out: nothing in region1\n"


@pytest.mark.parametrize("overwrite", [True, False])
def test_the_overview_of_results_that_a_batch_replaces_is_removed(cli, here, monkeypatch, overwrite):
    page = here / "out" / "overview.html"
    page.parent.mkdir()
    page.write_text("old")

    def fake(_patterns, output, *, started, **_options):
        started(1, 0)
        assert page.exists() != overwrite
        return BatchResult(output)

    monkeypatch.setattr(batch, "run_batch", fake, raising=False)
    cli("batch", "*.avi", "-o", "out", *(["--overwrite"] if overwrite else [])).clean()


def test_ignored_regions_and_object_limits(cli, here, plain):
    """The object walks in rows 30 to 70."""
    words = ("--event-formats", "csv", "--overwrite", *QUICK)
    counts = []
    for more in ((), ("--ignore", "0,25,100%,50"), ("--max-object-height", "30%"), ("--max-object-area", "20%")):
        cli("run", plain, "-o", "out", "--save", "background-image", *words, *more).clean()
        counts.append(len(Path("out/events.csv").read_text().splitlines()) - 1)
    assert counts[1:3] == [0, 0]
    assert counts[3] == counts[0] >= 3


def test_presets_are_settings_that_options_override(cli, here, plain, monkeypatch):
    def count(*options):
        return len(json.loads(cli("scan", plain, "--preset", "calm", "--json", *options, *SCAN).ok().out)["motion"])

    assert count() < 3  # the last one is shorter than a second
    assert count("--motion-threshold", "0.1%", "--min-event-length", 0) == 3
    cli("run", plain, "-o", "out", "--preset", "calm", *QUICK).clean()  # has no motion
    monkeypatch.setenv("BGSUB_MIN_EVENT_LENGTH", "0")
    assert count() == 3
