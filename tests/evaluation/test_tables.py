"""Averages, text table, JSON and CSV of scores."""

import base64
import html
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bgsub import __version__
from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.evaluation import Confusion, Score, Sheet, confusion, error_image, format_json, format_table, summarise
from bgsub.evaluation.sheet import WorstFrames
from bgsub.evaluation.tables import METRICS, SCHEMA


def score(video, counts, category="c", method="m", milliseconds=1.0):
    return Score(video, method, counts, 1, milliseconds, category, 2)


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


def lines(scores):
    return format_table(scores, summarise(scores)).splitlines()


def test_table_of_one_video_has_no_averages():
    rows = lines([score("a", Confusion(60, 20, 40, 880), milliseconds=1.234), score("a", Confusion(), method="n")])
    heads = ["sequence", "method", "recall", "specificity", "FPR", "FNR", "PWC", "precision", "F", "ms/frame"]
    numbers = ["0.6000", "0.9778", "0.0222", "0.4000", "6.0000", "0.7500", "0.6667", "1.23"]
    assert [row.split() for row in rows] == [heads, ["a", "m", *numbers], ["a", "n", *["-"] * 7, "1.00"]]
    assert len({len(row) for row in rows}) == 1


def test_table_of_one_category_ends_with_overall():
    head, *rows = lines([score("a", Confusion(6, 2, 4, 88)), score("b", Confusion(tn=100))])  # nothing moves in b
    assert [row.split()[0] for row in rows[:3]] == ["a", "b", "overall"]
    assert len({len(row) for row in [head, *rows[:3]]}) == 1
    assert rows[3:] == [
        f"overall, m: {name} is the mean of the 1 of 2 videos that define it"
        for name in ("recall", "FNR", "precision", "F")
    ]


BUSY = Score("busy, too", "bgsub", Confusion(60, 20, 40, 880, 9, 3), 5, 1.25, "x", 7)
SCORES = [BUSY, Score("still", "bgsub", Confusion(tn=100), 1, 2.75, "ü", 1)]


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
    assert busy == expected | {name: getattr(BUSY.confusion, name) for name in METRICS}
    assert (still["recall"], still["f_measure"], still["specificity"]) == (None, None, 1)
    (overall,) = content["overall"]
    assert (overall["categories"], overall["recall"]) == (2, 0.6)  # the other one is undefined
    undefined = dict.fromkeys(("recall", "fnr", "precision", "f_measure"), 1)
    assert overall["defined"] == dict.fromkeys(METRICS, 2) | undefined
    assert overall["milliseconds_per_frame"] == 2.0
    assert [(c["category"], c["videos"]) for c in content["categories"]] == [("x", 1), ("ü", 1)]


SHAPE = (5, 7)
GOOD = np.zeros((4, 4), np.uint8)


def counted(mask, truth, roi) -> Confusion:
    """Count the pixels of each kind."""
    scored = (truth != 85) & (truth != 170) & (roi != 0)
    found, moving, shadow = mask > 127, truth == 255, truth == 50
    kinds = found & moving, found & ~moving, ~found & moving, ~found & ~moving, shadow, found & shadow
    return Confusion(*(np.count_nonzero(scored & kind) for kind in kinds))


@settings(max_examples=60)
@given(
    arrays(np.uint8, SHAPE, elements=st.sampled_from([0, 1, 126, 127, 128, 255])),
    arrays(np.uint8, SHAPE, elements=st.sampled_from([0, 50, 85, 170, 255])),
    arrays(np.uint8, SHAPE, elements=st.sampled_from([0, 1, 255])),
)
def test_counts_are_those_of_each_kind_of_pixel(mask, truth, roi):
    assert confusion(mask, truth, roi) == counted(mask, truth, roi)
    assert confusion(mask, truth) == counted(mask, truth, np.ones(SHAPE))
    assert confusion(mask > 127, truth, roi != 0) == confusion(mask, truth, roi)


def test_ratios():
    c = Confusion(tp=60, fp=20, fn=40, tn=880, shadow=50, shadow_fp=10)
    expected = {"recall": 0.6, "specificity": 880 / 900, "fpr": 20 / 900, "fnr": 0.4, "pwc": 6.0, "precision": 0.75}
    expected |= {"scored": 1000, "f_measure": 2 * 0.6 * 0.75 / (0.6 + 0.75)}
    assert {name: getattr(c, name) for name in expected} == pytest.approx(expected)
    assert sum([Confusion(1, 2, 3, 4, 5, 6), Confusion(9, 8, 7, 6, 5, 4)], Confusion()) == Confusion(*[10] * 6)


@pytest.mark.filterwarnings("error")
def test_ratios_with_denominator_zero_are_nan():
    nothing = Confusion(tn=35)
    for name in ("recall", "fnr", "precision", "f_measure"):
        assert math.isnan(getattr(nothing, name))
    assert (nothing.specificity, nothing.pwc) == (1, 0)
    assert math.isnan(Confusion().pwc)
    alarm = Confusion(fp=35)
    assert (alarm.f_measure, alarm.precision) == (0, 0)
    assert math.isnan(alarm.recall)


@pytest.mark.parametrize(
    ("mask", "truth", "roi", "message"),
    [
        (GOOD.astype(float), GOOD, None, "mask must be .* float64"),
        (np.zeros((4, 4, 3), np.uint8), GOOD, None, r"mask must be .*\(4, 4, 3\)"),
        (GOOD, np.zeros((4, 5), np.uint8), None, r"truth must be .*\(4, 5\)"),
        (GOOD, GOOD > 0, None, "truth must be uint8 .* bool"),
        (GOOD, GOOD + 127, None, "got 127"),
        (GOOD, GOOD, np.zeros((2, 2)), "roi must have"),
    ],
)
def test_bad_arrays(mask, truth, roi, message):
    with pytest.raises(ParameterError, match=message):
        confusion(mask, truth, roi)


def test_error_image_colours_errors():
    frame = np.full((2, 3), 100, np.uint8)
    truth = np.array([[255, 255, 0], [50, 170, 0]], np.uint8)
    mask = np.array([[255, 0, 255], [255, 255, 0]], np.uint8)
    image = error_image(frame, mask, truth)
    assert image.argmax(axis=2).tolist() == [[1, 0, 2], [2, 0, 0]]
    assert image[1, 1:].tolist() == [[50, 50, 50]] * 2
    assert (frame == 100).all()
    assert np.array_equal(error_image(cv2.cvtColor(frame, cv2.COLOR_GRAY2BGR), mask, truth), image)
    with pytest.raises(ParameterError, match="one size"):
        error_image(frame, mask[:, :2], truth)
    with pytest.raises(ParameterError, match="frame must be"):
        error_image(frame.astype(float), mask, truth)


FRAME = np.full((24, 32, 3), 100, np.uint8)
TRUTH = np.zeros((24, 32), np.uint8)
TRUTH[:10, :10] = 255


def mask_with(wrong):
    """The true mask with `wrong` false alarms."""
    mask = TRUTH.copy()
    mask[20:].reshape(-1)[:wrong] = 255
    return mask


def collect(wrongs, **options):
    worst = WorstFrames(**options)
    for number, wrong in enumerate(wrongs, start=1):
        worst(number, FRAME, mask_with(wrong), TRUTH)
    return worst.frames()


def test_frames_with_most_wrong_pixels_are_kept():
    frames = collect([3, 50, 7, 0, 20, 50, 1], count=3)
    assert [(frame.number, frame.wrong) for frame in frames] == [(2, 50), (6, 50), (5, 20)]
    assert frames[0].confusion.fp == 50


def test_correct_and_unscored_frames_are_not_kept():
    assert collect([0, 0], count=3) == []
    worst = WorstFrames(3)
    worst(1, FRAME, mask_with(9), None)
    assert worst.frames() == []
    mask = mask_with(5)
    worst(1, FRAME, mask, TRUTH)
    mask[:] = 255  # the arrays are copied
    assert np.array_equal(worst.frames()[0].mask, mask_with(5))


def test_only_the_worst_of_near_frames_is_kept():
    frames = collect([10, 30, 20, 5, 5, 9, 8, 8, 40], count=8, gap=3)
    assert [frame.number for frame in frames] == [9, 2, 6]


def test_strip_shows_input_truth_mask_and_errors():
    roi = np.ones(TRUTH.shape, bool)
    roi[20:, :2] = False
    (frame,) = collect([5], count=1, roi=roi)
    assert frame.wrong == 3
    first, truth, mask, errors = (frame.strip[:, x : x + 32] for x in (0, 36, 72, 108))
    assert frame.strip.shape == (24, 140, 3)
    assert np.array_equal(first, FRAME)
    inside = np.where(roi, TRUTH, 85).astype(np.uint8)
    assert np.array_equal(truth[..., 0], inside)
    assert np.array_equal(mask[..., 1], mask_with(5))
    assert np.array_equal(errors, error_image(FRAME, mask_with(5), inside))
    assert (errors[20, :2] == 50).all()
    assert errors[20, 3].argmax() == 2


def test_page_embeds_pictures_and_escapes_names(tmp_path):
    frames = collect([3, 50], count=2)
    sheet = Sheet(tmp_path / "sheet.html")
    sheet.add('a <script>&"b', frames)
    sheet.add("perfect", [])
    sheet.write()
    page = (tmp_path / "sheet.html").read_text(encoding="utf-8")
    assert "<script" not in page
    for text in (
        'a <script>&"b',
        "No wrong pixel.",
        "frame 2: F 0.800, 50 false positives, 0 false negatives, 100 true positives",
    ):
        assert text in html.unescape(page)
    images = re.findall('<img[^>]*src="data:image/jpeg;base64,([^"]*)"', page)
    assert len(images) == 2
    image = cv2.imdecode(np.frombuffer(base64.b64decode(images[0]), np.uint8), cv2.IMREAD_COLOR)
    assert image.shape == frames[0].strip.shape
    assert np.abs(image.astype(int) - frames[0].strip).mean() < 8
    with pytest.raises(ParameterError, match=r"a sheet must end in \.html, got '.*sheet\.png'"):
        Sheet(tmp_path / "sheet.png")
