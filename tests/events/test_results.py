"""Pictures of objects, the overview of many results, and the search in them."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from event_scenes import RATE, SHAPE, STORED, close, pairs, together, walk, write
from video_fakes import write_images

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.events import EventFeed, EventSink, MotionRules, ObjectLinker
from bgsub.events.pictures import ObjectPictureSink
from bgsub.events.results import StoredEvent, find_results, write_overview
from bgsub.events.search import search_results
from bgsub.events.tables import MotionListSink, motion_table, write_motion
from bgsub.video import VideoSink
from bgsub.video.regions import Regions
from bgsub.video.timecode import Selection

CROSSING = [[]] * 5 + together(walk((0, 10), (2, 0), 40)) + [[]] * 30 + together(walk((84, 10), (-2, 0), 40))


def track(folder: Path, frames, regions=None, start=0.0):
    """Write the events of boxes into a folder as ``bgsub track`` does."""
    feed = EventFeed(ObjectLinker(RATE, regions=regions))
    sinks = [ObjectPictureSink(folder / "objects", feed), EventSink(folder, ["jsonl"], feed=feed)]
    for boxes, (frame, separation) in zip(frames, pairs(frames), strict=True):
        image, later = np.full((*SHAPE, 3), 30, np.uint8), replace(frame, time=frame.time + start)
        for number, (x, y, w, h) in enumerate(boxes):  # bright and textured
            part = image[y : y + h, x : x + w]
            part[:] = 120
            part[::2, ::2] = 250 - 40 * number
        write([(later, replace(separation, frame=image, phase="tracking"))], *sinks)
    close(sinks)
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def test_the_picture_of_an_object_is_its_best_sight(tmp_path):
    """It grows, is largest where the border cuts it, and is blurred nowhere."""
    boxes = [(40 + i, 10, 10 + i // 2, 12 + i // 2) for i in range(30)] + [(76, 10, 20, 30)] * 4
    (event,) = track(tmp_path, [[box] for box in boxes])
    assert event["picture"] == "objects/000001.jpg"
    picture = cv2.imread(str(tmp_path / event["picture"]))
    *_, w, h = boxes[29]  # the largest one inside of the frame
    assert h < picture.shape[0] < 2 * h
    assert w < picture.shape[1] < 2 * w
    assert (picture > 200).mean() > 0.05


def test_old_pictures_are_removed_and_others_stay(tmp_path):
    objects = tmp_path / "objects"
    objects.mkdir()
    (objects / "000007.jpg").touch()
    (objects / "mine.jpg").touch()
    track(tmp_path, CROSSING)
    assert sorted(path.name for path in objects.iterdir()) == ["000001.jpg", "000002.jpg", "mine.jpg"]


def test_nothing_is_left_without_pictures(tmp_path):
    ObjectPictureSink(tmp_path / "objects", EventFeed(ObjectLinker(RATE))).abort()
    assert not any(tmp_path.iterdir())


def clips_of(folder: Path, *rows, **more):
    folder.mkdir(parents=True)
    with (folder / "clips.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["file", "start", "end", "peak_share", "began", "thumbnail"])
        writer.writeheader()
        writer.writerows({"peak_share": "0.1", **row, **more} for row in rows)


def page_data(path: Path):
    page = path.read_text()
    return page, json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


def test_the_overview_has_clips_and_objects_of_all_results_by_time(tmp_path):
    track(tmp_path / "a", CROSSING, Regions(["left=0,0,30,48"]))
    track(tmp_path / "b", CROSSING, start=100.0)
    clips_of(tmp_path / "b" / "clips", {"file": "x 1.mp4", "start": "99", "end": "104.5", "thumbnail": "x 1.jpg"})
    clips_of(tmp_path / "door", {"file": "d.mkv", "start": "0", "end": "2", "began": "2026-01-02T03:04:05"})
    with (tmp_path / "a" / "events.jsonl").open("a") as file:
        file.write(json.dumps({"type": "light-change", "start_frame": 99, "start_time": 90.0}) + "\n")
    assert [result.name for result in find_results(tmp_path)] == ["a", "b", "door"]
    assert write_overview(tmp_path, tmp_path / "overview.html", "All") == 7
    page, events = page_data(tmp_path / "overview.html")
    assert "<h1>All</h1>" in page
    assert [(one["source"], one["kind"]) for one in events] == [
        *[("a", "object")] * 2, ("a", "light-change"), ("b", "clip"), *[("b", "object")] * 2, ("door", "clip"),
    ]  # fmt: skip
    assert (events.pop(2)["time"]) == "00:01:30"
    assert events[0]["picture"] == "a/objects/000001.jpg"
    assert events[0]["regions"] == ["left"]
    assert (events[2]["clip"], events[2]["picture"]) == ("b/clips/x%201.mp4", "b/clips/x%201.jpg")
    assert (events[2]["time"], events[2]["text"]) == ("00:01:39", "5.5 s, at most 10 % in motion")
    assert events[5]["date"] == "2026-01-02T03:04:05"


def test_the_overview_is_in_the_order_of_time_when_summer_time_ends(tmp_path):
    dates = ["2026-10-25T02:45:00+02:00", "2026-10-25T02:15:00+01:00", "2026-10-25T02:30:00+01:00"]
    clips_of(tmp_path / "c", *({"file": f"{n}.mp4", "began": date} for n, date in enumerate(["not a date", *dates])))
    write_overview(tmp_path, tmp_path / "overview.html")
    assert [one["date"] for one in page_data(tmp_path / "overview.html")[1]] == ["not a date", *dates]


def test_names_cannot_leave_their_place_in_the_overview(tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    clip = {"file": f"{evil}.mp4", "start": "0", "end": "nan", "thumbnail": "javascript:alert(1)"}
    clips_of(tmp_path / "<b>'\"& {{ 7 * 7 }}", clip)
    write_overview(tmp_path, tmp_path / "overview.html", f"</script>{evil}")
    page, (event,) = page_data(tmp_path / "overview.html")
    assert "<img src" not in page
    assert "49" not in event["source"]
    assert page.count("</script>") == 2
    assert event["clip"].endswith("/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E.mp4")
    assert event["picture"].endswith("/javascript%3Aalert%281%29")


def test_only_the_newest_events_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("bgsub.events.results.MOST", 3)
    clips_of(tmp_path / "c", *({"file": f"{n}.mp4", "start": str(n), "end": str(n + 1)} for n in range(5)))
    assert write_overview(tmp_path, tmp_path / "o.html") == 3
    page, events = page_data(tmp_path / "o.html")
    assert [one["second"] for one in events] == [2, 3, 4]
    assert "5 events; the oldest 2 are not shown" in page


BOXES = [[0, 0, 5, 5], [1, 0, 5, 5]], [[-5, 0, 5, 5]], [[0, 0, 10**12, 5]], [[0, 0, 10**30, 5]], [["a", 0, 1, 5]]


def damaged(**values):
    return json.dumps({**STORED, **values})


@pytest.mark.parametrize(
    "line",
    [
        *("{", "[]", "{}", "3", "[" * 100_000, '{"type":"object","start_frame":1,"end_frame":2}'),
        *(damaged(start_time=float("nan")), damaged(end_time=float("inf")), damaged(end_frame=1e400)),
        *(damaged(type=kind, start_frame=frame) for kind, frame in (("motorcar", 1), ("covered", -1))),
        damaged(type="covered", start_time=1e10),
        *(damaged(id=-1), damaged(start_frame="x"), damaged(picture="\ud800.jpg"), damaged(track=None)),
        *(damaged(regions=wrong) for wrong in (None, [3])),
        *(damaged(track={"frame": [1], "time": [0.0], "box": boxes}) for boxes in BOXES),
        *(damaged(frame_size=size) for size in (None, [64], [0, 48], [64, -1])),
        *(damaged(track={**STORED["track"], "time": times}) for times in (None, [0.0], [0.0, None], [0.0, "x"])),
    ],
)
def test_a_damaged_list_is_named(tmp_path, line):
    track(tmp_path, CROSSING)
    assert StoredEvent.of(STORED).frames.tolist() == [1, 2]
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(SourceError, match=r"events\.jsonl', line 3: not a valid event"):
        write_overview(tmp_path, tmp_path / "o.html")
    with pytest.raises(SourceError, match="line 3"):
        search_results(tmp_path, Regions(["0,0,5,5"]))
    with pytest.raises(SourceError, match=r"no events\.jsonl and no clips\.csv"):
        find_results(tmp_path / "objects")


@pytest.mark.parametrize("text", ["gate=40,0,10,48", "gate=40,0;50,0;50,48;40,48"])
def test_search_in_objects(tmp_path, text):
    track(tmp_path / "a", CROSSING)
    first, second = search_results(tmp_path, Regions([text]))
    # an object 8 pixels wide has a quarter in the region from x = 34 to 48
    assert (first["start_frame"], first["end_frame"]) == (5 + 17, 5 + 24)
    assert first["start"] == pytest.approx(22 / RATE)
    assert (second["number"], second["source"], second["regions"]) == (2, "a", ["gate"])
    assert second["picture"] == str(tmp_path / "a" / "objects" / "000002.jpg")
    assert 0 < second["peak_share"] <= 8 * 12 / 480
    for part, expected in (((2.0, None), second), ((None, 2.0), first), ((30, None), second), ((None, 29), first)):
        assert search_results(tmp_path, Regions([text]), part=Selection.parse(*part, None, 1)) == [expected]
    assert search_results(tmp_path, Regions(["gate=40,40,10,8"])) == []


def test_search_gives_the_date_of_what_a_camera_saw(tmp_path):
    late = {"track": {"frame": [1, 60], "time": [0.5, 61.5], "box": [[0, 0, 5, 5], [30, 0, 5, 5]]}}
    lines = [{**STORED, **late, "start_time": 0.5, "began": date} for date in ("2026-01-02T23:59:30.000+01:00", "x")]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = search_results(tmp_path, Regions(["30,0,5,5"]))
    assert [row["began"] for row in rows] == ["2026-01-03T00:00:31.000+01:00", None]
    assert "2026-01-03 00:00:31" in motion_table(rows)
    assert "date" not in motion_table(rows[1:])


def test_search_gives_the_times_of_frames_at_a_variable_rate(tmp_path):
    feed = EventFeed(ObjectLinker(RATE))
    times = [*np.arange(40) / RATE, *(40 / RATE + np.arange(75))]  # one frame a second at the end
    with EventSink(tmp_path, ["jsonl"], feed=feed) as sink:
        for at, (frame, one) in zip(times, pairs(CROSSING[:115]), strict=True):
            sink.write(replace(frame, time=at), one)
    row = search_results(tmp_path, Regions(["gate=40,0,10,48"]))[0]
    assert (row["start_frame"], row["start"], row["end"]) == (22, times[22], times[29])


def test_regions_in_percent_are_of_the_frame(tmp_path):
    track(tmp_path, CROSSING)
    width = SHAPE[1]
    percent, pixels = f"gate={4000 / width}%,0,{1000 / width}%,100%", "gate=40,0,10,48"
    assert search_results(tmp_path, Regions([percent])) == search_results(tmp_path, Regions([pixels])) != []
    with pytest.raises(ParameterError, match=r"region 'gate' must hold pixels of the frame, which is \d+x48"):
        search_results(tmp_path, Regions([f"gate={width},0,5,5"]))
    path = tmp_path / "events.jsonl"
    path.write_text(path.read_text().replace(f'"frame_size":[{width},48]', '"frame_size":[1000000,1000000]'))
    with pytest.raises(ParameterError, match="larger than any frame"):
        search_results(tmp_path, Regions(["0,0,5,5"]))


def test_a_recording_that_is_smaller_than_a_region_is_left_out(tmp_path, caplog):
    for name in ("large", "small"):
        track(tmp_path / name, CROSSING)
    path = tmp_path / "small/events.jsonl"
    path.write_text(path.read_text().replace(f'"frame_size":[{SHAPE[1]},48]', '"frame_size":[20,48]'))
    assert [row["source"] for row in search_results(tmp_path, Regions(["gate=40,0,10,48"]))] == ["large", "large"]
    (warning,) = caplog.messages
    assert warning.startswith("small is not searched: region 'gate' must hold pixels of the frame, which is 20x48")


def test_an_object_that_returns_into_a_region_has_two_rows(tmp_path):
    there = [(30, 10, 8, 12)] * 20
    track(tmp_path, together(there + walk((30, 10), (2, 0), 20) + walk((68, 10), (-2, 0), 20) + there))
    regions, found = Regions(["10,0,30,48"]), []
    for gap in (0.5, 5.0):
        found.append(search_results(tmp_path, regions, MotionRules(max_gap=gap)))
    assert [len(rows) for rows in found] == [2, 1]
    assert found[0][0]["number"] == found[0][1]["number"] == 1


def test_a_recording_without_frame_rate_is_not_searched_by_seconds(tmp_path, caplog):
    track(tmp_path / "timed", CROSSING)
    write_images(tmp_path / "masks", np.stack([pair[1].mask for pair in pairs(CROSSING)]), "bin{:06d}.png")
    with EventSink(tmp_path / "images", ["jsonl"], feed=EventFeed(ObjectLinker())) as sink:
        write(((frame, replace(one, phase="tracking")) for frame, one in pairs(CROSSING, None)), sink)
    gate, rules = Regions(["gate=40,0,10,48"]), MotionRules(min_share=0.05, min_duration=0.0, max_gap=0.5)
    late, early = (Selection.parse(*ends, None, 1) for ends in (("100s", None), (None, 1.0)))
    for place, part in (("masks", late), ("images", late), ("images", early)):
        with pytest.raises(ParameterError, match=r"has no frame rate: give a frame number instead of \d+ s$"):
            search_results(tmp_path / place, gate, rules, part)
    assert search_results(tmp_path / "images", gate, part=Selection.parse(114, None, None, 1)) == []
    assert search_results(tmp_path, gate, part=late) == []
    assert "images is not searched: 'images' has no frame rate" in caplog.text
    assert "images 00:00" not in motion_table(search_results(tmp_path, gate))


@pytest.mark.parametrize("kind", ["folder", "place"])
def test_search_in_masks(tmp_path, kind):
    masks = [pair[1].mask for pair in pairs(CROSSING)]
    write_images(tmp_path / "mask", np.stack(masks), "bin{:06d}.png")
    place = tmp_path / "mask" if kind == "folder" else tmp_path
    rules = MotionRules(min_share=0.05, min_duration=0.0, max_gap=0.5)
    first, second = search_results(place, Regions(["gate=45%,0,10%,100%"]), rules)
    assert first["regions"] == second["regions"] == ["gate"]
    assert first["start_frame"] == pytest.approx(5 + 18, abs=2)
    assert first["peak_share"] == pytest.approx(8 * 12 / 480, rel=0.15)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"no events\.jsonl and no masks"):
        search_results(tmp_path / "empty", Regions(["0,0,5,5"]))


def test_rows_as_text_and_as_csv(tmp_path):
    feed = EventFeed(ObjectLinker(), MotionRules(min_duration=0.1, max_gap=0.2), follow=False)
    with MotionListSink(feed, "cam") as found:
        write(((frame, replace(one, phase="tracking")) for frame, one in pairs(CROSSING, None)), found)
    assert motion_table([]) == ""
    lines = motion_table(found.rows()).splitlines()
    assert [line.split()[:3] for line in lines] == [["#", "start", "end"], ["1", "frame", "5"], ["2", "frame", "75"]]
    assert lines[1].split()[3:] == ["frame", "44", "40", "frames", "2.1", "%", "0,10,8,12"]
    write_motion(tmp_path / "m.csv", found.rows())
    first, second = csv.DictReader((tmp_path / "m.csv").read_text().splitlines())
    assert [first[name] for name in ("start", "start_frame", "w", "clip")] == ["", "5", "8", ""]
    assert second["end_frame"] == "114"
    row = {**found.rows()[0], "start": 9.0, "source": "part-2.mp4", "source_start": 1.0}  # of a recording in files
    assert "part-2.mp4 00:00:01" in motion_table([row])
    assert "part-2.mp4" not in motion_table([{**row, "source_start": 9.0}])


def test_no_more_events_than_wanted_are_listed():
    """The frame that ends the first event begins the second one."""
    feed = EventFeed(ObjectLinker(), MotionRules(min_duration=0.0, max_gap=0.2), follow=False)
    with MotionListSink(feed, most=1) as found:
        for at, (frame, one) in zip((0.0, 0.1, 10.0), pairs([[(0, 10, 8, 12)], [], [(0, 10, 8, 12)]]), strict=True):
            found.write(replace(frame, time=at), replace(one, phase="tracking"))
            if found.is_full:
                break
    assert [row["number"] for row in found.rows()] == [1]


def test_clips_belong_to_the_result_above_unless_they_have_their_own(tmp_path):
    for name in ("out", "out/own"):
        track(tmp_path / name, CROSSING)
    for name in ("out/own/clips", "out/c1", "out/c2"):
        clips_of(tmp_path / name, {"file": "a.mp4", "start": "0", "end": "1"})
    found = {result.name: [path.parent.name for path in result.clips] for result in find_results(tmp_path)}
    assert found == {"out": ["c1", "c2"], "out/own": ["clips"]}


def test_results_with_other_names_are_found(tmp_path):
    for name in ("cam1-events.jsonl", "cam2-events.jsonl"):
        track(tmp_path, CROSSING)
        (tmp_path / "events.jsonl").rename(tmp_path / name)
    rows = search_results(tmp_path, Regions(["40,0,10,48"]))
    assert [row["source"] for row in rows] == ["cam1-events.jsonl"] * 2 + ["cam2-events.jsonl"] * 2
    assert rows[0]["picture"] == str(tmp_path / "objects" / "000001.jpg")


@pytest.mark.parametrize("name", ["mask.mkv", "cam-mask-2026.mkv"])
def test_a_still_picture_beside_the_results_is_no_mask(tmp_path, name):
    track(tmp_path, CROSSING)
    write_images(tmp_path, np.zeros((1, *SHAPE), np.uint8), "background-image{}.png")
    assert len(search_results(tmp_path, Regions(["40,0,10,48"]))) == 2
    (tmp_path / "events.jsonl").unlink()
    with VideoSink(tmp_path / name, "mask", RATE) as sink:
        write(pairs(CROSSING), sink)
    rows = search_results(tmp_path, Regions(["40,0,10,48"]), MotionRules(min_duration=0.0, max_gap=0.5))
    assert [row["source"] for row in rows] == [name, name]
    assert all(40 <= row["box"][0] < 50 for row in rows)  # the part in the region


@pytest.mark.parametrize("ending", [".mkv", ".mp4"])
def test_a_video_that_is_no_mask_is_refused(tmp_path, ending):
    """After compression with loss, the labels of a mask have other values at their borders."""
    masks = tmp_path / f"mask{ending}"
    found = []
    for start in (0, 4):
        with VideoSink(masks, "mask", RATE) as sink:
            write(((replace(frame, time=frame.time + start), one) for frame, one in pairs(CROSSING)), sink)
        found.append(search_results(masks, Regions(["40,0,10,48"]), MotionRules(min_duration=0.0, max_gap=0.5)))
    assert [row["start"] - 4 for row in found[1]] == pytest.approx([row["start"] for row in found[0]])
    assert [row["end_frame"] - 4 * RATE for row in found[1]] == [row["end_frame"] for row in found[0]]
    assert len(found[0]) == 2
    film = tmp_path / "film.mkv"
    with VideoSink(film, "background", RATE) as sink:
        grey = np.full((*SHAPE, 3), 64, np.uint8)
        write(((frame, replace(separation, background=grey)) for frame, separation in pairs([[]] * 3)), sink)
    with pytest.raises(SourceError, match=r"film\.mkv' is no mask: frame 0 has other values than 0, 127 and 255"):
        search_results(film, Regions(["40,0,10,48"]))
