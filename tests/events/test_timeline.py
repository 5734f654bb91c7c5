"""The timeline: bounded memory, peaks, rows without overlap."""

import json
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.events._state import dump, load
from bgsub.events.summary.timeline import MOST_BARS, Bar, Series, longest, rows_of


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=200), st.sampled_from([4, 8, 32]))
def test_peaks_and_bounded_memory(values, most):
    series = Series(1, most)
    for index, value in enumerate(values):
        series.add(float(index), np.array([value]))
    times, low, high = series.points()
    assert len(times) == len(low) == len(high) <= most
    assert (low.min(), high.max()) == (min(values), max(values))
    assert times[0] == 0
    assert (np.diff(times) > 0).all()
    for begin, end, least, largest in zip(times, [*times[1:], len(values)], low, high, strict=True):
        part = values[int(begin) : int(end)]
        assert (least[0], largest[0]) == (min(part), max(part))


def test_missing_values():
    series = Series(1, 4)
    for index, value in enumerate([np.nan, 1.0, np.nan, np.nan, 3.0, np.nan]):
        series.add(float(index), np.array([value]))
    _, low, high = series.points()
    np.testing.assert_array_equal(high[:, 0], [1, np.nan, 3])
    np.testing.assert_array_equal(low[:, 0], high[:, 0])


def test_restored_series():
    values = np.random.default_rng(2).normal(size=(50, 3))
    straight, torn = Series(3, 8), Series(3, 8)
    for index, row in enumerate(values):
        if index % 7 == 3:
            torn = load(Series, json.loads(json.dumps(dump(torn), allow_nan=False)))
        straight.add(index / 25, row)
        torn.add(index / 25, row)
    for one, other in zip(straight.points(), torn.points(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_bars_in_a_row_do_not_overlap():
    rng = np.random.default_rng(4)
    starts = np.sort(rng.uniform(0, 100, 60))
    bars = [Bar("object", i, float(s), float(s + rng.uniform(0.1, 20))) for i, s in enumerate(starts)]
    rows = rows_of(bars, 0.5)
    for row in set(rows):
        mine = [bar for bar, at in zip(bars, rows, strict=True) if at == row]
        assert all(b.start - a.end >= 0.5 for a, b in pairwise(mine))
    most = max(sum(bar.start <= at <= bar.end + 0.5 for bar in bars) for at in starts)
    assert max(rows) + 1 == most


def test_only_the_longest_bars_are_kept():
    bars = [Bar("object", i, float(i), i + (i % 10) / 10) for i in range(MOST_BARS + 200)]
    kept = longest(bars)
    assert len(kept) == MOST_BARS
    assert [bar.start for bar in kept] == sorted(bar.start for bar in kept)
    assert min(bar.id % 10 for bar in kept) >= 2
