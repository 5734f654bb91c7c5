"""``bgsub demo``, ``bgsub evaluate`` and ``bgsub bench``: their files and their numbers."""

import json
from functools import cache

import numpy as np
import pytest
from cli_inputs import QUICK, make_scene, names, write_sequence
from video_fakes import read_video

import bgsub
from bgsub import synthetic
from bgsub._opencv import cv2
from bgsub.evaluation import Confusion, Sequence, confusion
from bgsub.evaluation import evaluate as evaluate_method
from bgsub.synthetic import scene

COLUMNS = {
    **{"recall": "recall", "specificity": "specificity", "FPR": "fpr", "FNR": "fnr"},
    **{"PWC": "pwc", "precision": "precision", "F": "f_measure"},
}


def table(text):
    """Rows of a printed table, each a dict by the names of the columns."""
    head, *rows = [line.split() for line in text.splitlines()]
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.fixture
def sequence(tmp_path):
    """Thirty frames with exact masks for the last fifteen, in the layout of changedetection.net."""
    write_sequence(tmp_path / "square", make_scene(30, empty=12), "16 30")
    return tmp_path / "square"


@pytest.mark.slow
def test_demo_writes_its_results_and_scores_them(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("bgsub.synthetic.scene", cache(scene))  # the room is drawn once for all
    out = tmp_path / "out"
    answer = cli("demo", "--duration", 60, "-o", out, "--seed", 1).clean()
    assert names(out) == ["input.mp4", "mask.mkv", "panel.mp4", "strip.png"]
    masks = [frame[:, :, 0] for frame in read_video(out / "mask.mkv")]
    shown = list(synthetic.scene("lobby", size=(320, 240), length=60, seed=1))
    total = Confusion()
    for mask, (_, truth) in zip(masks, shown, strict=True):
        total += confusion(mask, truth)
    for frame, (image, _) in zip(read_video(out / "input.mp4"), shown, strict=True):
        assert np.abs(frame.astype(int) - image).mean() < 6  # grey levels
    first, second = answer.out.splitlines()
    assert first.startswith("scene 'lobby': 60 frames of 320x240; foreground ")
    assert first.endswith(f"; wrote {out / 'mask.mkv'}, {out / 'panel.mp4'}, {out / 'input.mp4'}")
    score = f"recall {total.recall:.3f}, precision {total.precision:.3f}, F {total.f_measure:.3f}"
    assert second == f"against ground truth: {score}; one frame of it: {out / 'strip.png'}"
    assert [frame.shape for frame in read_video(out / "panel.mp4")] == [(480, 640, 3)] * 60
    strip = cv2.imread(str(out / "strip.png"))
    assert strip.shape == (240, 960, 3)
    assert any(np.array_equal(strip[:, 640:, 0], mask) for mask in masks)
    answer = cli("demo", "--duration", 60, "-o", tmp_path / "json", "--seed", 1, "--json").clean()
    result = json.loads(answer.out)
    assert (result["frames"], result["recall"], result["f_measure"]) == (60, total.recall, total.f_measure)
    assert (tmp_path / "json" / "strip.png").exists()


@pytest.mark.slow
def test_quiet_demo(cli, tmp_path):
    assert cli("demo", "--scene", "street", "--duration", 2, "-o", tmp_path, "-q").clean().out == ""
    assert (tmp_path / "strip.png").exists()


def test_scores_equal_those_of_python(cli, sequence):
    answer = cli("evaluate", sequence, *QUICK, "--against", "knn,mog2,knn").clean()
    rows = table(answer.out)
    assert [(row["sequence"], row["method"]) for row in rows] == [("square", name) for name in ("bgsub", "knn", "mog2")]
    for row, method in zip(rows, (bgsub.BackgroundSubtractor(start_frames=10), "knn", "mog2"), strict=True):
        score = evaluate_method(Sequence(sequence), method)
        printed = {name: f"{getattr(score.confusion, attribute):.4f}" for name, attribute in COLUMNS.items()}
        assert {name: row[name] for name in COLUMNS} == printed
        assert float(row["ms/frame"]) > 0
    assert float(rows[0]["F"]) > 0.9


def test_masks_of_a_run_score_the_same(cli, tmp_path, sequence):
    cli("run", sequence / "input", "-o", tmp_path / "out", *QUICK).ok()
    (method,) = table(cli("evaluate", sequence, *QUICK).out)
    (results,) = table(cli("evaluate", sequence, "--results", tmp_path / "out" / "mask").clean().out)
    assert results == method | {"method": "mask", "ms/frame": "-"}


@pytest.mark.parametrize("own", [pytest.param(False, marks=pytest.mark.slow), True])
def test_bench_prints_a_table(cli, sequence, own):
    source = [sequence / "input", "--threads", cv2.getNumThreads()] if own else []
    answer = cli("bench", *source, "--duration", 60, *QUICK).clean()
    head, *rows = answer.out.splitlines()
    assert " ".join(head.split()) == "method ms/frame p99 ms frames/s to MOG2 first ms longest ms"
    assert [row.split()[0] for row in rows] == ["bgsub", "mog2", "knn"]
    mog2 = float(rows[1].split()[1])
    for row in rows:
        median, p99, fps, ratio, first, longest = map(float, row.split()[1:])
        assert 0 < median <= p99 <= max(first, longest) + 0.1
        # The printed numbers are rounded to two digits.
        assert fps == pytest.approx(1000 / median, abs=0.5 + 5 / (median * (median - 0.005)) + 1e-9)
        assert ratio == pytest.approx(median / mog2, rel=0.006 / (median - 0.005) + 0.006 / (mog2 - 0.005), abs=0.01)
