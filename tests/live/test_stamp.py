"""The stamp survives what pictures go through, and nothing else passes for one."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.live.loopback_camera import age, milliseconds, read_stamp, stamp

WORDS = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=40)
@given(WORDS, WORDS, st.sampled_from([(32, 48), (24, 64), (8, 160), (240, 320)]))
def test_a_stamp_survives_jpeg(number, moment, shape):
    image = np.random.default_rng(number).integers(0, 256, (*shape, 3), dtype=np.uint8)
    stamp(image, number, moment)
    assert read_stamp(image) == (number, moment)
    jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 80])[1]
    assert read_stamp(cv2.imdecode(jpeg, cv2.IMREAD_COLOR)) == (number, moment)


@pytest.mark.parametrize("level", [0, 60, 127, 128, 255])
def test_a_plain_picture_has_none(level):
    assert read_stamp(np.full((64, 64, 3), level, np.uint8)) is None


def test_a_small_picture_has_no_room():
    image = np.zeros((16, 16), np.uint8)
    assert read_stamp(image) is None
    with pytest.raises(ParameterError, match=r"^a stamp needs room for 72 squares of 4 pixels, got shape \(16, 16\)$"):
        stamp(image, 1, 2)


def test_age():
    begin = time.monotonic()
    moment = milliseconds()
    assert -0.001 <= age(moment) <= time.monotonic() - begin + 0.002
    assert age((moment - 5000) % 2**32) == pytest.approx(5, abs=0.5)
    assert age((moment + 5000) % 2**32) == pytest.approx(-5, abs=0.5)
