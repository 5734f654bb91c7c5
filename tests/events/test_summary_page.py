"""The summary page."""

import base64
import re
import time
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser

import numpy as np
import pytest
from event_scenes import RATE, SHAPE, frame_of, mask_of, pairs, separated, walk, write

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.events import Event, EventFeed, MotionRules, ObjectLinker, SummarySink
from bgsub.events.summary import highlights, timeline
from bgsub.events.summary.highlights import LONGEST, HeatMap, Highlight, draw_heat_map
from bgsub.events.summary.page import TimeAxis
from bgsub.video.regions import Regions
from bgsub.video.sources.base import Frame

SHORT = MotionRules(max_gap=0.2)
EMPTY = {"meta", "img", "br", "link"}


class Page(HTMLParser):
    """Elements of a page: (tag, attributes, text)."""

    def __init__(self, path):
        super().__init__()
        self.elements, self._open = [], []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        assert not self._open  # all that begins ends

    def handle_starttag(self, tag, attributes):
        element = [tag, dict(attributes), ""]
        self.elements.append(element)
        if tag not in EMPTY:
            self._open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.elements.append([tag, dict(attributes), ""])

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        for element in self._open:
            element[2] += data

    def all(self, tag, **wanted):
        wanted = {name.rstrip("_"): value for name, value in wanted.items()}
        return [e for e in self.elements if e[0] == tag and all(e[1].get(k) == v for k, v in wanted.items())]

    def texts(self, tag, **wanted):
        return [element[2] for element in self.all(tag, **wanted)]

    @property
    def facts(self):
        return dict(zip(self.texts("dt"), self.texts("dd"), strict=True))

    @property
    def bars(self):
        return [element for element in self.elements if element[1].get("class", "").startswith("bar ")]

    @property
    def cards(self):
        return self.all("figure", class_="card")

    def picture(self, element):
        kind, data = element[1]["src"].split(",")
        assert kind == "data:image/jpeg;base64"
        return cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR)


def two_events():
    """Frames with one object (10 to 39, growing until 25) and two objects (100 to 129)."""
    frames = [[] for _ in range(150)]
    for number, box in enumerate(walk((0, 4), (2, 0), 30)):
        grown = min(number, 15)
        frames[10 + number] = [(*box[:2], 8 + grown, 12)]
    for number, (one, other) in enumerate(zip(walk((0, 4), (2, 0), 30), walk((80, 30), (-2, 0), 30), strict=True)):
        frames[100 + number] = [one, other]
    return frames


def made(path, stream, title="street.mp4", rules=SHORT, **options):
    regions = options.get("regions")
    with SummarySink(path, title, feed=EventFeed(ObjectLinker(regions=regions), rules), **options) as sink:
        write(stream, sink)
    return Page(path)


def test_contents_of_the_page(tmp_path):
    regions = Regions(["above=0,0,100%,50%", "below=0,50%,100%,50%"])
    page = made(tmp_path / "page.html", pairs(two_events(), RATE, {60: "light-change"}), regions=regions)
    share = np.mean([(mask_of(boxes) > 0).mean() for boxes in two_events()])
    assert page.texts("h1") == ["street.mp4"]
    assert page.facts == {
        "Frames": "150, 96 x 48 pixels",
        "Length": "6.0 s",
        "Foreground": f"{share:.2%} of the picture on average",
        "Found": "2 motion events, 3 objects",
    }
    first, second = page.cards
    assert (first[1]["id"], second[1]["id"]) == ("motion-1", "motion-2")
    assert first[2] == "00:00:001.2 s, 1 object, at most 6.0% of the picturein above"
    assert second[2] == "00:00:041.2 s, 2 objects, at most 4.2% of the picturein above, below"
    links = [element[1]["href"] for element in page.all("a")]
    assert links == ["#motion-1", "#motion-2"]
    bars = [(element[1]["title"], element[2]) for element in page.bars]
    assert bars[0] == ("motion 1: 00:00:00 to 00:00:01", "1")
    assert bars[2] == ("light change: 00:00:02 to 00:00:02", "")
    assert bars[3] == ("object 1: 00:00:00 to 00:00:01", "1")
    assert [number for _, number in bars[3:]] == ["1", "2", "3"]
    assert page.texts("tr")[1] == "light change00:00:0200:00:02"
    assert page.texts("td")[3:9] == ["above", "2", "2", "1", "60", "2.4"]
    assert page.texts("td")[10:16] == ["below", "1", "1", "1", "30", "1.2"]
    assert "Problems" not in page.texts("h2")


def test_scale_and_axes_of_the_lanes(tmp_path):
    page = made(tmp_path / "page.html", pairs(two_events()), regions=Regions(["above=0,0,100%,50%"]))
    left, width = re.findall(r"[0-9.]+(?=%)", page.bars[1][1]["style"])
    assert float(left) == pytest.approx(100 * 4 / 6, abs=0.01)
    assert float(width) == pytest.approx(100 * (5.16 - 4) / 6, abs=0.01)
    foreground, objects = (area[1]["d"] for area in page.all("path", class_="area c0"))
    steps = np.array([[float(x) for x in step] for step in re.findall(r"H([0-9.]+)V([0-9.]+)", foreground)])
    assert steps[25 - 1] == pytest.approx([1000 * 25 / 150, 2], abs=0.06)  # the largest share is at the top
    assert steps[9 - 1] == pytest.approx([1000 * 9 / 150, 90], abs=0.06)  # and nothing at the bottom
    assert "H66.7V2.0" in objects
    assert "From -1 to 149: y1y2" in page.texts("figcaption")
    labels = [(e[2], int(e[1]["style"][4:-2])) for e in page.all("span", class_="value")]
    highest = 100 * 23 * 12 / (SHAPE[0] * SHAPE[1])
    assert labels[:3] == [(f"{value}%", round(90 - 88 * value / highest)) for value in (0, 2, 4)]
    assert labels[3:5] == [("0", 90), ("1", 2)]  # objects in the region
    assert labels[5:] == [(str(value), round(90 - 88 * (value + 1) / 150)) for value in (0, 50, 100)]
    grid = page.all("path", class_="grid")[0][1]["d"]
    assert [float(y) for y in re.findall(r"M0 ([0-9.]+)H", grid)] == pytest.approx([y for _, y in labels[:3]], abs=0.5)


def test_events_of_the_whole_frame_mark_all_lanes(tmp_path):
    events = {15: "light-change", 60: "covered", 61: "covered", 120: "light-change"}
    page = made(tmp_path / "page.html", pairs(two_events(), RATE, events))
    lanes = page.all("svg")
    assert len(lanes) == 5
    for kind, count in (("light-change", 2), ("covered", 1)):
        marks = [mark[1]["d"] for mark in page.all("path", class_=f"mark {kind}")]
        assert len(marks) == len(lanes)
        assert all(path.count("M") == count for path in marks)
        for path, (_, lane, _) in zip(marks, lanes, strict=True):
            assert f"V{lane['viewbox'].split()[-1]}H" in path
    left, right = map(float, re.findall(r"[MH]([0-9.]+)", page.all("path", class_="mark covered")[0][1]["d"]))
    assert (left, right) == (400, pytest.approx(1000 * 61 / 150, abs=0.1))


def test_pictures_show_the_peak_with_boxes(tmp_path):
    def stream():
        for frame, separation in pairs(two_events()):
            image = np.full(SHAPE, 2 * (frame.index % 100), np.uint8)
            yield frame, replace(separation, frame=image)

    page = made(tmp_path / "page.html", stream())
    alt = [card["alt"] for _, card, _ in page.all("img")][1:]
    assert alt == [f"Frame {frame}, the one with most motion in motion event {n}" for n, frame in ((1, 25), (2, 100))]
    picture = page.picture(page.all("img")[1])
    assert picture.shape == (*SHAPE, 3)
    x, y, w, h = two_events()[25][0]
    assert abs(int(picture[y + 5, x + 5].mean()) - 50) < 8  # the grey of frame 25
    colour = picture[y + h, x : x + w].mean(axis=0)
    assert colour[2] > colour[1] > colour[0]  # orange below the object


def test_heat_map(tmp_path):
    heat = HeatMap()
    stream = list(pairs(two_events(), RATE, {105: "light-change"}))
    for _, separation in stream:
        heat.add(separation)
    counted = [separation.mask == 255 for _, separation in stream if separation.event is None]
    np.testing.assert_allclose(heat.share(), np.mean(counted, axis=0), rtol=1e-12)
    image = draw_heat_map(heat.share(), np.full((*SHAPE, 3), 60, np.uint8))
    level = image.sum(axis=2, dtype=int)
    assert level.flat[heat.share().argmax()] == level.max()
    assert (image[heat.share() == 0] == 60).all()
    page = made(tmp_path / "page.html", stream)
    (legend,) = page.all("div", class_="ends")
    assert legend[2].startswith("0%")
    assert legend[2].endswith(f"{100 * heat.share().max():.2g}%")
    y, x = np.unravel_index(heat.share().argmax(), SHAPE)
    place = f"{x / SHAPE[1]:.0%} from the left and {y / SHAPE[0]:.0%} from above"
    assert page.all("img")[0][1]["alt"].endswith(place)


def test_heat_map_of_large_frames():
    heat, masks = HeatMap(), [mask_of([(100 * i, 300, 400, 200)], (1080, 1920)) for i in range(4)]
    assert heat.share() is None
    for mask in masks:
        heat.add(separated(mask))
    share = heat.share()
    assert (share.shape, share.dtype, share.max()) == ((270, LONGEST), np.float64, 1)
    assert share.mean() == pytest.approx(np.mean([mask > 0 for mask in masks]), rel=1e-3)


def test_names_are_escaped_and_nothing_is_loaded(tmp_path):
    name = "<script>alert('1')</script>\"&\udcff"
    regions = Regions(["<i>a & b=0,0,100%,100%"])
    page = made(tmp_path / "page.html", pairs(two_events(), RATE, {60: '"><script>'}), name, regions=regions)
    assert page.texts("h1") == ["<script>alert('1')</script>\"&?"]
    assert not page.all("script")
    assert "<i>a & b" in page.source.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert page.cards[0][2].endswith("in <i>a & b")
    places = [e[1].get(word, "#") for e in page.elements for word in ("src", "href", "data", "xlink:href")]
    assert all(place.startswith(("#", "data:image/jpeg;base64,")) for place in places)
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy[1]["content"].startswith("default-src 'none'")
    assert all(image[1]["alt"] for image in page.all("img"))


def test_links_to_clips_are_relative(tmp_path):
    feed = EventFeed(ObjectLinker(), SHORT)
    with SummarySink(tmp_path / "out" / "page.html", feed=feed) as sink:
        for frame, separation in pairs(two_events()):
            for event in feed.step(frame, separation).motion.begun:
                event.clip = str(tmp_path / "clips" / f'a "b" #{event.id}.mp4')
            sink.write(frame, separation)
    page = Page(tmp_path / "out" / "page.html")
    assert [e[1]["href"] for e in page.all("a") if e[2] == "clip"] == [
        f"../clips/a%20%22b%22%20%23{number}.mp4" for number in (1, 2)
    ]


def test_many_events_leave_a_page_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(highlights, "MOST_PICTURES", 20)
    monkeypatch.setattr(timeline, "MOST_BARS", 60)
    rng = np.random.default_rng(1)
    widths = rng.integers(8, 60, 3 * 60)
    frames = [box for width in widths for box in ([(4, 4, int(width), 12)], [(4, 4, int(width), 12)], [])]
    rules = MotionRules(max_gap=0, min_duration=1 / RATE)
    noise = rng.integers(0, 255, SHAPE, np.uint8)

    def stream():
        for frame, separation in pairs([[]] * 5 + frames):
            yield frame, replace(separation, frame=noise)

    page = made(tmp_path / "page.html", stream(), rules=rules)
    assert len(page.cards) == 20
    assert page.facts["Found"].startswith(f"{len(widths)} motion events")
    assert f"{len(widths) - 20} with less motion are not shown." in page.texts("p")
    shares = [float(card[2].split("at most ")[1].split("%")[0]) for card in page.cards]
    least = 100 * 12 * np.sort(widths)[-20] / noise.size
    assert min(shares) == pytest.approx(least, abs=0.06)
    assert f"Motion events: {len(widths)}, of which the 60 longest are shown" in page.texts("figcaption")
    assert len(page.source) < 300_000


def test_frames_without_time(tmp_path):
    page = made(tmp_path / "page.html", pairs(two_events(), None))
    assert page.facts["Length"] == "150 frames"
    assert [card[2].split(",")[0] for card in page.cards] == ["frame 1029 frames", "frame 10029 frames"]
    assert "frame 50" in page.texts("span")


def test_cameras_have_the_time_of_day(tmp_path):
    began = time.monotonic()
    frames = two_events()
    stream = [(Frame(f.index, f.name, f.time, f.image, began + f.time), separation) for f, separation in pairs(frames)]
    before = stream[0][0].arrived
    page = made(tmp_path / "page.html", stream)
    shown = datetime.strptime(page.facts["Began"], "%Y-%m-%d %H:%M:%S %z")
    assert abs((shown - before).total_seconds()) < 2
    clock = TimeAxis(0, 6, True, shown)
    labels = {clock.at(4 + part) for part in (-1, 0, 1)}
    assert any(page.cards[1][2].startswith(label) for label in labels)


def test_ticks_of_the_time_axis():
    assert TimeAxis(0, 68, True, None).ticks() == [0, 10, 20, 30, 40, 50, 60]
    assert TimeAxis(7, 86_000, True, None).ticks()[:2] == [21600, 43200]
    assert TimeAxis(0, 1700, False, None).ticks() == [0, 500, 1000, 1500]
    began = Frame(0, "", 0.0, np.zeros(SHAPE), time.monotonic()).arrived.replace(hour=23, minute=50, second=10)
    clock = TimeAxis(100, 100 + 3600, True, began)
    assert [clock.at(place)[6:] for place in clock.ticks()] == [f"00:{minute}0:00" for minute in range(6)]
    assert clock.length(3661) == "01:01:01"


def test_problems(tmp_path):
    stream = list(pairs([[]] * 60, RATE, {20: "covered", 21: "covered", 40: "covered"}))
    late = [(Frame(f.index, f.name, f.time + 20 * (f.index > 50), f.image), s) for f, s in stream if f.index % 10 != 3]
    problems = made(tmp_path / "page.html", late).texts("li")
    assert problems == [
        "6 frames missing (dropped or unreadable).",
        "1 long pause without a frame, at most 20.0 s.",
        "The camera was covered: 2 times.",
    ]
    every_second = made(tmp_path / "second.html", stream[::2])
    assert every_second.texts("li") == ["The camera was covered: 2 times."]
    short = made(tmp_path / "short.html", pairs([[]] * 3))
    assert short.texts("li") == ["The run ended in the start phase, in which no motion is reported."]
    assert not short.cards


def test_runs_without_frames_and_failed_runs(tmp_path):
    page = made(tmp_path / "page.html", [], "a <lobby>")
    assert (page.texts("h1"), page.facts) == (["a <lobby>"], {"Frames": "none"})
    failed = SummarySink(tmp_path / "b" / "page.html")
    write(pairs(two_events()), failed)
    assert not list((tmp_path / "b").iterdir())
    failed.abort()
    failed.close()
    assert not list((tmp_path / "b").iterdir())


def test_floating_point_and_large_frames(tmp_path):
    shape = (900, 1200)
    image = np.full((*shape, 3), 0.5, np.float32)

    def stream():
        for index in range(20):
            mask = mask_of([(20 * index, 300, 200, 300)] if index > 5 else [], shape)
            separation = separated(mask, y=(1.0,))
            yield frame_of(index), replace(separation, frame=image, background=image)

    page = made(tmp_path / "page.html", stream())
    heat, thumbnail = (page.picture(element) for element in page.all("img"))
    assert heat.shape == (360, 480, 3)
    assert thumbnail.shape == (240, 320, 3)
    assert abs(int(np.median(thumbnail)) - 128) < 4


def test_invalid_paths(tmp_path):
    with pytest.raises(ParameterError, match=r"a file \.html, got"):
        SummarySink(tmp_path / "page.pdf")
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="cannot write into folder"):
        SummarySink(tmp_path / "file" / "page.html")
    (tmp_path / "page.html").mkdir()
    with pytest.raises(SinkError, match=r"page\.html' cannot be written"):
        SummarySink(tmp_path / "page.html").close()


def test_amount_of_motion():
    long = Event("motion", 1, 0, 99, 0.0, 4.0, frames=100, peak_area=10)
    large = Event("motion", 2, 0, 9, 0.0, 0.4, frames=10, peak_area=99)
    assert Highlight(long, 0.0, 0, [], b"").amount > Highlight(large, 0.0, 0, [], b"").amount
