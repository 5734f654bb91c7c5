"""Experiment 5 at tiny sizes: figures of the synthetic lobby, and of images with boxes of people."""

import cv2
import lobby
import lobby_tracking
import numpy as np
import pytest
from paper_kit import assert_picture, call, rows_of

pytestmark = pytest.mark.large  # some hundred frames with every variant
VARIANTS = 3 * 2 * 3 + 2


@pytest.fixture(scope="module")
def lobby_results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lobby")
    result = call(lobby, "--size", 48, 32, "--length", 97, "--out", folder)
    assert result.exit_code == 0
    return folder


def phase(folder, name, mu="0.01", variant="objective", surrogate="atan"):
    key = {"surrogate": surrogate, "mu": mu, "variant": variant, "phase": name}
    (row,) = [row for row in rows_of(folder / "lobby.csv") if all(row[column] == key[column] for column in key)]
    return {column: float(value) for column, value in row.items() if value and column not in key}


def test_lobby_writes_tables_of_all_variants_and_three_figures(lobby_results):
    phases = rows_of(lobby_results / "lobby.csv")
    assert len({(row["surrogate"], row["mu"], row["variant"]) for row in phases}) == VARIANTS
    assert len(phases) == VARIANTS * 3  # before, when and after the lamps go out
    spans = {f"{row['phase']} {row['first_frame']} {row['last_frame']}" for row in phases}
    assert spans == {"before 50 82", "within 83 83", "after 84 96"}
    for name in ("lobby_people", "lobby_lamp", "lobby_curves"):
        assert_picture(lobby_results / f"{name}.png")


def test_mu_trades_people_against_lamps(lobby_results):
    small, large = phase(lobby_results, "before"), phase(lobby_results, "before", mu="2")
    assert small["f_measure"] > large["f_measure"]
    assert small["background_error"] < large["background_error"]
    small, large = phase(lobby_results, "after"), phase(lobby_results, "after", mu="2")
    assert large["background_error"] < small["background_error"] / 1.5
    assert large["share_above"] < small["share_above"] / 2


def test_boxes_measure_the_found_share_of_each_person(tmp_path, monkeypatch):
    """Frames 5 to 26: the lamps switch at 19, a person is in frame 16."""
    frames, people, out = tmp_path / "input", tmp_path / "people.csv", tmp_path / "results"
    frames.mkdir()
    for i in range(5, 27):
        image = np.clip(np.random.default_rng(i).normal(120 if i < 19 else 60, 1, (20, 24)), 0, 255).astype(np.uint8)
        image[3:15, 4:10] = 10 if i == 16 else image[3:15, 4:10]
        assert cv2.imwrite(str(frames / f"lobby{i}.bmp"), image)
    people.write_text("frame,x0,y0,x1,y1\n16,4,3,10,15\n17,,,,\n18,0,0,2,3\n18,20,10,24,20\n")
    monkeypatch.setattr(lobby, "RESULTS", out)
    assert call(lobby, "--frames", frames, "--people", people, "--start", 8).exit_code == 0
    rows = [row for row in rows_of(out / "lobby_real_boxes.csv") if row["variant"] == lobby_tracking.SELF_TUNED]
    found = [f"{row['frame']}: {row['box']}: {row['found']}" for row in rows]
    assert found == ["16: 4 3 10 15: 1", "17: : ", "18: 0 0 2 3: 0", "18: 20 10 24 20: 0"]
    names = {path.name for path in out.iterdir()}  # no output shows the frames
    assert names == {"lobby_real.csv", "lobby_real_boxes.csv", "lobby_real_curves.png"}
    assert_picture(out / "lobby_real_curves.png")
