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
    assert c.scored == 1000
    assert c.recall == pytest.approx(0.6)
    assert c.specificity == pytest.approx(880 / 900)
    assert c.fpr == pytest.approx(20 / 900)
    assert c.fnr == pytest.approx(0.4)
    assert c.pwc == pytest.approx(6.0)
    assert c.precision == pytest.approx(0.75)
    assert c.f_measure == pytest.approx(2 * 0.6 * 0.75 / (0.6 + 0.75))
    assert c.shadow_fpr == pytest.approx(0.2)


def test_confusions_add_up():
    total = sum([Confusion(1, 2, 3, 4, 5, 6), Confusion(10, 20, 30, 40, 50, 60)], Confusion())
    assert total == Confusion(11, 22, 33, 44, 55, 66)


def test_ratios_with_denominator_zero_are_nan():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nothing = confusion(np.zeros(SHAPE, np.uint8), np.zeros(SHAPE, np.uint8))
        for name in ("recall", "fnr", "precision", "f_measure", "shadow_fpr"):
            assert math.isnan(getattr(nothing, name))
        assert nothing.specificity == 1
        assert nothing.pwc == 0
        assert math.isnan(Confusion().pwc)


def test_false_alarms_without_motion_give_f_zero():
    alarm = confusion(np.full(SHAPE, 255, np.uint8), np.zeros(SHAPE, np.uint8))
    assert alarm.f_measure == 0
    assert alarm.precision == 0
    assert math.isnan(alarm.recall)


@pytest.mark.parametrize(
    ("mask", "truth", "roi", "message"),
    [
        (np.zeros((4, 4)), np.zeros((4, 4), np.uint8), None, "mask must be .* float64"),
        (np.zeros((4, 4, 3), np.uint8), np.zeros((4, 4), np.uint8), None, r"mask must be .*\(4, 4, 3\)"),
        (np.zeros((4, 4), np.uint8), np.zeros((4, 5), np.uint8), None, r"truth must be .*\(4, 5\)"),
        (np.zeros((4, 4), np.uint8), np.zeros((4, 4), bool), None, "truth must be uint8 .* bool"),
        (np.zeros((4, 4), np.uint8), np.full((4, 4), 127, np.uint8), None, "got 127"),
        (np.zeros((4, 4), np.uint8), np.zeros((4, 4), np.uint8), np.zeros((2, 2)), "roi must have"),
    ],
)
def test_bad_arrays(mask, truth, roi, message):
    with pytest.raises(ParameterError, match=message):
        confusion(mask, truth, roi)
