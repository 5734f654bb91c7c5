"""The synthetic streams of experiment 6, and its trackers."""

import numpy as np
import pytest
from stream import Stream, angle
from stream_trackers import COMPARED, METHODS

pytestmark = pytest.mark.large  # streams of some hundred vectors
SMALL = {"dimension": 60, "rank": 2, "length": 400}


def made(**changes):
    return Stream(**{**SMALL, **changes})


def test_change_of_rank_keeps_directions():
    grown, shrunk = ([U for U, _, _ in made(rank=a, rank_after=b, change=50, kept=2)] for a, b in ((2, 5), (5, 2)))
    assert [grown[49].shape[1], grown[50].shape[1]] == [2, 5]
    assert angle(grown[50], grown[49]) < 1e-6  # the old ones are in the new
    assert angle(shrunk[49], shrunk[50]) < 1e-6
    assert angle(grown[49], grown[50]) > 1  # a rank too low misses a direction
    x = np.stack([x for _, x, _ in made(rank=2, rank_after=5, change=50, kept=2, outliers=0.0, noise=np.inf)])
    assert [np.linalg.matrix_rank(x[:50]), np.linalg.matrix_rank(x[50:])] == [2, 5]
    assert x[50:].std() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("name", COMPARED)
def test_start_of_every_tracker(name):
    stream, method = made(seed=3, rank_after=3), METHODS[name]
    tracker = method.make(stream)
    tracker.update(np.zeros(60))
    if method.start:
        assert angle(tracker.U, next(iter(stream))[0]) < 0.05
    else:
        assert angle(tracker.U, stream.first_basis()) < 1e-5
