"""The script that runs one stream for a long time, shortened."""

import importlib
import re

import numpy as np
import pytest
from environments import ROOT


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("soak")


@pytest.mark.slow
@pytest.mark.parametrize("way", [[], ["--command-line"]])
def test_report_after_hostile_frames(way, soak, capsys):
    with pytest.raises(SystemExit) as ended:
        soak.main(["--frames", "600", "--size", "64x48", "--round", "200", *way], standalone_mode=False)
    said = capsys.readouterr().out
    assert said.count(" frames  ") == 10
    assert re.search(r"basis: \|U U' - I\| \d.\de-\d\d; bad frames taken: 0\n", said)
    found, alone = map(
        float, re.search(r"F of the last 200 frames: (0.\d+); of a fresh model: (0.\d+)\n", said).groups()
    )
    assert ended.value.code == (0 if found > alone - soak.LOST else 1), said
    assert alone > 0.5


def test_stream_is_reproducible(soak):
    street = soak.Street((64, 48), 60)
    one, other = (list(street.stream(700)) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one[-60:], street.frames)
    hostile = [i for i, frame in enumerate(one[:640]) if not np.array_equal(frame, street.frames[i % 60])]
    assert {i // soak.EVERY for i in hostile} == {1, 2, 3}
    assert all(i % soak.EVERY < soak.LONGEST for i in hostile)
