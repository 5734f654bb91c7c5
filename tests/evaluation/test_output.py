"""Scores as JSON and CSV: what they hold, and that a file is whole or not there."""

from __future__ import annotations

import csv
import json

import pytest

from bgsub import __version__
from bgsub.errors import SinkError
from bgsub.evaluation import Confusion, Score, format_json, summarise, write_csv
from bgsub.evaluation.tables import METRICS, SCHEMA

SCORES = [
    Score("busy, too", "bgsub", Confusion(60, 20, 40, 880, 9, 3), 5, 1.25, "x", 7),
    Score("still", "bgsub", Confusion(tn=100), 1, 2.75, "ü", 1),
]


def test_json_holds_counts_metrics_averages_versions_and_parameters():
    content = json.loads(format_json(SCORES, {"bgsub": {"rank": 3, "mu": None}}))
    assert list(content) == ["schema", "versions", "parameters", "videos", "categories", "overall"]
    assert content["schema"] == SCHEMA
    assert content["versions"]["bgsub"] == __version__
    assert set(content["versions"]) == {"bgsub", "opencv", "numpy", "python"}
    assert content["parameters"] == {"bgsub": {"rank": 3, "mu": None}}
    busy, still = content["videos"]
    counts = {"tp": 60, "fp": 20, "fn": 40, "tn": 880, "shadow": 9, "shadow_fp": 3}
    assert busy == {
        "category": "x",
        "video": "busy, too",
        "method": "bgsub",
        "frames": 7,
        "scored_frames": 5,
        **counts,
        **{name: getattr(SCORES[0].confusion, name) for name in METRICS},
        "milliseconds_per_frame": 1.25,
    }
    assert still["recall"] is still["f_measure"] is None
    assert still["specificity"] == 1
    (overall,) = content["overall"]
    assert (overall["categories"], overall["defined"]["recall"], overall["recall"]) == (2, 1, 0.6)
    assert overall["milliseconds_per_frame"] == 2.0
    assert [(c["category"], c["videos"]) for c in content["categories"]] == [("x", 1), ("ü", 1)]


def test_csv_has_the_same_numbers(tmp_path):
    write_csv(tmp_path / "o.csv", SCORES)
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["level"] for row in rows] == ["video", "video", "category", "category", "overall"]
    assert [row["video"] for row in rows] == ["busy, too", "still", "", "", ""]
    assert [row["category"] for row in rows] == ["x", "ü", "x", "ü", ""]
    assert [row["parts"] for row in rows] == ["", "", "1", "1", "2"]
    assert rows[0]["scored_frames"] == "5"
    assert rows[1]["recall"] == rows[3]["recall"] == ""
    overall = summarise(SCORES)[-1]
    assert [float(rows[4][name]) for name in METRICS] == [overall.values[name] for name in METRICS]


def test_a_file_is_replaced_as_a_whole_or_left_alone(tmp_path, monkeypatch):
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
