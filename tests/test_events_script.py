"""The counts of missed, merged, split and false objects."""

import events as script
import numpy as np
import pytest
from click.testing import CliRunner

from bgsub.events.event import ObjectInFrame


def test_each_kind_of_error_is_counted():
    def mover(x):
        mask = np.zeros((20, 60), bool)
        mask[5:10, x : x + 5] = True
        return mask

    def seen(number, frame, x, w=5):
        return ObjectInFrame(number, frame, None, (x, 5, w, 5), (x, 5), 5 * w, np.ones((5, w), bool))

    # Mover 1 is split, 2 and 3 share an object, 4 is missed; one object is false.
    movers = [{(1,): mover(0), (2,): mover(10), (3,): mover(16), (4,): mover(40)} for _ in range(8)]
    scorer = script.ObjectScorer()
    for frame in range(8):
        scorer.add([seen(1 + frame // 4, frame, 0), seen(3, frame, 9, 12), seen(4, frame, 52)], movers)
    counts = scorer.counts(movers)
    assert counts == script.Counts(movers=4, objects=4, missed=1, merged=1, split=1, false=1)


@pytest.mark.large
def test_small_run(monkeypatch, tmp_path):
    monkeypatch.setattr(script, "SCENES", {"lobby": {"walkers": 2}})
    result = CliRunner().invoke(script.main, ["--frames", "60", "--seeds", "1"])
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.output.splitlines()] == ["scene", "lobby", "all"]
    refused = CliRunner().invoke(script.main, ["--seeds", "0", str(tmp_path / "none.mp4")])
    assert refused.exit_code == 1
    assert "no such file" in refused.output
