"""Files of events."""

import csv
import json
import shutil

import numpy as np
import pytest
from event_scenes import RATE, SHAPE, busy, close, mask_of, pairs, together, walk, write

from bgsub.errors import ParameterError, SinkError
from bgsub.events import EventFeed, EventSink, ObjectLinker
from bgsub.events.event import ObjectInFrame
from bgsub.events.writers import run_lengths
from bgsub.video.regions import Regions

FILES = ("events.csv", "events.jsonl", "objects.json")


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
    run(tmp_path, together(boxes), regions=Regions(["all=0,0,100%,100%"]))
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
    back_and_forth = walk((0, 4), (2, 0), 40) + walk((80, 4), (-2, 0), 40)
    other = [None] * 20 + walk((4, 30), (0, 0), 10)
    run(tmp_path, together(back_and_forth, other), regions=Regions(["left=0,0,30,48", "right=60,0,36,48"]))
    left, right = table(tmp_path / "regions.csv")
    assert (left["region"], left["events"], left["entries"], left["peak_objects"]) == ("left", "2", "3", "1")
    assert (right["events"], right["entries"], right["peak_objects"]) == ("1", "1", "1")
    # An object is in the region when a quarter of its 8 pixels is: frames 27 to 53.
    assert right["occupied_frames"] == "27"
    assert right["occupied_seconds"] == f"{27 / RATE:.3f}"
    inside = [np.count_nonzero(mask_of([box])[:, 60:]) / (36 * 48) for box in back_and_forth]
    assert float(right["mean_share"]) == pytest.approx(np.mean(inside), abs=1e-6)


@pytest.mark.parametrize("fps", [0.1, 5])
def test_entries_do_not_depend_on_the_frame_rate(tmp_path, fps):
    back_and_forth = walk((0, 4), (2, 0), 40) + walk((80, 4), (-2, 0), 40)
    run(tmp_path, together(back_and_forth), fps=fps, regions=Regions(["left=0,0,30,48"]))
    (row,) = table(tmp_path / "regions.csv")
    assert (row["events"], row["entries"]) == ("1", "2")
    assert float(row["occupied_seconds"]) == pytest.approx(int(row["occupied_frames"]) / fps, rel=0.06)


def test_runs_without_frames_or_objects(tmp_path):
    for folder, frames in ((tmp_path / "a", []), (tmp_path / "b", [[]] * 3)):
        run(folder, frames, regions=Regions(["door=0,0,5,5"]))
        assert table(folder / "events.csv") == []
        assert (folder / "events.csv").read_text().startswith("type,id,start_frame")
        assert (folder / "events.jsonl").read_text() == ""
        coco = json.loads((folder / "objects.json").read_text())
        assert (len(coco["images"]), coco["annotations"]) == (len(frames), [])
        assert table(folder / "regions.csv")[0]["events"] == "0"
        assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "regions.csv"])


def test_formats_are_chosen_and_checked(tmp_path):
    named = {"formats": ["jsonl"], "locate": lambda name: tmp_path / f"lobby-{name}"}
    run(tmp_path, busy(10), regions=Regions(["0,0,9,9"]), **named)
    assert [path.name for path in tmp_path.iterdir()] == ["lobby-events.jsonl"]
    with pytest.raises(ParameterError, match="formats of events must be of csv, jsonl, coco, got 'xml'"):
        EventSink(tmp_path, ["xml"])
    with pytest.raises(ParameterError, match="got none"):
        EventSink(tmp_path, [])


def test_unwritable_folder(tmp_path):
    sink = EventSink(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(SinkError, match=r"out/objects.json' cannot be written: Not a directory"):
        write(pairs([[]]), sink)


@pytest.mark.parametrize("seed", range(2))
def test_resumed_files_are_identical(tmp_path, seed):
    regions = Regions(["left=0,0,30,48", "0,50%,100%,50%"])
    events = {8: "light-change", 20: "covered", 21: "covered", 33: "scene-change"}
    stream = list(pairs(busy(seed=seed), RATE, events))
    run(tmp_path / "straight", busy(seed=seed), events=events, regions=regions)
    rng = np.random.default_rng(seed)
    for number in range(3):
        folder = tmp_path / f"torn{number}"
        cut = int(rng.integers(0, len(stream)))
        beyond = int(rng.integers(cut, len(stream)))
        killed = EventSink(folder, regions=regions)
        write(stream[:cut], killed)
        state = json.loads(json.dumps(killed.checkpoint(), allow_nan=False))
        write(stream[cut:beyond], killed)
        killed.abort()
        with EventSink(folder, regions=regions) as sink:
            sink.resume(state)
            write(stream[cut:], sink)
        for path in sorted((tmp_path / "straight").iterdir()):
            assert (folder / path.name).read_bytes() == path.read_bytes(), (path.name, cut, beyond)
        assert len(list(folder.iterdir())) == 4


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
    calls = []
    linker = ObjectLinker(RATE)
    update = linker.update
    monkeypatch.setattr(linker, "update", lambda *words: calls.append(words) or update(*words))
    feed = EventFeed(linker)
    sinks = [EventSink(tmp_path / name, [name], feed=feed) for name in ("csv", "jsonl")]
    write(pairs(busy()), *sinks)
    close(sinks)
    assert len(calls) == 40
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
