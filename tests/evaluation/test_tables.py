"""Averages, text table, JSON and CSV of scores."""

from __future__ import annotations

import csv
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub import __version__
from bgsub.errors import SinkError
from bgsub.evaluation import Confusion, Score, format_json, format_table, summarise, write_csv
from bgsub.evaluation.tables import METRICS, SCHEMA

EMPTY = Confusion(tn=100)
"""Nothing moved and nothing was marked: recall, precision and F have no value."""


def score(video, counts, category="c", method="m", milliseconds=1.0):
    return Score(video, method, counts, 1, milliseconds, category, 2)


def find(averages, category, method="m"):
    (average,) = (a for a in averages if (a.category, a.method) == (category, method))
    return average


def test_means_over_videos_and_categories():
    a, b, c = Confusion(60, 20, 40, 880), Confusion(10, 0, 0, 90), Confusion(5, 5, 15, 75)
    averages = summarise([score("a", a, "x", milliseconds=1), score("b", b, "x", milliseconds=2), score("c", c, "y")])
    assert [average.category for average in averages] == ["x", "y", None]
    assert [average.parts for average in averages] == [2, 1, 2]
    x, y, overall = averages
    for name in METRICS:
        assert x.values[name] == pytest.approx((getattr(a, name) + getattr(b, name)) / 2)
        assert y.values[name] == getattr(c, name)
        assert overall.values[name] == pytest.approx((x.values[name] + y.values[name]) / 2)
    # The pixels of the first video outnumber the others ten to one: their sum would give another F.
    assert overall.values["f_measure"] != pytest.approx((a + b + c).f_measure, abs=0.01)
    assert (x.milliseconds, overall.milliseconds) == (1.5, 1.25)


def test_undefined_metric_of_a_video_is_left_out():
    averages = summarise([score("a", Confusion(6, 2, 4, 88)), score("b", EMPTY)])
    mean = find(averages, "c")
    assert mean.values["f_measure"] == pytest.approx(12 / 18)
    assert mean.values["specificity"] == pytest.approx((88 / 90 + 1) / 2)
    assert mean.defined == dict.fromkeys(METRICS, 2) | dict.fromkeys(("recall", "fnr", "precision", "f_measure"), 1)
    assert find(averages, None).defined["f_measure"] == 1


def test_undefined_metric_of_a_category_and_no_detection():
    averages = summarise([score("a", EMPTY, "still"), score("b", Confusion(6, 2, 4, 88), "busy")])
    assert math.isnan(find(averages, "still").values["recall"])
    assert find(averages, None).values["recall"] == pytest.approx(0.6)
    assert find(averages, None).defined["recall"] == 1
    averages = summarise([score("a", Confusion(10, 0, 0, 90)), score("b", Confusion(0, 0, 10, 90))])
    assert find(averages, None).values["f_measure"] == 0.5  # without detection F is zero


counts = st.builds(Confusion, *[st.integers(0, 50)] * 4)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(counts, st.sampled_from("xyz")), min_size=1, max_size=8))
def test_averages_lie_between_worst_and_best_video(videos):
    scores = [score(str(i), pixels, category) for i, (pixels, category) in enumerate(videos)]
    for average in summarise(scores):
        chosen = [s for s in scores if average.category in (None, s.category)]
        for name, value in average.values.items():
            there = [v for s in chosen if not math.isnan(v := getattr(s.confusion, name))]
            assert math.isnan(value) == (not there)
            if there:
                assert min(there) - 1e-9 <= value <= max(there) + 1e-9


def lines(scores):
    return format_table(scores, summarise(scores)).splitlines()


def test_table_of_one_video_has_no_averages():
    rows = lines([score("a", Confusion(60, 20, 40, 880), milliseconds=1.234), score("a", Confusion(), method="n")])
    heads = ["sequence", "method", "recall", "specificity", "FPR", "FNR", "PWC", "precision", "F", "ms/frame"]
    numbers = ["0.6000", "0.9778", "0.0222", "0.4000", "6.0000", "0.7500", "0.6667", "1.23"]
    assert [row.split() for row in rows] == [heads, ["a", "m", *numbers], ["a", "n", *["-"] * 7, "1.00"]]
    assert len({len(row) for row in rows}) == 1


def test_table_of_one_category_ends_with_overall():
    head, *rows = lines([score("a", Confusion(6, 2, 4, 88)), score("b", EMPTY)])
    assert [row.split()[0] for row in rows[:3]] == ["a", "b", "overall"]
    assert len({len(row) for row in [head, *rows[:3]]}) == 1
    assert rows[3:] == [
        f"overall, m: {name} is the mean of the 1 of 2 videos that define it"
        for name in ("recall", "FNR", "precision", "F")
    ]


def test_table_of_several_categories():
    rows = lines([score("a", Confusion(6, 2, 4, 88), "x"), score("a", EMPTY, "y")])[1:]
    assert [row.split("  ")[0] for row in rows[:5]] == ["x/a", "y/a", "mean of x", "mean of y", "overall"]
    assert rows[3].split()[4:6] == ["-", "1.0000"]
    assert rows[5] == "overall, m: recall is the mean of the 1 of 2 categories that define it"


SCORES = [
    Score("busy, too", "bgsub", Confusion(60, 20, 40, 880, 9, 3), 5, 1.25, "x", 7),
    Score("still", "bgsub", Confusion(tn=100), 1, 2.75, "ü", 1),
]


def test_json_content():
    content = json.loads(format_json(SCORES, {"bgsub": {"rank": 3, "mu": None}}))
    assert list(content) == ["schema", "versions", "parameters", "videos", "categories", "overall"]
    assert content["schema"] == SCHEMA
    assert content["versions"]["bgsub"] == __version__
    assert set(content["versions"]) == {"bgsub", "opencv", "numpy", "python"}
    assert content["parameters"] == {"bgsub": {"rank": 3, "mu": None}}
    busy, still = content["videos"]
    expected = {"category": "x", "video": "busy, too", "method": "bgsub", "frames": 7, "scored_frames": 5}
    expected |= {"tp": 60, "fp": 20, "fn": 40, "tn": 880, "shadow": 9, "shadow_fp": 3, "milliseconds_per_frame": 1.25}
    assert busy == expected | {name: getattr(SCORES[0].confusion, name) for name in METRICS}
    assert (still["recall"], still["f_measure"], still["specificity"]) == (None, None, 1)
    (overall,) = content["overall"]
    assert (overall["categories"], overall["defined"]["recall"], overall["recall"]) == (2, 1, 0.6)
    assert overall["milliseconds_per_frame"] == 2.0
    assert [(c["category"], c["videos"]) for c in content["categories"]] == [("x", 1), ("ü", 1)]


def test_csv_content(tmp_path):
    write_csv(tmp_path / "o.csv", SCORES)
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["level"], row["category"], row["video"], row["parts"]) for row in rows] == [
        *(("video", "x", "busy, too", ""), ("video", "ü", "still", "")),
        *(("category", "x", "", "1"), ("category", "ü", "", "1"), ("overall", "", "", "2")),
    ]
    assert (rows[0]["scored_frames"], rows[1]["recall"], rows[3]["recall"]) == ("5", "", "")
    overall = summarise(SCORES)[-1]
    assert [float(rows[4][name]) for name in METRICS] == [overall.values[name] for name in METRICS]


def test_csv_is_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "o"
    path.write_text("before")

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(SinkError, match=r"o' cannot be written: No space left on device"):
            write_csv(path, SCORES)
    assert path.read_text() == "before"
    write_csv(path, SCORES)
    assert "busy, too" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["o"]
    with pytest.raises(SinkError, match="cannot be written: No such file or directory"):
        write_csv(tmp_path / "gone" / "o", SCORES)
