"""The counts against a loop over pixels, the ratios against hand-made values."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bgsub.errors import ParameterError
from bgsub.evaluation import Confusion, confusion

SHAPE = (5, 7)
GOOD = np.zeros((4, 4), np.uint8)


def brute_force(mask, truth, roi) -> Confusion:
    tp = fp = fn = tn = shadow = shadow_fp = 0
    for i in range(mask.shape[0]):
        for j in range(mask.shape[1]):
            if truth[i, j] in (85, 170) or not roi[i, j]:
                continue
            found = mask[i, j] > 127
            if truth[i, j] == 255:
                tp, fn = tp + found, fn + (not found)
            else:
                fp, tn = fp + found, tn + (not found)
            if truth[i, j] == 50:
                shadow, shadow_fp = shadow + 1, shadow_fp + found
    return Confusion(*(int(v) for v in (tp, fp, fn, tn, shadow, shadow_fp)))


@settings(deadline=None, max_examples=60)
@given(
    arrays(np.uint8, SHAPE, elements=st.sampled_from([0, 1, 126, 127, 128, 255])),
    arrays(np.uint8, SHAPE, elements=st.sampled_from([0, 50, 85, 170, 255])),
    arrays(np.uint8, SHAPE, elements=st.sampled_from([0, 1, 255])),
)
def test_counts_equal_a_loop_over_pixels(mask, truth, roi):
    assert confusion(mask, truth, roi) == brute_force(mask, truth, roi)
    assert confusion(mask, truth) == brute_force(mask, truth, np.ones(SHAPE))
    assert confusion(mask > 127, truth, roi != 0) == confusion(mask, truth, roi)


def test_ratios():
    c = Confusion(tp=60, fp=20, fn=40, tn=880, shadow=50, shadow_fp=10)
    expected = {"recall": 0.6, "specificity": 880 / 900, "fpr": 20 / 900, "fnr": 0.4, "pwc": 6.0, "precision": 0.75}
    expected |= {"scored": 1000, "f_measure": 2 * 0.6 * 0.75 / (0.6 + 0.75), "shadow_fpr": 0.2}
    assert {name: getattr(c, name) for name in expected} == pytest.approx(expected)
    assert sum([Confusion(1, 2, 3, 4, 5, 6), Confusion(10, 20, 30, 40, 50, 60)], Confusion()) == Confusion(
        11, 22, 33, 44, 55, 66
    )


def test_ratios_with_denominator_zero_are_nan():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nothing = Confusion(tn=35)
        for name in ("recall", "fnr", "precision", "f_measure", "shadow_fpr"):
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
