"""Averages as changedetection.net defines them, and metrics that some videos do not define."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.evaluation import Confusion, Score, format_table, summarise
from bgsub.evaluation.tables import METRICS

EMPTY = Confusion(tn=100)
"""Nothing moved and nothing was marked: recall, precision and F have no value."""


def score(video, counts, category="c", method="m", milliseconds=1.0):
    return Score(video, method, counts, 1, milliseconds, category, 2)


def find(averages, category, method="m"):
    (average,) = (a for a in averages if (a.category, a.method) == (category, method))
    return average


def test_a_category_is_the_mean_of_videos_and_overall_the_mean_of_categories():
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


def test_a_metric_that_a_video_does_not_define_is_left_out_and_counted():
    averages = summarise([score("a", Confusion(6, 2, 4, 88)), score("b", EMPTY)])
    mean = find(averages, "c")
    assert mean.values["f_measure"] == pytest.approx(12 / 18)
    assert mean.values["specificity"] == pytest.approx((88 / 90 + 1) / 2)
    assert mean.defined == dict.fromkeys(METRICS, 2) | dict.fromkeys(("recall", "fnr", "precision", "f_measure"), 1)
    assert find(averages, None).defined["f_measure"] == 1


def test_a_metric_that_no_video_defines_is_nan_and_leaves_the_other_categories_alone():
    averages = summarise([score("a", EMPTY, "still"), score("b", Confusion(6, 2, 4, 88), "busy")])
    assert math.isnan(find(averages, "still").values["recall"])
    assert find(averages, None).values["recall"] == pytest.approx(0.6)
    assert find(averages, None).defined["recall"] == 1


def test_finding_nothing_of_what_moves_counts_as_zero():
    averages = summarise([score("a", Confusion(10, 0, 0, 90)), score("b", Confusion(0, 0, 10, 90))])
    assert find(averages, None).values["f_measure"] == 0.5


counts = st.builds(Confusion, *[st.integers(0, 50)] * 4)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(counts, st.sampled_from("xyz")), min_size=1, max_size=8))
def test_averages_lie_between_the_worst_and_the_best_video(videos):
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


def test_the_table_of_one_video_has_no_averages():
    assert len(lines([score("a", EMPTY), score("a", EMPTY, method="n")])) == 3


def test_the_table_of_one_category_ends_with_overall_and_tells_what_it_left_out():
    head, *rows = lines([score("a", Confusion(6, 2, 4, 88)), score("b", EMPTY)])
    assert [row.split()[0] for row in rows[:3]] == ["a", "b", "overall"]
    assert len({len(row) for row in [head, *rows[:3]]}) == 1
    assert rows[3:] == [
        f"overall, m: {name} is the mean of the 1 of 2 videos that define it"
        for name in ("recall", "FNR", "precision", "F")
    ]


def test_the_table_of_several_categories_names_them():
    rows = lines([score("a", Confusion(6, 2, 4, 88), "x"), score("a", EMPTY, "y")])[1:]
    assert [row.split("  ")[0] for row in rows[:5]] == ["x/a", "y/a", "mean of x", "mean of y", "overall"]
    assert rows[3].split()[4:6] == ["-", "1.0000"]
    assert rows[5] == "overall, m: recall is the mean of the 1 of 2 categories that define it"
