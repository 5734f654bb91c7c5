"""Places in a video: what can be written, and what it means."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saying import says

from bgsub.errors import ParameterError
from bgsub.video.timecode import Timecode

SYNTAX = "a frame number (120), seconds (12.5 or 12s) or h:mm:ss (1:02:03.5)"


def frame(number):
    return Timecode(frame=number)


def seconds(number):
    return Timecode(seconds=Fraction(number))


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("0", frame(0)),
        ("120", frame(120)),
        (" 120 ", frame(120)),
        (120, frame(120)),
        ("12.5", seconds("12.5")),
        ("12.", seconds(12)),
        (".5", seconds("0.5")),
        ("12s", seconds(12)),
        ("12.5s", seconds("12.5")),
        (12.5, seconds("12.5")),
        (Fraction(1, 3), seconds(Fraction(1, 3))),
        ("02:03", seconds(123)),
        ("90:00", seconds(5400)),
        ("2:3.25", seconds("123.25")),
        ("1:02:03.5", seconds("3723.5")),
        ("100:00:00", seconds(360000)),
        (seconds(3), seconds(3)),
    ],
)
def test_parse(value, place):
    assert Timecode.parse(value) == place


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "-1", "-1.5", "+1", "1e3", "nan", "inf", "12 s", "s", ".", ".s", "1:60", "1:60:00", "1:2:3:4"),
        *(":30", "1:", "1::2", "1.5:00", "1:02:03.5s", "0x10", "\u0663", "12,5", "abc"),
        *(-1, -0.5, float("nan"), float("inf"), True, None, b"1", [1]),
    ],
)
def test_what_is_no_place(value):
    with says(ParameterError, f"--start must be {SYNTAX}, got {value!r}"):
        Timecode.parse(value, "--start")


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_clock_is_hours_minutes_and_seconds(hours, minutes, secs, thousandths):
    text = f"{hours}:{minutes:02d}:{secs:02d}.{thousandths:03d}"
    expected = 3600 * hours + 60 * minutes + secs + Fraction(thousandths, 1000)
    assert Timecode.parse(text) == seconds(expected)
    if hours == 0:
        assert Timecode.parse(text.removeprefix("0:")) == seconds(expected)


@given(st.decimals(0, 10**6, places=3))
def test_seconds_are_exact(number):
    assert Timecode.parse(f"{number}s") == Timecode.parse(str(number)) == seconds(Fraction(number))


@given(st.integers(0, 10**12 - 1))
def test_digits_are_a_frame(number):
    assert Timecode.parse(str(number)) == Timecode.parse(number) == frame(number)


@settings(max_examples=300)
@given(st.one_of(st.text(max_size=12), st.from_regex(r"[0-9:.s-]{0,12}", fullmatch=True)))
def test_any_text_is_a_place_or_one_line(text):
    try:
        place = Timecode.parse(text)
    except ParameterError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 - either is right
    else:
        assert (place.frame is None) != (place.seconds is None)
        assert place.amount >= 0


@pytest.mark.parametrize(
    ("place", "fps", "number"),
    [
        (frame(7), None, 7),
        (frame(7), Fraction(25), 7),
        (seconds(2), Fraction(25), 50),
        (seconds("0.05"), Fraction(25), 2),
        (seconds(2), Fraction(30000, 1001), 60),
        (seconds(2), None, None),
    ],
)
def test_in_frames(place, fps, number):
    assert place.in_frames(fps) == number


def test_as_text():
    assert [str(place) for place in (frame(7), seconds(2), seconds("3723.5"))] == ["frame 7", "2 s", "3723.5 s"]
