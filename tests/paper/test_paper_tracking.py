"""Experiments 5 and 6 at tiny sizes: the lobby figures and the synthetic streams."""

import cv2
import lobby
import lobby_frames
import numpy as np
import pytest
import stream_trackers
import streams
from paper_kit import assert_picture, call, rows_of

from bgsub.errors import SourceError

pytestmark = pytest.mark.large  # streams of some hundred vectors


# -- lobby


@pytest.fixture(scope="module")
def lobby_results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lobby")
    result = call(lobby, "--size", 48, 32, "--length", 97, "--out", folder)
    assert result.exit_code == 0
    return folder


def phase(folder, index, **wanted):
    rows = [row for row in rows_of(folder / "lobby.csv") if all(row[name] == value for name, value in wanted.items())]
    return {name: float(value) for name, value in rows[index].items() if name not in ("surrogate", "line_search")}


def test_lobby_writes_tables_of_all_variants_and_three_figures(lobby_results):
    rows = rows_of(lobby_results / "lobby_frames.csv")
    variants = {(row["surrogate"], row["mu"], row["line_search"]) for row in rows}
    assert len(variants) == 3 * 2 * 3
    assert len(rows) == len(variants) * (97 - 50)
    assert all(0 <= float(row["share_above"]) <= 1 and float(row["residual_energy"]) > 0 for row in rows)
    for name in ("lobby_people", "lobby_lamp", "lobby_curves"):
        assert_picture(lobby_results / f"{name}.png")
    phases = rows_of(lobby_results / "lobby.csv")
    assert len(phases) == 2 * len(variants)  # before and after the lamps go out
    assert {int(row["first_frame"]) for row in phases} == {50, 83}


def test_small_mu_keeps_people_out_of_the_background(lobby_results):
    small = phase(lobby_results, 0, surrogate="atan", mu="0.01", line_search="objective")
    large = phase(lobby_results, 0, surrogate="atan", mu="2", line_search="objective")
    assert small["f_measure"] > large["f_measure"]
    assert small["background_error"] < large["background_error"]


def test_large_mu_follows_the_lamps_and_small_mu_does_not(lobby_results):
    small = phase(lobby_results, 1, surrogate="atan", mu="0.01", line_search="objective")
    large = phase(lobby_results, 1, surrogate="atan", mu="2", line_search="objective")
    assert large["background_error"] < small["background_error"] / 1.5
    assert large["share_above"] < small["share_above"] / 2


def test_a_bound_on_the_step_saves_the_printed_line_search(lobby_results):
    bounded = phase(lobby_results, 0, surrogate="atan", mu="0.01", line_search=lobby.BOUNDED)
    printed = phase(lobby_results, 0, surrogate="atan", mu="0.01", line_search="sample")
    assert bounded["step_length"] <= 1 < printed["step_length"]
    assert bounded["f_measure"] > printed["f_measure"]
    rows = [row for row in rows_of(lobby_results / "lobby_frames.csv") if row["line_search"] == lobby.BOUNDED]
    assert max(float(row["step_length"]) for row in rows) <= 1


def write_images(folder, images):
    for name, image in images.items():
        assert cv2.imwrite(str(folder / name), image)


def flat(value, shape=(20, 24)):
    rng = np.random.default_rng(value)
    return np.clip(value + rng.normal(0, 1, shape), 0, 255).astype(np.uint8)


def test_a_folder_of_images_is_tracked_without_masks(tmp_path):
    frames, out = tmp_path / "frames", tmp_path / "out"
    frames.mkdir()
    values = [120] * 14 + [60] * 8
    write_images(frames, {f"lobby{i}.bmp": flat(value + i % 2) for i, value in enumerate(values, 5)})
    (frames / "readme.txt").write_text("no image")
    result = call(lobby, "--frames", frames, "--start", 8, "--out", out)
    assert result.exit_code == 0
    rows = rows_of(out / "lobby.csv")
    assert {(row["first_frame"], row["last_frame"]) for row in rows} == {("8", "13"), ("14", "21")}
    assert {row["f_measure"] for row in rows} == {""}
    assert_picture(out / "lobby_lamp.png")


def test_frames_are_grey_intensities_in_natural_order(tmp_path):
    colour = np.zeros((20, 24, 3), np.uint8)
    colour[..., 1] = 255
    write_images(tmp_path, {"in10.png": colour, "in2.png": np.full((20, 24), 51, np.uint8)})
    frames = lobby_frames.taken(tmp_path).frames
    np.testing.assert_allclose(frames[:, 0, 0], [0.2, 0.587], atol=1e-6)


def test_lamp_switches_are_jumps_of_the_whole_picture():
    frames = np.stack([flat(value + i % 2) for i, value in enumerate([90] * 6 + [140] * 6)]) / 255
    frames[3, :8] = 1.0  # somebody near the camera is not a lamp
    assert lobby_frames.lamp_switches(frames) == (6,)


def test_lobby_refuses_what_it_cannot_do(tmp_path):
    write_images(tmp_path, {"a.png": flat(90), "b.png": flat(90)})
    assert "--out" in call(lobby, "--frames", tmp_path).output
    assert "--start" in call(lobby, "--frames", tmp_path, "--out", tmp_path / "out").output
    write_images(tmp_path, {"c.png": flat(90, (10, 24))})
    result = call(lobby, "--frames", tmp_path, "--out", tmp_path / "out")
    assert (result.exit_code, "one size" in result.output) == (1, True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no images"):
        lobby_frames.taken(tmp_path / "empty")
    assert not (tmp_path / "out").exists()


# -- streams


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
