"""The summary page."""

import base64
import re
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from event_scenes import RATE, SHAPE, mask_of, pairs, together, walk, write

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.events import EventFeed, MotionRules, ObjectLinker, SummarySink, pictures
from bgsub.events.pictures import HeatMap, draw_heat_map
from bgsub.events.summary_page import RunFacts, TimeAxis
from bgsub.video.regions import Regions

SHORT = MotionRules(max_gap=0.2)


class Page:
    """Elements of a page, which all end: (tag, attributes, text)."""

    def __init__(self, path):
        self.source = path.read_text(encoding="utf-8")
        root = ET.fromstring(re.sub(r"(<(?:meta|img|br|link)\b[^>]*)>", r"\1/>", self.source))
        self.elements = [(one.tag, one.attrib, "".join(one.itertext())) for one in root.iter()]

    def all(self, tag, **wanted):
        wanted = {name.rstrip("_"): value for name, value in wanted.items()}
        return [e for e in self.elements if e[0] == tag and all(e[1].get(k) == v for k, v in wanted.items())]

    def texts(self, tag, **wanted):
        return [element[2] for element in self.all(tag, **wanted)]

    @property
    def facts(self):
        return dict(zip(self.texts("dt"), self.texts("dd"), strict=True))

    @property
    def cards(self):
        return self.all("figure", class_="card")


def two_events():
    """Frames with one object (10 to 39, growing until 25) and two objects (100 to 129)."""
    grows = [(x, y, 8 + min(number, 15), h) for number, (x, y, _, h) in enumerate(walk((0, 4), (2, 0), 30))]
    both = together(walk((0, 4), (2, 0), 30), walk((80, 30), (-2, 0), 30))
    return [[]] * 10 + [[box] for box in grows] + [[]] * 60 + both + [[]] * 20


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
    facts = {"Frames": "150, 96 x 48 pixels", "Length": "6.0 s", "Found": "2 motion events, 3 objects"}
    assert page.facts == {**facts, "Foreground": f"{share:.2%} of the picture on average"}
    first, second = page.cards
    assert (first[1]["id"], second[1]["id"]) == ("motion-1", "motion-2")
    assert first[2] == "00:00:001.2 s, 1 object, at most 6.0% of the picturein above"
    assert second[2] == "00:00:041.2 s, 2 objects, at most 4.2% of the picturein above, below"
    assert [element[1]["href"] for element in page.all("a")] == ["#motion-1", "#motion-2"]
    bars = [(e[1]["title"], e[1]["style"]) for e in page.elements if e[1].get("class", "").startswith("bar ")]
    assert bars == [
        ("motion 1: 00:00:00", "left:6.67%;width:19.33%"),
        ("motion 2: 00:00:04", "left:66.67%;width:19.33%"),
        ("light change: 00:00:02", "left:40.00%;width:0.00%"),
    ]
    assert page.texts("div", class_="ends") == ["00:00:0000:00:06"]
    assert page.texts("tr")[1] == "light change00:00:0200:00:02"
    assert page.texts("td")[3:9] == ["above", "2", "2", "1", "60", "2.4"]
    assert page.texts("td")[10:16] == ["below", "1", "1", "1", "30", "1.2"]
    assert "Problems" not in page.texts("h2")


def test_pictures_show_the_peak_with_boxes(tmp_path):
    grey = [np.full(SHAPE, 2 * (index % 100), np.uint8) for index in range(150)]
    stream = ((frame, replace(one, frame=grey[frame.index])) for frame, one in pairs(two_events()))
    page = made(tmp_path / "page.html", stream)
    cards = [card for _, card, _ in page.all("img")][1:]
    assert [" ".join(card["alt"].split()[:2]) for card in cards] == ["Frame 25,", "Frame 100,"]
    data = cards[0]["src"].removeprefix("data:image/jpeg;base64,")
    picture = cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR)
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
    (legend,) = page.all("figure", class_="map")
    assert legend[2].strip().endswith(f"grey never, yellow {100 * heat.share().max():.2g}%")
    y, x = np.unravel_index(heat.share().argmax(), SHAPE)
    place = f"{x / SHAPE[1]:.0%} from the left and {y / SHAPE[0]:.0%} from above"
    assert page.all("img")[0][1]["alt"].endswith(place)


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


def test_many_events_leave_a_page_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "MOST_PICTURES", 20)
    rng = np.random.default_rng(1)
    widths = rng.integers(8, 60, 3 * 60)
    frames = [box for width in widths for box in ([(4, 4, int(width), 12)], [(4, 4, int(width), 12)], [])]
    rules = MotionRules(max_gap=0, min_duration=1 / RATE)
    noise = rng.integers(0, 255, SHAPE, np.uint8)
    stream = ((frame, replace(one, frame=noise)) for frame, one in pairs([[]] * 5 + frames))
    page = made(tmp_path / "page.html", stream, rules=rules)
    assert len(page.cards) == 20
    assert page.facts["Found"].startswith(f"{len(widths)} motion events")
    assert f"{len(widths) - 20} with less motion are not shown." in page.texts("p")
    shares = [float(card[2].split("at most ")[1].split("%")[0]) for card in page.cards]
    least = 100 * 12 * np.sort(widths)[-20] / noise.size
    assert min(shares) == pytest.approx(least, abs=0.06)
    assert len(page.source) < 300_000


def test_names_of_times(tmp_path):
    page = made(tmp_path / "page.html", pairs(two_events(), None))
    assert page.facts["Length"] == "150 frames"
    assert [card[2].split(",")[0] for card in page.cards] == ["frame 1029 frames", "frame 10029 frames"]
    assert page.texts("div", class_="ends") == ["frame 0frame 150"]
    began = time.monotonic()
    stream = [(replace(frame, received=began + frame.time), one) for frame, one in pairs(two_events())]
    before = stream[0][0].arrived
    page = made(tmp_path / "camera.html", stream)
    shown = datetime.strptime(page.facts["Began"], "%Y-%m-%d %H:%M:%S %z")
    assert abs((shown - before).total_seconds()) < 2
    clock = TimeAxis(RunFacts(end=6.0, began=shown.isoformat()))
    labels = {clock.at(4 + part) for part in (-1, 0, 1)}
    assert any(page.cards[1][2].startswith(label) for label in labels)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone cannot be set")
def test_times_after_the_end_of_summer_time(monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        clock = TimeAxis(RunFacts(end=14400.0, began="2026-10-25T01:30:00+02:00"))
        assert [clock.at(3600.0 * hours) for hours in (0, 1, 2, 4)] == ["01:30:00", "02:30:00", "02:30:00", "04:30:00"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_problems(tmp_path):
    stream = list(pairs([[]] * 60, RATE, {20: "covered", 21: "covered", 40: "covered"}))
    problems = made(tmp_path / "page.html", [pair for pair in stream if pair[0].index % 10 != 3]).texts("li")
    assert problems == ["6 frames missing (dropped or unreadable).", "The camera was covered: 2 times."]
    every_second = made(tmp_path / "second.html", stream[::2])
    assert every_second.texts("li") == ["The camera was covered: 2 times."]
    short = made(tmp_path / "short.html", pairs([[]] * 3))
    assert short.texts("li") == ["The run ended in the start phase, in which no motion is reported."]
    assert not short.cards


def test_runs_without_frames_failed_runs_and_invalid_paths(tmp_path):
    page = made(tmp_path / "page.html", [], "a <lobby>")
    assert (page.texts("h1"), page.facts) == (["a <lobby>"], {"Frames": "none"})
    failed = SummarySink(tmp_path / "b" / "page.html")
    write(pairs(two_events()), failed)
    failed.abort()
    failed.close()
    assert not list((tmp_path / "b").iterdir())
    with pytest.raises(ParameterError, match=r"must end in \.html, got"):
        SummarySink(tmp_path / "page.pdf")
    (tmp_path / "b" / "page.html").mkdir()
    with pytest.raises(SinkError, match=r"page\.html' cannot be written"):
        SummarySink(tmp_path / "b" / "page.html").close()
