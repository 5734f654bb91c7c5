"""Experiment 6 at tiny sizes: the synthetic streams."""

import numpy as np
import pytest
import stream_trackers
import streams
from paper_kit import assert_picture, call, rows_of

pytestmark = pytest.mark.large  # streams of some hundred vectors


def made(**changes):
    values = {"dimension": 60, "rank": 2, "length": 400, "speed": 0.0, "observed": 1.0, "outliers": 0.1, "seed": 0}
    return stream_trackers.Stream(**{**values, **changes})


def test_all_principal_angles_of_a_stream_grow_alike():
    bases = [U for U, _, _ in made(length=101, speed=3e-3)]
    np.testing.assert_allclose(bases[100].T @ bases[100], np.eye(2), atol=1e-12)
    np.testing.assert_allclose(np.linalg.svd(bases[0].T @ bases[100])[1], np.cos(0.3), atol=1e-12)
    assert stream_trackers.angle(bases[0], bases[100]) == pytest.approx(0.3)


def test_streams_differ_in_nothing_but_what_was_asked():
    with_outliers, without = made(dimension=400), made(dimension=400, outliers=0.0, observed=0.25)
    for (_, x, mask), (_, y, partly), _ in zip(with_outliers, without, range(20), strict=False):
        hit = x != y
        assert mask is None
        assert 0.03 < hit.mean() < 0.2
        assert np.abs(x - y).max() < stream_trackers.MAGNITUDE
        assert 0.15 < partly.mean() < 0.35
    low_rank = np.stack([x for _, x, _ in made(outliers=0.0)])
    assert low_rank.std() == pytest.approx(1.0, abs=0.1)


def test_every_tracker_begins_from_the_same_basis():
    stream, nothing = made(seed=3), np.zeros(60)
    for name, tracker_of in stream_trackers.TRACKERS.items():
        tracker = tracker_of(stream, None)
        tracker.update(nothing)
        assert stream_trackers.angle(tracker.U, stream.first_basis()) < 1e-5, name


@pytest.mark.parametrize("observed", [1.0, 0.25])
def test_the_batch_start_is_near_and_all_begin_from_it(observed):
    stream = made(observed=observed)
    truth = next(iter(stream))[0]
    start = stream_trackers.batch(stream, 100)
    assert stream_trackers.angle(start[0], truth) < 0.02
    for name, tracker_of in stream_trackers.TRACKERS.items():
        assert stream_trackers.angle(tracker_of(stream, start).U, start[0]) < 1e-5, name


@pytest.fixture(scope="module")
def stream_results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    sizes = ("--dimension", 60, "--rank", 2, "--length", 500, "--start", 100, "--seeds", 2, "--speed-seeds", 1)
    result = call(streams, *sizes, "--speed", 1e-3, "--speeds", 2e-3, "--out", folder)
    assert result.exit_code == 0
    assert "ms per sample" in result.output
    return folder


def angles(folder, speed, observed, method, outliers=0.1, start="random"):
    """Return the angles of one variant, (seeds, counts), NaN within the batch start."""
    wanted = {"speed": speed, "observed": observed, "outliers": outliers}
    rows = [
        row
        for row in rows_of(folder / "streams.csv")
        if (row["method"], row["start"]) == (method, start) and all(float(row[n]) == v for n, v in wanted.items())
    ]
    assert rows
    return np.array([[float(row[name] or "nan") for name in row if name.startswith("angle_")] for row in rows])


def test_streams_write_one_row_per_task_and_two_figures(stream_results):
    rows = rows_of(stream_results / "streams.csv")
    shown, further = 2 * 2 * 2 * (len(streams.COLD) + len(streams.WARM)), 2 * len(streams.RACE)
    assert len(rows) == shown + further
    assert {row["speed"] for row in rows} == {"0", "0.001", "0.002"}
    for name in ("streams", "streams_speed"):
        assert_picture(stream_results / f"{name}.png")


@pytest.mark.parametrize("method", ["bgsub", "bgsub, mu = 0.01"])
def test_the_angle_to_a_static_subspace_falls(stream_results, method):
    found = angles(stream_results, 0.0, 1.0, method)
    assert found[:, 0].min() > 0.3
    assert found[:, -1].max() < 0.05
    assert angles(stream_results, 0.0, 0.25, method, start="batch")[:, -1].max() < 0.05


def test_the_angle_to_a_rotating_subspace_stays_bounded(stream_results):
    found = angles(stream_results, 1e-3, 1.0, "bgsub")
    late = streams.counts(500).index(next(c for c in streams.counts(500) if c > 250))
    assert found[:, late:].max() < 0.15
    assert found[:, -1].min() > 1e-3  # it lags behind


def test_grouse_tracks_what_has_no_outliers_only(stream_results):
    clean = angles(stream_results, 0.0, 1.0, "GROUSE", outliers=0.0)
    assert clean[:, -1].max() < 0.01
    assert angles(stream_results, 0.0, 1.0, "GROUSE")[:, -1].min() > 5 * clean[:, -1].max()


def test_samples_of_the_batch_start_are_spent(stream_results):
    found = angles(stream_results, 0.0, 1.0, "bgsub", start="batch")
    counts = np.array(streams.counts(500))
    assert np.isnan(found[:, counts < 100]).all()
    assert np.isfinite(found[:, counts >= 100]).all()


def test_streams_refuse_sizes_that_do_not_fit(tmp_path):
    result = call(streams, "--dimension", 8, "--rank", 5, "--out", tmp_path)
    assert (result.exit_code, "--rank" in result.output) == (2, True)
    assert not list(tmp_path.iterdir())
