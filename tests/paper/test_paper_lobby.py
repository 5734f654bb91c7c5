"""Experiment 5 at tiny sizes: figures of the synthetic lobby, and of images with boxes of people."""

import cv2
import lobby
import lobby_frames
import lobby_people
import lobby_tracking
import numpy as np
import pytest
from paper_kit import assert_picture, call, rows_of

from bgsub import SubspaceTracker
from bgsub.errors import BgsubError, SourceError

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


def test_step_bound_improves_the_printed_line_search(lobby_results):
    bounded = phase(lobby_results, "before", variant=lobby_tracking.BOUNDED)
    printed = phase(lobby_results, "before", variant="sample")
    assert bounded["step_length"] <= 1 < printed["step_length"]
    assert bounded["f_measure"] > printed["f_measure"]
    rows = [row for row in rows_of(lobby_results / "lobby_frames.csv") if row["variant"] == lobby_tracking.BOUNDED]
    assert max(float(row["step_length"]) for row in rows) <= 1


def test_median_of_each_light_phase(room):
    material = lobby_frames.taken(room / "input")
    people = lobby_people.read_people(room / "people.csv", material.numbers, (20, 24))
    found = lobby_tracking.still(material, people, 8, 0.08)
    np.testing.assert_allclose(found.backgrounds[:6].mean() * 255, 120.5, atol=1)
    np.testing.assert_allclose(found.backgrounds[7:].mean() * 255, 60.5, atol=1)
    assert [row.get("found") for row in found.rows[3:6]] == [1.0, None, 0.0]
    assert [row.get("share_above") for row in found.rows] == [0, 0, 0, 72 / 480, 0, 0, None, *[0] * 7]


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


def test_tracks_a_folder_of_images_without_masks(room):
    out = room / "out"
    result = call(lobby, "--frames", room / "input", "--start", 8, "--out", out)
    assert result.exit_code == 0
    rows = rows_of(out / "lobby_real.csv")
    assert len(rows) == VARIANTS * 3
    spans = {f"{row['phase']} {row['first_frame']} {row['last_frame']}" for row in rows}
    assert spans == {"before 13 18", "within 19 19", "after 20 26"}
    assert {row["f_measure"] + row["found"] for row in rows} == {""}
    assert_picture(out / "lobby_real_lamp.png")
    assert not (out / "lobby_real_boxes.csv").exists()
    assert f"# frames: {room.name}\n" in (out / "lobby_real.csv").read_text()


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


def test_frames_are_grey_and_in_natural_order(tmp_path):
    colour = np.zeros((20, 24, 3), np.uint8)
    colour[..., 1] = 255
    write_images(tmp_path, {"in10.png": colour, "in2.png": np.full((20, 24), 51, np.uint8)})
    taken = lobby_frames.taken(tmp_path)
    np.testing.assert_allclose(taken.frames[:, 0, 0], [0.2, 0.587], atol=1e-6)
    assert taken.numbers == (2, 10)
    write_images(tmp_path, {"b.png": colour})
    assert lobby_frames.taken(tmp_path).numbers == range(3)


def test_refuses_wrong_input(tmp_path):
    write_images(tmp_path, {"a.png": flat(90), "b.png": flat(90)})
    assert "--start" in call(lobby, "--frames", tmp_path, "--out", tmp_path / "out").output
    (tmp_path / "people.csv").write_text("frame,x0,y0,x1,y1\n")
    assert "--frames" in call(lobby, "--people", tmp_path / "people.csv").output
    write_images(tmp_path, {"c.png": flat(90, (10, 24))})
    result = call(lobby, "--frames", tmp_path, "--out", tmp_path / "out")
    assert (result.exit_code, "one size" in result.output) == (1, True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no images"):
        lobby_frames.taken(tmp_path / "empty")
    assert not (tmp_path / "out").exists()


def lit(levels):
    """Frames of these levels with a grey level of noise, intensities in [0, 1]."""
    return np.stack([flat(level + i % 2) for i, level in enumerate(levels)]) / np.float32(255)


def test_lamp_switches_are_jumps_of_the_whole_image():
    frames = lit([90] * 6 + [140] * 6)
    frames[3, :8] = 1.0  # a person near the camera
    assert lobby_frames.lamp_switches(frames) == ((6, 6),)
    assert lobby_frames.lamp_switches(lit([90] * 12)) == ()
    assert lobby_frames.lamp_switches(lit([90 - i // 4 for i in range(60)])) == ()  # the evening


def test_lamps_in_quick_succession_are_one_switch():
    memory = lobby_frames.MEMORY
    levels = [120] * 10 + [100] * 4 + [80] * (memory - 1) + [60] * memory + [90] * 9
    first, last = 10, 10 + 4 + memory - 1
    assert lobby_frames.lamp_switches(lit(levels)) == ((first, last), (last + memory, last + memory))


def test_phases_cover_all_tracked_frames():
    memory = lobby_tracking.MEMORY
    assert lobby_tracking.phases((), 5, 9) == [("later", 5, 9)]
    switches = ((60, 64), (70, 70), (200, 210))
    assert lobby_tracking.phases(switches, 50, 400) == [
        ("before", 50, 60),
        ("within", 60, 65),
        ("after", 65, 70),  # ends at the next switch
        ("within", 70, 71),
        ("after", 71, 71 + memory),
        ("before", 71 + memory, 200),
        ("within", 200, 211),
        ("after", 211, 211 + memory),
        ("later", 211 + memory, 400),
    ]
    assert lobby_tracking.phases(((3, 4), (10, 52)), 50, 60) == [("within", 50, 53), ("after", 53, 60)]


def test_reads_boxes_by_frame_number(room):
    people = lobby_people.read_people(room / "people.csv", range(5, 27), (20, 24))
    boxes = {at: boxes.tolist() for at, boxes in people.items()}
    assert boxes == {11: [list(BOX)], 12: [], 13: [[0, 0, 2, 3], [20, 10, 24, 20]]}


def test_shares_of_boxes_and_of_the_rest():
    above = np.zeros((20, 24), bool)
    above[3:9, 4:10] = above[19, :] = True
    boxes, outside = lobby_people.shares(above, np.array([BOX, (0, 18, 4, 20)]))
    assert boxes == [0.5, 0.5]
    assert outside == pytest.approx(20 / (20 * 24 - 72 - 8))
    assert lobby_people.shares(above, np.zeros((0, 4), int)) == ([], pytest.approx(60 / 480))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("16,1,1,2", "people.csv.* line 2: .* 5 values"),
        ("4,1,1,2,2", "line 2: .* one of the 22 frames, got '4'"),
        ("16,1,1,25,2", "line 2: .* 0..24 .* 0..20, got 1,1,25,2"),
        ("16,1.5,0,5,2", "got 1.5,0,5,2"),
        ("16,\xff,0,5,2", "cannot be read"),
    ],
)
def test_refuses_a_wrong_table_of_boxes(tmp_path, rows, said):
    (tmp_path / "people.csv").write_bytes(f"frame,x0,y0,x1,y1\n{rows}\n".encode("latin-1"))
    with pytest.raises(BgsubError, match=said):
        lobby_people.read_people(tmp_path / "people.csv", range(5, 27), (20, 24))
