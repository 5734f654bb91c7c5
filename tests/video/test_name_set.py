"""Names in runs, against a plain set."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bgsub.video.sinks.images import NameSet

names = st.one_of(
    st.integers(0, 40).map("bin{:06d}".format),
    st.integers(0, 120).map("bin{}".format),
    st.integers(0, 12).map("mask_in{:02d}".format),
    st.sampled_from(["bin_a", "bin", "b1n", "x9y", "é7"]),
)


@given(st.lists(names))
def test_it_is_a_set(given_names):
    taken, plain = NameSet(), set()
    for name in given_names:
        assert (name in taken) == (name in plain)
        if name not in plain:
            taken.add(name)
            plain.add(name)
        taken = NameSet(json.loads(json.dumps(taken.ranges())))
        assert len(taken) == len(plain)
    assert all(name in taken for name in plain)


def test_a_day_of_frames_is_one_run():
    taken = NameSet()
    for number in range(200_000):
        taken.add(f"bin{number:07d}")
    assert taken.ranges() == [["bin", 7, 0, 199_999]]
