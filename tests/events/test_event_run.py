"""Event sinks in a pipeline."""

import csv
import json

import numpy as np
import pytest
from event_scenes import busy, close, mask_of, pairs, together, walk, write

from bgsub.errors import ParameterError, SinkError
from bgsub.events import EventSink, SummarySink
from bgsub.events.sink import create_event_sinks, make_feed
from bgsub.jobs.pipeline import Pipeline
from bgsub.jobs.region_subtractor import RegionSubtractor
from bgsub.separation import Separation
from bgsub.video.regions import Regions
from bgsub.video.sources.images import ArraySource


class Threshold:
    """Marks pixels above 127 as foreground."""

    def process(self, image, learningRate=-1):
        mask = np.where(image > 127, 255, 0).astype(np.uint8)
        return Separation(image, mask, image * 0, image / np.float32(255), np.zeros(0), "tracking")


def source():
    return ArraySource(np.stack([mask_of(boxes) for boxes in busy()]), fps=25)


def test_runs_with_a_region(tmp_path):
    regions = Regions(["top=0,0,100%,50%"])
    opened = source()
    feed = make_feed(opened, regions=regions)
    sinks = create_event_sinks(tmp_path, ("csv", "jsonl", "coco", "html"), opened, feed, regions)
    summary = Pipeline(opened, RegionSubtractor(Threshold(), regions), sinks).run()
    assert summary.frames == 40
    names = ["events.csv", "events.jsonl", "objects.json", "regions.csv", "summary.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    with (tmp_path / "events.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert all(int(row["peak_y"]) + int(row["peak_h"]) <= 24 and row["regions"] == "top" for row in rows)
    coco = json.loads((tmp_path / "objects.json").read_text())
    assert (coco["images"][0]["width"], coco["images"][0]["height"]) == (96, 48)
    assert all(one["bbox"][1] + one["bbox"][3] <= 24 for one in coco["annotations"])


def test_failed_runs_leave_partial_files(tmp_path):
    class Failing(EventSink):
        def write(self, frame, separation):
            if frame.index == 30:
                raise SinkError("the disk is full")
            super().write(frame, separation)

    with pytest.raises(SinkError, match="the disk is full"):
        Pipeline(source(), Threshold(), [Failing(tmp_path)]).run()
    names = [path.name for path in tmp_path.iterdir()]
    assert names
    assert all(name.endswith(".partial") for name in names)


def test_created_sinks(tmp_path):
    opened = ArraySource(np.zeros((1, 8, 8), np.uint8))
    assert create_event_sinks(tmp_path, (), opened, make_feed(opened)) == []
    formats, feed = ["csv", "html"], make_feed(opened)
    sinks = create_event_sinks(tmp_path, formats, opened, feed, locate=lambda name: tmp_path / f"x-{name}")
    assert [type(sink) for sink in sinks] == [EventSink, SummarySink]
    assert sinks[0].paths == [tmp_path / "x-events.csv"]
    assert sinks[1].path == tmp_path / "x-summary.html"
    write(pairs(together(walk((0, 10), (3, 0), 12)), fps=None), *sinks)
    close(sinks)
    assert (tmp_path / "x-events.csv").read_text().splitlines()[1].startswith("object,1,0,11,,")


def test_unknown_formats(tmp_path):
    opened = source()
    with pytest.raises(ParameterError, match=r"formats .* html, got 'xml'"):
        create_event_sinks(tmp_path, ["csv", "xml"], opened, make_feed(opened))
    with pytest.raises(ParameterError, match="got 'html'; SummarySink"):
        EventSink(tmp_path, ["csv", "html"])
    assert not list(tmp_path.iterdir())
