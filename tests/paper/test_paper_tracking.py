"""Experiment 5 at tiny sizes: the lobby figures."""

import cv2
import lobby
import lobby_frames
import numpy as np
import pytest
from paper_kit import assert_picture, call, rows_of

from bgsub.errors import SourceError

pytestmark = pytest.mark.large


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
