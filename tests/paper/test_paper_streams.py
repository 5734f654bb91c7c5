"""The synthetic streams of experiment 6, and its trackers."""

from itertools import islice

import numpy as np
import pytest
from stream import MAGNITUDE, Stream, angle
from stream_trackers import COMPARED, METHODS, OURS, YARDSTICK

from bgsub.errors import ParameterError

pytestmark = pytest.mark.large  # streams of some hundred vectors
SMALL = {"dimension": 60, "rank": 2, "length": 400}


def made(**changes):
    return Stream(**{**SMALL, **changes})


def samples(**changes):
    return np.stack([x for _, x, _ in made(**changes)])


def test_all_principal_angles_grow_equally():
    bases = [U for U, _, _ in made(length=101, speed=3e-3)]
    np.testing.assert_allclose(bases[100].T @ bases[100], np.eye(2), atol=1e-12)
    np.testing.assert_allclose(np.linalg.svd(bases[0].T @ bases[100])[1], np.cos(0.3), atol=1e-12)
    assert angle(bases[0], bases[100]) == pytest.approx(0.3)


def test_shares_of_outliers_and_missing_entries():
    with_outliers, without = made(dimension=400), made(dimension=400, outliers=0.0, observed=0.25)
    for (_, x, mask), (_, y, partly), _ in zip(with_outliers, without, range(20), strict=False):
        assert mask is None
        assert 0.03 < (x != y).mean() < 0.2
        assert np.abs(x - y).max() < MAGNITUDE
        assert 0.15 < partly.mean() < 0.35
    assert samples(outliers=0.0).std() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("noise", [10.0, 40.0])
def test_noise_level_in_db(noise):
    clean = samples(noise=np.inf)
    added = samples(noise=noise) - clean
    low_rank = samples(noise=np.inf, outliers=0.0)
    assert np.linalg.matrix_rank(low_rank) == 2
    assert 20 * np.log10(low_rank.std() / added.std()) == pytest.approx(noise, abs=0.5)


def test_object_covers_its_share_and_returns():
    without, with_object = samples(noise=np.inf), samples(noise=np.inf, block=0.25)
    stream, hit = made(block=0.25), without != with_object
    assert (hit.sum(axis=1) == 15).all()
    for t in (0, 100, 399):
        assert set(stream.covered(t)) == set(np.flatnonzero(hit[t]))
    assert stream.covered(100)[0] == 30  # half the range in a hundred samples
    np.testing.assert_array_equal(stream.covered(0), stream.covered(200))
    assert set(stream.covered(190)) == {*range(57, 60), *range(12)}


def test_abrupt_change():
    bases = [U for U, _, _ in made(change=150, speed=1e-3)]
    assert angle(bases[0], bases[149]) == pytest.approx(0.149)
    assert angle(bases[149], bases[150]) > 0.8
    assert angle(bases[150], bases[399]) == pytest.approx(0.249)
    np.testing.assert_array_equal(samples(change=150)[:150], samples()[:150])


def test_change_of_rank_keeps_directions():
    grown, shrunk = ([U for U, _, _ in made(rank=a, rank_after=b, change=50, kept=2)] for a, b in ((2, 5), (5, 2)))
    assert [grown[49].shape[1], grown[50].shape[1]] == [2, 5]
    assert angle(grown[50], grown[49]) < 1e-6  # the old ones are in the new
    assert angle(shrunk[49], shrunk[50]) < 1e-6
    assert angle(grown[49], grown[50]) > 1  # a rank too low misses a direction
    x = samples(rank=2, rank_after=5, change=50, kept=2, outliers=0.0, noise=np.inf)
    assert [np.linalg.matrix_rank(x[:50]), np.linalg.matrix_rank(x[50:])] == [2, 5]
    assert x[50:].std() == pytest.approx(1.0, abs=0.1)


def test_angle_to_values_that_are_not_finite():
    U = made().first_basis()
    assert angle(np.full_like(U, np.nan), U) == np.pi / 2
    assert angle(U, U) < 1e-7


@pytest.mark.parametrize("name", COMPARED)
def test_start_of_every_tracker(name):
    stream, method = made(seed=3, rank_after=3), METHODS[name]
    tracker = method.make(stream)
    tracker.update(np.zeros(60))
    if method.start:
        assert angle(tracker.U, next(iter(stream))[0]) < 0.05
    else:
        assert angle(tracker.U, stream.first_basis()) < 1e-5


@pytest.mark.parametrize(("name", "observed"), [(name, 1 - i % 2 / 2) for i, name in enumerate(COMPARED)])
def test_every_tracker_finds_a_static_subspace(name, observed):
    stream, method = made(outliers=0.0, observed=observed, length=1500), METHODS[name]
    if not method.takes(stream):
        with pytest.raises(ParameterError, match="missing"):
            method.make(stream).update(np.ones(60), np.arange(60) > 0)
        return
    tracker, truth = method.make(stream), next(iter(stream))[0]
    for _, x, mask in islice(stream, method.spent(stream), None):
        tracker.update(x, mask)
    assert tracker.U.shape == (60, 2)
    np.testing.assert_allclose(tracker.U.T @ tracker.U, np.eye(2), atol=1e-5)
    assert angle(tracker.U, truth) < 0.1


def test_yardstick_gets_the_stream_without_outliers_and_object():
    stream = made(block=0.1, seed=2)
    assert METHODS[YARDSTICK].stream(stream) == made(outliers=0.0, seed=2)
    assert METHODS["GROUSE"].stream(stream) is stream
    assert METHODS[OURS].stream(stream) is stream
