"""Files of events."""

import csv
import json
import shutil
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest
from event_scenes import RATE, SHAPE, busy, close, mask_of, pairs, together, walk, write

from bgsub.errors import ParameterError, SinkError
from bgsub.events import AnnotatingSink, EventFeed, EventSink, MotionRules, ObjectLinker, SummarySink
from bgsub.events.event import ObjectInFrame
from bgsub.events.sink import create_event_sinks, make_feed
from bgsub.events.writers import run_lengths
from bgsub.jobs.pipeline import Pipeline
from bgsub.jobs.region_subtractor import RegionSubtractor
from bgsub.separation import Separation
from bgsub.video import ImageSequenceSink
from bgsub.video.output_names import EVENT_FORMATS
from bgsub.video.regions import Regions
from bgsub.video.sources.images import ArraySource

FILES = ["events.csv", "events.jsonl", "objects.json", "regions.csv"]
ALL = Regions(["all=0,0,100%,100%"])
BACK_AND_FORTH = walk((0, 4), (2, 0), 40) + walk((80, 4), (-2, 0), 40)


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run(folder, frames, fps=RATE, events=None, **options):
    with EventSink(folder, **options) as sink:
        write(pairs(frames, fps, events), sink)
    return folder


def decoded(counts, size):
    flat = np.repeat(np.arange(len(counts)) % 2, counts)
    flat = np.concatenate([flat, np.zeros(size[0] * size[1] - flat.size, int)])
    return flat.reshape(size[1], size[0]).T.astype(bool)


def test_csv(tmp_path):
    run(tmp_path, together(walk((0, 10), (3, 0), 20)), events={6: "light-change", 7: "light-change", 9: "covered"})
    rows = table(tmp_path / "events.csv")
    assert [(row["type"], row["id"], row["start_frame"], row["end_frame"]) for row in rows] == [
        ("light-change", "", "6", "7"),
        ("covered", "", "9", "9"),
        ("object", "1", "0", "19"),
    ]
    names = ("start_time", "end_time", "peak_area", "peak_frame", "peak_x", "peak_w", "frames")
    assert [rows[2][name] for name in names] == ["0.000", "0.760", "96", "0", "0", "8", "20"]
    assert rows[0]["peak_area"] == ""


def test_json_lines(tmp_path):
    boxes = walk((0, 10), (3, 1), 20)
    run(tmp_path, together(boxes), regions=ALL)
    (event,) = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert event["track"]["frame"] == list(range(20))
    assert event["track"]["box"] == [list(box) for box in boxes]
    assert event["track"]["area"] == [96] * 20
    assert event["track"]["centroid"][1] == [6.5, 16.5]
    assert (event["id"], event["regions"], event["track_step"]) == (1, ["all"], 1)


def test_coco(tmp_path):
    frames = busy()
    run(tmp_path, frames, source="clip.mp4")
    coco = json.loads((tmp_path / "objects.json").read_text())
    images = {image["id"]: image for image in coco["images"]}
    assert list(images) == list(range(len(frames)))
    size = {"width": SHAPE[1], "height": SHAPE[0]}
    assert images[3] == {"id": 3, "file_name": "clip.mp4#3", **size, "video_id": 1, "frame_id": 3}
    assert coco["videos"] == [{"id": 1, "name": "clip.mp4"}]
    assert [category["name"] for category in coco["categories"]] == ["foreground"]
    ids = [one["id"] for one in coco["annotations"]]
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) > 60
    for one in coco["annotations"]:
        mask = decoded(one["segmentation"]["counts"], one["segmentation"]["size"])
        ys, xs = mask.nonzero()
        assert one["bbox"] == [xs.min(), ys.min(), np.ptp(xs) + 1, np.ptp(ys) + 1]
        assert one["area"] == mask.sum()
        assert (mask_of(frames[one["image_id"]])[mask] == 255).all()
        assert (one["category_id"], one["iscrowd"]) == (1, 0)
    tracks = {one["track_id"] for one in coco["annotations"]}
    assert tracks == {int(row["id"]) for row in table(tmp_path / "events.csv")}


@pytest.mark.parametrize("box", [(0, 0, 5, 7), (0, 0, 1, 1), (3, 2, 2, 3), (4, 6, 1, 1)])
def test_run_lengths_of_any_mask(box):
    x, y, w, h = box
    rng = np.random.default_rng(x + h)
    part = rng.random((h, w)) < 0.6
    part[0, 0] = True
    whole = np.zeros((7, 5), bool)
    whole[y : y + h, x : x + w] = part
    counts = run_lengths(ObjectInFrame(1, 0, None, box, (0, 0), int(part.sum()), part), whole.shape)
    np.testing.assert_array_equal(decoded(counts, whole.shape), whole)
    assert sum(counts) <= whole.size
    assert all(count > 0 for count in counts[1:])


def test_regions_are_counted(tmp_path):
    other = [None] * 20 + walk((4, 30), (0, 0), 10)
    run(tmp_path, together(BACK_AND_FORTH, other), regions=Regions(["left=0,0,30,48", "right=60,0,36,48"]))
    left, right = table(tmp_path / "regions.csv")
    assert (left["region"], left["events"], left["entries"], left["peak_objects"]) == ("left", "2", "3", "1")
    assert (right["events"], right["entries"], right["peak_objects"]) == ("1", "1", "1")
    # An object is in the region when a quarter of its 8 pixels is: frames 27 to 53.
    assert right["occupied_frames"] == "27"
    assert right["occupied_seconds"] == f"{27 / RATE:.3f}"
    inside = [np.count_nonzero(mask_of([box])[:, 60:]) / (36 * 48) for box in BACK_AND_FORTH]
    assert float(right["mean_share"]) == pytest.approx(np.mean(inside), abs=1e-6)


@pytest.mark.parametrize("fps", [0.1, 5])
def test_entries_do_not_depend_on_the_frame_rate(tmp_path, fps):
    run(tmp_path, together(BACK_AND_FORTH), fps=fps, regions=Regions(["left=0,0,30,48"]))
    (row,) = table(tmp_path / "regions.csv")
    assert (row["events"], row["entries"]) == ("1", "2")
    assert float(row["occupied_seconds"]) == pytest.approx(int(row["occupied_frames"]) / fps, rel=0.06)


@pytest.mark.parametrize("frames", [[], [[]] * 3])
def test_runs_without_frames_or_objects(tmp_path, frames):
    run(tmp_path, frames, regions=ALL)
    assert table(tmp_path / "events.csv") == []
    assert (tmp_path / "events.csv").read_text().startswith("type,id,start_frame")
    assert (tmp_path / "events.jsonl").read_text() == ""
    coco = json.loads((tmp_path / "objects.json").read_text())
    assert (len(coco["images"]), coco["annotations"]) == (len(frames), [])
    assert table(tmp_path / "regions.csv")[0]["events"] == "0"
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


def test_frames_without_time(tmp_path):
    run(tmp_path, together(walk((0, 10), (3, 0), 20)), fps=None, regions=ALL)
    (row,), (region,) = table(tmp_path / "events.csv"), table(tmp_path / "regions.csv")
    assert (row["start_time"], row["end_time"], row["start_frame"], row["end_frame"]) == ("", "", "0", "19")
    assert json.loads((tmp_path / "events.jsonl").read_text())["end_time"] is None
    assert (region["occupied_seconds"], region["occupied_frames"]) == ("", "20")


def test_formats_are_chosen_and_checked(tmp_path):
    sink = EventSink(tmp_path, ["jsonl"], regions=ALL, locate=lambda name: tmp_path / f"lobby-{name}")
    sink.close()
    assert [*tmp_path.iterdir()] == sink.paths == [tmp_path / "lobby-events.jsonl"]
    for formats, message in ((["xml"], "of csv, jsonl, coco, got 'xml'"), ([], "got none"), (["html"], "SummarySink")):
        with pytest.raises(ParameterError, match=message):
            EventSink(tmp_path, formats)


def test_aborted_files_keep_their_partial_names(tmp_path):
    sink = EventSink(tmp_path, regions=ALL)
    write(pairs(busy(), RATE, {3: "covered"}), sink)
    sink.abort()
    sink.close()
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == 4  # the regions are written at the end; COCO has two partial files
    assert all(name.endswith(".partial") for name in names)


def test_unwritable_folder(tmp_path):
    sink = EventSink(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(SinkError, match=r"out/objects.json' cannot be written: Not a directory"):
        write(pairs([[]]), sink)


def test_missing_partial_files_are_an_error(tmp_path):
    sink = EventSink(tmp_path, ["coco"])
    write(pairs(busy(12)), sink)
    state = sink.checkpoint()
    sink.abort()
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(SinkError, match=r"images.partial' must have at least \d+ bytes, got 0"):
        EventSink(tmp_path, ["coco"]).resume(state)
    with pytest.raises(ParameterError, match="formats must be coco, got csv"):
        EventSink(tmp_path, ["csv"]).resume(state)


def test_a_feed_tracks_each_frame_once(tmp_path, monkeypatch):
    linker = ObjectLinker(RATE)
    monkeypatch.setattr(linker, "update", update := Mock(wraps=linker.update))
    feed = EventFeed(linker)
    sinks = [EventSink(tmp_path / name, [name], feed=feed) for name in ("csv", "jsonl")]
    write(pairs(busy()), *sinks)
    close(sinks)
    assert update.call_count == 40
    lines = (tmp_path / "jsonl" / "events.jsonl").read_text().splitlines()
    rows = table(tmp_path / "csv" / "events.csv")
    assert [json.loads(line)["id"] for line in lines] == [int(row["id"]) for row in rows]
    states = [sink.checkpoint()["feed"] for sink in sinks]
    assert states[0]
    assert states[1] == {}


def test_an_object_starts_once():
    feed = EventFeed(ObjectLinker(RATE))
    boxes = walk((60, 30), (-1, 0), 20)
    started = []
    for frame, separation in pairs(together(walk((0, 4), (1, 0), 20), [None] * 3 + boxes)):
        started += [(frame.index, one.frame, one.id, one.box) for one in feed.step(frame, separation).started]
    assert started == [(4, 4, 1, (4, 4, 8, 12)), (7, 7, 2, boxes[4])]


# -- in a pipeline ----------------------------------------------------------------------------------------------------


class Threshold:
    """Marks pixels above 127 as foreground."""

    def process(self, image, learningRate=-1):
        mask = np.where(image > 127, 255, 0).astype(np.uint8)
        return Separation(image, mask, image * 0, image / np.float32(255), np.zeros(0), "tracking")


@pytest.fixture
def source():
    return ArraySource(np.stack([mask_of(boxes) for boxes in busy()]), fps=25)


def test_runs_with_a_region(tmp_path, source):
    regions = Regions(["top=0,0,100%,50%"])
    sinks = create_event_sinks(tmp_path, EVENT_FORMATS, source, make_feed(source, regions=regions), regions)
    assert Pipeline(source, RegionSubtractor(Threshold(), regions), sinks).run().frames == 40
    assert sorted(path.name for path in tmp_path.iterdir()) == [*FILES, "summary.html"]
    rows = table(tmp_path / "events.csv")
    assert rows
    assert all(int(row["peak_y"]) + int(row["peak_h"]) <= 24 and row["regions"] == "top" for row in rows)
    coco = json.loads((tmp_path / "objects.json").read_text())
    assert (coco["images"][0]["width"], coco["images"][0]["height"]) == (96, 48)
    assert all(one["bbox"][1] + one["bbox"][3] <= 24 for one in coco["annotations"])


def test_resumed_outputs_are_identical(tmp_path, source):
    regions = Regions(["left=0,0,30,48", "0,50%,100%,50%"])
    events = {8: "light-change", 20: "covered", 21: "covered", 33: "scene-change", 62: "light-change"}
    stream = list(pairs([*busy(), *[[]] * 10, *busy(20, seed=4)], RATE, events))

    def make(name):
        feed = make_feed(source, MotionRules(max_gap=0.2), regions)
        pictures = AnnotatingSink(ImageSequenceSink(tmp_path / name / "boxes", "boxes"), feed, regions)
        return [pictures, *create_event_sinks(tmp_path / name, EVENT_FORMATS, source, feed, regions)]

    def contents(name):
        return {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}

    write(stream, *(straight := make("straight")))
    close(straight)
    assert len(contents("straight")) == len(stream) + 5
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


def test_created_sinks(tmp_path, source):
    feed = make_feed(source)
    assert create_event_sinks(tmp_path, (), source, feed) == []
    with pytest.raises(ParameterError, match=r"formats .* html, got 'xml'"):
        create_event_sinks(tmp_path, ["csv", "xml"], source, feed)
    assert not list(tmp_path.iterdir())
    sinks = create_event_sinks(tmp_path, ["csv", "html"], source, feed, locate=lambda name: tmp_path / f"x-{name}")
    assert [type(sink) for sink in sinks] == [EventSink, SummarySink]
    assert [*sinks[0].paths, sinks[1].path] == [tmp_path / "x-events.csv", tmp_path / "x-summary.html"]


def test_failed_runs_leave_partial_files(tmp_path, source, monkeypatch):
    sink = EventSink(tmp_path)
    effects = [*[DEFAULT] * 30, SinkError("the disk is full")]
    monkeypatch.setattr(sink, "write", Mock(wraps=sink.write, side_effect=effects))
    with pytest.raises(SinkError, match="the disk is full"):
        Pipeline(source, Threshold(), [sink]).run()
    names = [path.name for path in tmp_path.iterdir()]
    assert names
    assert all(name.endswith(".partial") for name in names)
