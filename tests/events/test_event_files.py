"""Files of events."""

import json
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from event_scenes import RATE, SHAPE, busy, close, mask_of, pairs, together, walk, write
from video_fakes import read_table

from bgsub.errors import ParameterError, SinkError
from bgsub.events import AnnotatingSink, EventFeed, EventSink, MotionRules, ObjectLinker
from bgsub.events._state import dump, load
from bgsub.jobs.outputs import create_event_sinks
from bgsub.video import ImageSequenceSink
from bgsub.video.output_names import EVENT_FORMATS
from bgsub.video.regions import Regions
from bgsub.video.sources.images import ArraySource

ALL = Regions(["all=0,0,100%,100%"])
BACK_AND_FORTH = walk((0, 4), (2, 0), 40) + walk((80, 4), (-2, 0), 40)


def run(folder, frames, fps=RATE, events=None, **options):
    with EventSink(folder, **options) as sink:
        write(pairs(frames, fps, events), sink)
    return folder


def test_csv(tmp_path):
    run(tmp_path, together(walk((0, 10), (3, 0), 20)), events={6: "light-change", 7: "light-change", 9: "covered"})
    rows = read_table(tmp_path / "events.csv")
    assert [(row["type"], row["id"], row["start_frame"], row["end_frame"]) for row in rows] == [
        ("light-change", "", "6", "7"), ("covered", "", "9", "9"), ("object", "1", "0", "19"),
    ]  # fmt: skip
    names = ("start_time", "end_time", "peak_area", "peak_frame", "peak_x", "peak_w", "frames")
    assert [rows[2][name] for name in names] == ["0.000", "0.760", "96", "0", "0", "8", "20"]
    assert rows[0]["peak_area"] == ""


def test_json_lines(tmp_path):
    boxes = walk((0, 10), (3, 1), 20)
    run(tmp_path, together(boxes), regions=ALL)
    (event,) = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert (event["track"]["frame"], event["track"]["box"]) == (list(range(20)), [list(box) for box in boxes])
    assert (event["track"]["area"], event["track"]["time"]) == ([96] * 20, [frame / RATE for frame in range(20)])
    assert event["track"]["centroid"][1] == [6.5, 16.5]
    assert (event["id"], event["regions"], event["track_step"]) == (1, ["all"], 1)


def test_regions_are_counted(tmp_path):
    other = [None] * 20 + walk((4, 30), (0, 0), 10)
    run(tmp_path, together(BACK_AND_FORTH, other), regions=Regions(["left=0,0,30,48", "right=60,0,36,48"]))
    left, right = read_table(tmp_path / "regions.csv")
    assert (left["region"], left["events"], left["entries"], left["peak_objects"]) == ("left", "2", "3", "1")
    assert (right["events"], right["entries"], right["peak_objects"]) == ("1", "1", "1")
    # An object is in the region when a quarter of its 8 pixels is: frames 27 to 53.
    assert (right["occupied_frames"], right["occupied_seconds"]) == ("27", f"{27 / RATE:.3f}")
    inside = [np.count_nonzero(mask_of([box])[:, 60:]) / (36 * 48) for box in BACK_AND_FORTH]
    assert float(right["mean_share"]) == pytest.approx(np.mean(inside), abs=1e-6)


@pytest.mark.parametrize(("gaps", "seconds"), [([0.02, 0.06], 4.0), ([0.1] * 50 + [600], 10.0)])
def test_seconds_in_a_region_at_a_variable_frame_rate(tmp_path, gaps, seconds):
    sink = EventSink(tmp_path, ["csv"], regions=ALL)
    times = np.cumsum(np.resize(gaps, 100))
    for (frame, separation), time in zip(pairs(together([(20, 10, 8, 12)] * 100)), times, strict=True):
        sink.write(replace(frame, time=time), separation)
    sink.close()
    (row,) = read_table(tmp_path / "regions.csv")
    assert float(row["occupied_seconds"]) == pytest.approx(seconds, abs=0.1)


@pytest.mark.parametrize("frames", [[], [[]] * 3])
def test_runs_without_frames_or_objects(tmp_path, frames):
    run(tmp_path, frames, regions=ALL)
    assert read_table(tmp_path / "events.csv") == []
    assert (tmp_path / "events.csv").read_text().startswith("type,id,start_frame")
    assert ((tmp_path / "events.jsonl").read_text(), read_table(tmp_path / "regions.csv")[0]["events"]) == ("", "0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.csv", "events.jsonl", "regions.csv"]


def test_frames_without_time(tmp_path):
    run(tmp_path, together(walk((0, 10), (3, 0), 20)), fps=None, regions=ALL)
    (row,), (region,) = read_table(tmp_path / "events.csv"), read_table(tmp_path / "regions.csv")
    assert (row["start_time"], row["end_time"], row["start_frame"], row["end_frame"]) == ("", "", "0", "19")
    assert json.loads((tmp_path / "events.jsonl").read_text())["end_time"] is None
    assert (region["occupied_seconds"], region["occupied_frames"]) == ("", "20")


def test_formats_are_chosen_and_checked(tmp_path):
    sink = EventSink(tmp_path, ["jsonl"], regions=ALL, locate=lambda name: tmp_path / f"lobby-{name}")
    sink.close()
    assert [*tmp_path.iterdir()] == sink.paths == [tmp_path / "lobby-events.jsonl"]
    for formats, message in ((["xml"], "of csv, jsonl, got 'xml'"), ([], "got none")):
        with pytest.raises(ParameterError, match=message):
            EventSink(tmp_path, formats)


def test_missing_partial_files_are_an_error(tmp_path):
    sink = EventSink(tmp_path, ["jsonl"])
    write(pairs(busy(12), RATE, {2: "covered"}), sink)
    state = sink.checkpoint()
    sink.abort()
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(SinkError, match=r"events.jsonl.partial' must have at least \d+ bytes, got 0"):
        EventSink(tmp_path, ["jsonl"]).resume(state)
    with pytest.raises(ParameterError, match="formats must be jsonl, got csv"):
        EventSink(tmp_path, ["csv"]).resume(state)


def test_closing_again_after_an_error_writes_nothing_twice(tmp_path, monkeypatch):
    sink = EventSink(tmp_path, regions=ALL)
    write(pairs(busy(12), RATE, {2: "covered"}), sink)
    with monkeypatch.context() as patch:
        patch.setattr(sink._files["jsonl"], "finish", Mock(side_effect=SinkError("disk full")))
        with pytest.raises(SinkError, match="disk full"):
            sink.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    sink.close()
    sink.abort()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_feed_tracks_each_frame_once(tmp_path, monkeypatch):
    linker = ObjectLinker(RATE)
    monkeypatch.setattr(linker, "update", update := Mock(wraps=linker.update))
    feed = EventFeed(linker)
    sinks = [EventSink(tmp_path / name, [name], feed=feed) for name in ("csv", "jsonl")]
    write(pairs(busy()), *sinks)
    close(sinks)
    assert update.call_count == 40
    lines = (tmp_path / "jsonl" / "events.jsonl").read_text().splitlines()
    rows = read_table(tmp_path / "csv" / "events.csv")
    assert [json.loads(line)["id"] for line in lines] == [int(row["id"]) for row in rows]
    assert [bool(sink.checkpoint()["feed"]) for sink in sinks] == [True, False]


def test_resumed_outputs_are_identical(tmp_path):
    source = ArraySource(np.zeros((1, *SHAPE), np.uint8), fps=25)
    regions = Regions(["left=0,0,30,48", "0,50%,100%,50%"])
    events = {8: "light-change", 20: "covered", 21: "covered", 33: "scene-change", 62: "light-change"}
    stream = list(pairs([*busy(), *[[]] * 10, *busy(20, seed=4)], RATE, events))

    def make(name):
        feed = EventFeed(ObjectLinker(source.fps, regions=regions), MotionRules(max_gap=0.2))
        pictures = AnnotatingSink(ImageSequenceSink(tmp_path / name / "boxes", "boxes"), feed)
        return [pictures, *create_event_sinks(EVENT_FORMATS, source, feed, (tmp_path / name).joinpath)]

    def contents(name):
        return {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}

    write(stream, *(straight := make("straight")))
    close(straight)
    assert len(contents("straight")) == len(stream) + 4 + len(list((tmp_path / "straight" / "objects").iterdir()))
    assert (tmp_path / "straight" / "objects" / "000002.jpg").exists()
    assert b'id="motion-2"' in (tmp_path / "straight" / "summary.html").read_bytes()
    for cut, beyond in ((0, 7), (21, 35), (55, 70)):
        name = f"torn{cut}"
        killed, resumed = make(name), make(name)
        write(stream[:cut], *killed)
        states = json.loads(json.dumps([sink.checkpoint() for sink in killed], allow_nan=False))
        write(stream[cut:beyond], *killed)
        for sink, again, state in zip(killed, resumed, states, strict=True):
            sink.abort()
            again.resume(state)
        write(stream[cut:], *resumed)
        close(resumed)
        assert contents(name) == contents("straight")


@pytest.mark.parametrize("shape", [[1_000_000_000, 1_000_000_000], [3, 6], [-3, 5]])
def test_too_few_bits_are_an_error(shape):
    state = dump(np.eye(3, 5) > 0) | {"shape": shape}
    with pytest.raises(ValueError, match="bits in 2 bytes"):
        load(np.ndarray, state)
