"""Experiment 5 at tiny sizes: figures of the synthetic lobby, and of images with boxes of people."""

import cv2
import lobby
import lobby_tracking
import numpy as np
import pytest
from paper_kit import assert_picture, call, rows_of

from bgsub import SubspaceTracker

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
    rows = rows_of(lobby_results / "lobby_frames.csv")
    assert {row["surrogate"] for row in rows} == {"atan", ""}
    assert len(rows) == (2 * 3 + 2) * (97 - 50)
    empty = [row for row in rows if not row["share_above"]]
    assert [(row["variant"], row["frame"]) for row in empty] == [(lobby_tracking.STILL, "83")]  # its lamps switch
    known = [row for row in rows if row["share_above"]]
    assert all(0 <= float(row["share_above"]) <= 1 and float(row["residual_energy"]) > 0 for row in known)
    for name in ("lobby_people", "lobby_lamp", "lobby_curves"):
        assert_picture(lobby_results / f"{name}.png")


def test_mu_trades_people_against_lamps(lobby_results):
    small, large = phase(lobby_results, "before"), phase(lobby_results, "before", mu="2")
    assert small["f_measure"] > large["f_measure"]
    assert small["background_error"] < large["background_error"]
    small, large = phase(lobby_results, "after"), phase(lobby_results, "after", mu="2")
    assert large["background_error"] < small["background_error"] / 1.5
    assert large["share_above"] < small["share_above"] / 2
    tuned = phase(lobby_results, "before", "", "self-tuned", "")
    assert tuned["f_measure"] > phase(lobby_results, "before", mu="2")["f_measure"]
    assert lobby_tracking.tracker_of(lobby_tracking.SELF_TUNING).get_params() == SubspaceTracker(rank=2).get_params()


def write_images(folder, images):
    folder.mkdir(exist_ok=True)
    for name, image in images.items():
        assert cv2.imwrite(str(folder / name), image)


def flat(value, shape=(20, 24)):
    rng = np.random.default_rng(value)
    return np.clip(value + rng.normal(0, 1, shape), 0, 255).astype(np.uint8)


BOX = (4, 3, 10, 15)


@pytest.fixture
def room(tmp_path):
    """Frames 5 to 26: the lamps switch at 19, a person is in frame 16; and the table of boxes."""
    images = {f"lobby{i}.bmp": flat((120 if i < 19 else 60) + i % 2) for i in range(5, 27)}
    x0, y0, x1, y1 = BOX
    images["lobby16.bmp"][y0:y1, x0:x1] = 10
    write_images(tmp_path / "input", images)
    (tmp_path / "input" / "readme.txt").write_text("no image")
    (tmp_path / "people.csv").write_text("frame,x0,y0,x1,y1\n16,4,3,10,15\n17,,,,\n18,0,0,2,3\n18,20,10,24,20\n")
    return tmp_path


def test_boxes_measure_the_found_share_of_each_person(room, monkeypatch):
    out = room / "results"
    monkeypatch.setattr(lobby, "RESULTS", out)
    result = call(lobby, "--frames", room / "input", "--people", room / "people.csv", "--start", 8)
    assert result.exit_code == 0
    rows = [row for row in rows_of(out / "lobby_real_boxes.csv") if row["variant"] == lobby_tracking.SELF_TUNED]
    found = [f"{row['frame']}: {row['box']}: {row['found']}" for row in rows]
    assert found == ["16: 4 3 10 15: 1", "17: : ", "18: 0 0 2 3: 0", "18: 20 10 24 20: 0"]
    assert {row["outside"] for row in rows} == {"0"}
    before = [row for row in rows_of(out / "lobby_real.csv") if row["phase"] == "before"]
    assert len(before) == VARIANTS
    assert before[-2]["variant"] == lobby_tracking.SELF_TUNED
    assert before[-2]["found"] == "0.5"  # the median of a frame with a found person and one without
    names = {path.name for path in out.iterdir()}  # no output shows the frames
    assert names == {"lobby_real.csv", "lobby_real_boxes.csv", "lobby_real_curves.png"}
    assert_picture(out / "lobby_real_curves.png")
