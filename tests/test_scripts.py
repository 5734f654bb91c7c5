"""The scripts: conditions of videos, errors of objects, speed and memory on small frames, the peer ViBe."""

import json
import re

import conditions
import events as events_script
import numpy as np
import pytest
import soak
import stress
import vibe
from cli_inputs import make_scene, write_sequence
from click.testing import CliRunner
from video_fakes import read_table

from bgsub._opencv import cv2
from bgsub.evaluation import Sequence, confusion
from bgsub.evaluation.speed import time_methods
from bgsub.events.event import ObjectInFrame


@pytest.fixture
def folder(tmp_path):
    """A labelled sequence of a bright square."""
    write_sequence(tmp_path / "square", make_scene(60, 36, 140), "5 60")
    return tmp_path / "square"


def test_each_condition_is_repeatable_and_has_valid_masks(folder):
    for name in conditions.CONDITIONS:
        derived = conditions.derive(Sequence(folder), name, seed=3)
        first, second = list(derived.frames()), list(derived.frames())
        assert len(first) == len(derived)
        assert derived.truth(1) is None
        for (number, frame), (_, again) in zip(first, second, strict=True):
            assert np.array_equal(frame, again)
            if number in (51, 59):
                truth = derived.truth(number)
                confusion(truth, truth)  # refuses unknown codes
                assert truth.shape == frame.shape[:2]


@pytest.mark.slow
def test_script_prints_a_table_and_writes_json(folder):
    words = [folder, "--background", f"{folder / 'input'}:3", "--conditions", "grey16,gain", "--methods", "bgsub,mog2"]
    words += ["--set", "rank=2", "--json", folder / "table.json"]
    result = CliRunner().invoke(stress.main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    rows = result.stdout.splitlines()
    assert rows[0].split() == ["condition", "bgsub", "mog2"]
    for row, name in zip(rows[1:], ("grey16", "gain", f"on {folder.name}"), strict=False):
        assert row.startswith(f"{folder.name} {name}")
    assert rows[1].endswith("-")
    records = json.loads((folder / "table.json").read_text())
    assert [set(record["columns"]) for record in records] == [{"bgsub"}, {"bgsub", "mog2"}, {"bgsub", "mog2"}]


@pytest.mark.slow
@pytest.mark.parametrize("way", [[], ["--command-line"]])
def test_report_after_hostile_frames(way, capsys):
    with pytest.raises(SystemExit) as ended:
        soak.main(["--frames", "600", "--size", "64x48", "--round", "200", *way], standalone_mode=False)
    said = capsys.readouterr().out
    assert said.count(" frames  ") == 10
    assert re.search(r"basis: \|U U' - I\| \d.\de-\d\d; bad frames taken: 0\n", said)
    scores = re.search(r"F of the last 200 frames: (0.\d+); of a fresh model: (0.\d+)\n", said)
    found, alone = map(float, scores.groups())
    assert ended.value.code == (0 if found > alone - soak.LOST else 1), said
    assert alone > 0.5


def test_each_kind_of_error_is_counted():
    def mover(x):
        mask = np.zeros((20, 60), bool)
        mask[5:10, x : x + 5] = True
        return mask

    def seen(number, frame, x, w=5):
        return ObjectInFrame(number, frame, None, (x, 5, w, 5), (x, 5), 5 * w, np.ones((5, w), bool))

    # Mover 1 is split, 2 and 3 share an object, 4 is missed; one object is false.
    movers = {n: {(1,): mover(0), (2,): mover(10), (3,): mover(16), (4,): mover(40)} for n in range(8)}
    scorer = events_script.ObjectScorer()
    for frame in range(8):
        scorer.add([seen(1 + frame // 4, frame, 0), seen(3, frame, 9, 12), seen(4, frame, 52)], movers)
    counts = scorer.counts(movers)
    assert counts == events_script.Counts(movers=4, objects=4, missed=1, merged=1, split=1, false=1)


@pytest.mark.large
def test_objects_of_a_small_scene(monkeypatch, tmp_path):
    monkeypatch.setattr(events_script, "SCENES", {"lobby": {"walkers": 2}})
    result = CliRunner().invoke(events_script.main, ["--frames", "60", "--seeds", "1"])
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.output.splitlines()] == ["scene", "lobby", "all"]
    refused = CliRunner().invoke(events_script.main, ["--seeds", "0", str(tmp_path)])
    assert refused.exit_code == 1
    assert "Error: no sequence in" in refused.output


@pytest.mark.large
def test_objects_of_a_labelled_sequence(folder):
    result = CliRunner().invoke(events_script.main, ["--seeds", "0", str(folder)])
    assert result.exit_code == 0, result.output
    (header, *rows) = [line.split() for line in result.stdout.splitlines()]
    assert len(rows) == 2
    for row in rows:
        counts = dict(zip(header[1:], map(int, row[1:]), strict=True))
        assert [counts[name] for name in ("movers", "missed", "merged", "split")] == [1, 0, 0, 0]


@pytest.mark.slow
def test_speed_by_size_rank_and_streams(tmp_path, capsys, monkeypatch):
    scaling = pytest.importorskip("scaling", reason="the script draws with Matplotlib")
    monkeypatch.setattr(scaling, "SIZE", (160, 120))
    small = ["--sizes", "64x48,96x72", "--ranks", "1,2", "--streams", "1,2", "--frames", "61", "--seconds", "0.1"]
    scaling.main([*small, "-o", str(tmp_path / "speed")], standalone_mode=False)
    rows = read_table(tmp_path / "speed.csv")
    cells = {(r["panel"], r["method"], r["width"], r["rank"], r["streams"], r["kind"], r["threads"]) for r in rows}
    threads = {"1", str(scaling.cores())}
    for method in ("bgsub", "mog2"):
        assert {("resolution", method, w, "3", "1", "threads", n) for w in ("64", "96") for n in threads} <= cells
        assert {("rank", method, "160", k, "1", "threads", "1") for k in ("1", "2")} <= cells
        for kind in ("processes", "threads"):
            assert {("streams", method, "160", "3", n, kind, "1") for n in ("1", "2")} <= cells
    assert len(cells) == len(rows) == 4 * len(threads) + 4 + 8
    assert all(float(row["fps"]) > 0 and float(row["p99"]) >= float(row["milliseconds"]) > 0 for row in rows)
    assert cv2.imread(str(tmp_path / "speed.png")).shape[1] == 1440
    assert capsys.readouterr().out.splitlines()[-1].startswith("64 cameras of ")


@pytest.mark.parametrize(("frames", "counted"), [(61, 1), (60, 30), (80, 20)])
def test_start_frames_are_not_timed(frames, counted):
    class Nothing:
        def apply(self, image):
            return image

    pictures = [np.zeros((4, 4, 3), np.uint8)] * frames
    (timing,) = time_methods(pictures, Nothing, warm_up=60, peers=())
    assert len(timing.milliseconds) == counted


def square(inside, side=60):
    frame = np.full((side, side, 3), 100, np.uint8)
    frame[20:40, 20:40] = inside
    return frame


@pytest.mark.large
def test_one_frame_is_enough_and_samples_decay_exponentially():
    method, rng = vibe.ViBe(), np.random.default_rng(0)
    frame = cv2.GaussianBlur(rng.integers(60, 200, (60, 80, 3)).astype(np.uint8), (0, 0), 5)
    assert not method.apply(frame).any()
    before = method.samples.copy()
    for _ in range(160):  # a sample is replaced with the chance 1/20 of 1/16, by the pixel and by its neighbours
        assert not method.apply(frame + 5).any()
    kept = (method.samples == before).all(axis=3)[1:-1, 1:-1].mean()
    assert kept == pytest.approx(np.exp(-1), abs=0.01)


@pytest.mark.large
def test_a_ghost_dissolves_from_its_edge_and_an_object_stays():
    ghost, found = vibe.ViBe(), vibe.ViBe()
    ghost.apply(square(200))
    found.apply(square(100))
    masks = [ghost.apply(square(100)) for _ in range(400)]
    assert masks[200][30, 30] == 255
    counts = [np.count_nonzero(masks[i]) for i in (0, 100, 399)]
    assert counts[0] > counts[1] > counts[2]
    for _ in range(200):
        mask = found.apply(square(200))
    np.testing.assert_array_equal(mask, 255 * (square(200)[..., 0] == 200))
