"""``bgsub evaluate`` on trees: averages, files, stored results, and checks before the first run."""

import json
import shutil
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cli_inputs import QUICK, make_scene, names, write_sequence
from video_fakes import read_video

import bgsub
from bgsub import synthetic
from bgsub._opencv import cv2
from bgsub.evaluation import Confusion, Sequence, confusion
from bgsub.evaluation import evaluate as evaluate_method
from bgsub.evaluation.tables import METRICS
from bgsub.parameters import SUBTRACTOR
from bgsub.synthetic import scene


@pytest.fixture
def dataset(here):
    """Three sequences of 30 frames in two categories; nothing moves in the last one."""
    for name, empty in (("busy/one", 12), ("busy/two", 20), ("calm/still", 30)):
        write_sequence(here / "dataset" / name, make_scene(30, empty=empty), "11 30")
    return here / "dataset"


def test_table_sheet_and_json_of_a_tree(cli, dataset):
    words = ("evaluate", dataset, *QUICK, "--against", "knn,mog2,knn", "--fps", 10)
    printed = cli(*words, "--sheet", "o.html").clean().out
    rows = [line.split("  ")[0] for line in printed.splitlines()]
    heads = ("busy/one", "busy/two", "calm/still", "mean of busy", "mean of calm", "overall")
    assert rows[1:19] == [head for head in heads for _ in range(3)]
    assert rows[19].startswith("overall, bgsub: recall is the mean of the 1 of 2 categories")
    assert "busy/one, bgsub" in Path("o.html").read_text()
    content = json.loads(cli(*words, "--json").clean().out)
    parameters = content["parameters"]["bgsub"]
    assert set(parameters) == set(SUBTRACTOR)
    assert (parameters["fps"], parameters["start_frames"]) == (10, 10)
    assert content["parameters"]["mog2"] == {}
    one = content["videos"][:3]
    assert [(row["video"], row["method"]) for row in one] == [("one", name) for name in ("bgsub", "knn", "mog2")]
    for row, method in zip(one, (bgsub.BackgroundSubtractor(start_frames=10, fps=10), "knn", "mog2"), strict=True):
        counts = evaluate_method(Sequence(dataset / "busy" / "one"), method).confusion
        assert [row[name] for name in METRICS] == [getattr(counts, name) for name in METRICS]
        assert row["milliseconds_per_frame"] > 0
    ours = [video for video in content["videos"] if video["method"] == "bgsub"]
    assert [(video["frames"], video["scored_frames"]) for video in ours] == [(30, 20)] * 3
    assert [video["f_measure"] is None for video in ours] == [False, False, True]
    (overall,) = (mean for mean in content["overall"] if mean["method"] == "bgsub")
    assert min(ours[0]["f_measure"], overall["f_measure"]) > 0.9
    assert f" {overall['f_measure']:.4f} " in printed


def test_files_are_replaced_only_with_overwrite(cli, dataset):
    words = "evaluate", dataset / "busy" / "one", "--start-frames", 20
    for option, name, path in (
        ("--sheet", "o.html", Path("o.html")),
        ("--masks", "masks", Path("masks/busy/one/bin000001.png")),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
        cli(*words, option, name).refused(f"'{path}' exists already", "--overwrite")
        assert path.read_bytes() == b"mine"
    cli(*words, "--sheet", "o.html", "--masks", "masks", "--overwrite").clean()
    assert b"mine" not in (Path("o.html").read_bytes(), path.read_bytes())


def test_failed_run_shows_its_scores_and_writes_no_file(cli, dataset):
    (dataset / "busy" / "two" / "input" / "in000020.png").write_bytes(b"no image")
    answer = cli("evaluate", "dataset", *QUICK, "--sheet", "o.html")
    assert answer.code == 2
    assert answer.err == "bgsub: error: image 'dataset/busy/two/input/in000020.png' cannot be decoded\n"
    assert [line.split()[0] for line in answer.out.splitlines()] == ["sequence", "one"]
    assert not list(dataset.parent.glob("o.*"))
    answer = cli("evaluate", "dataset", *QUICK, "--json")
    assert [video["video"] for video in json.loads(answer.out)["videos"]] == ["one"]


def test_everything_is_checked_before_the_first_run(cli, dataset, monkeypatch):
    monkeypatch.setattr("bgsub.evaluation.run.evaluate", lambda *_, **__: pytest.fail("a run began"))
    monkeypatch.setattr("bgsub.evaluation.run.score_results", lambda *_, **__: pytest.fail("a run began"))
    monkeypatch.setattr(cv2, "bgsegm", None, raising=False)
    (dataset / "empty").mkdir()
    for words, message in (
        (("gone",), "folder gone does not exist"),
        (("dataset/empty",), "no sequence in dataset/empty"),
        (("dataset", "--sheet", "gone/o.html"), "--sheet takes a file in a folder that exists, got 'gone/o.html'"),
        (("dataset", "--sheet", "dataset"), "--sheet takes a file, got the folder 'dataset'"),
        (("dataset", "--worst", 3), "--worst needs --sheet"),
        (("dataset", "--sheet", "o.png"), "a sheet must end in .html, got 'o.png'"),
        (("dataset", "--against", "magic"), "--against takes mog2, knn"),
        (("dataset", "--results", "gone"), "folder gone does not exist"),
        (("dataset", "--results", "dataset", "--rank", 2), "without --against, --masks and method parameters"),
    ):
        cli("evaluate", *words).refused(message)
    cli("evaluate", "dataset", "--against", "gsoc").refused("gsoc needs", "opencv-contrib-python", code=1)
    shutil.rmtree(dataset / "calm" / "still" / "groundtruth")
    cli("evaluate", "dataset").refused("folder dataset/calm/still/groundtruth does not exist")


@pytest.mark.slow
def test_demo_writes_its_results_and_scores_them(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("bgsub.synthetic.scene", cache(scene))  # the room is drawn once for all
    out = tmp_path / "out"
    answer = cli("demo", "--duration", 60, "-o", out, "--seed", 1).clean()
    assert names(out) == ["input.mp4", "mask.mkv", "panel.mp4"]
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
    assert second == f"against ground truth: {score}"
    assert [frame.shape for frame in read_video(out / "panel.mp4")] == [(480, 640, 3)] * 60
    answer = cli("demo", "--duration", 60, "-o", tmp_path / "json", "--seed", 1, "--json").clean()
    result = json.loads(answer.out)
    assert (result["frames"], result["recall"], result["f_measure"]) == (60, total.recall, total.f_measure)


def test_demo_replaces_results_only_if_asked(cli, here):
    own = here / "out" / "input.mp4"
    own.parent.mkdir()
    own.write_text("mine")
    cli("demo", "--duration", 1, "-o", "out").refused("'out/input.mp4' exists already; --overwrite replaces it")
    assert (names("out"), own.read_text()) == (["input.mp4"], "mine")
    cli("demo", "--duration", 1, "-o", "out", "--overwrite").ok()
    assert len(read_video(own)) == 1


@pytest.mark.parametrize("own", [pytest.param(False, marks=pytest.mark.slow), True])
def test_bench_prints_a_table(cli, dataset, own):
    source = [dataset / "busy/one/input", "--threads", cv2.getNumThreads()] if own else []
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
        low, high = (median - 0.005) / (mog2 + 0.005), (median + 0.005) / (mog2 - 0.005)
        assert low - 0.0051 <= ratio <= high + 0.0051


def test_good_and_bad_files(cli, tmp_path, video, folder, serial):
    bad = tmp_path / "video.mkv"
    bad.write_bytes(b"no video")
    out, log = tmp_path / "out", tmp_path / "log"
    words = ("-o", out, "--save", "mask,panel", "--save-model", "m.npz", "--log", log, *QUICK)
    quiet = cli("batch", bad, "-o", tmp_path / "quiet", "-q")
    assert (quiet.code, quiet.err.count("is not a video"), quiet.err[:8]) == (1, 1, "failed: ")
    answer = cli("batch", video, folder, bad, *words)
    lines = answer.err.splitlines()
    assert [line.split(": ")[1] for line in lines] == [f"[1/3] {folder}", f"[2/3] {video}", f"[3/3] {bad}"]
    assert f": failed: '{bad}' is not a video" in lines[2]
    assert answer.out.startswith("2 done, 1 failed, 0 done before, 0 left in ")
    assert f"INFO [2/3] {video}: 30 frames in " in log.read_text()
    assert names(out / "frames") == ["m.npz", "mask", "panel", "result.json"]
    assert names(out / "video.avi") == ["m.npz", "mask.mkv", "panel.mp4", "result.json"]
    again = cli("batch", video, folder, bad, *words)
    assert (answer.code, again.code) == (1, 1)
    assert again.err.startswith("bgsub: 2 of 3 files done before\nbgsub: [1/1] ")
    short = cli("batch", video, "-o", out, "--duration", 5, "--overwrite", *QUICK).ok()
    assert " s; 1 file shorter than the start phase, all masks are provisional; see " in short.out
    assert "provisional" not in answer.out


def test_json_quiet_and_warnings_that_name_the_file(cli, tmp_path, folder, serial):
    (folder / "in000003.png").write_bytes(b"no image")
    words = ("batch", folder, "-o", tmp_path / "out", "--on-error", "skip", *QUICK)
    answer = cli(*words, "--json", "--progress", "bar").ok()
    result = json.loads(answer.out)
    assert [entry["result"]["frames"] for entry in result["done"]] == [29]
    assert (result["failed"], result["left"], result["stopped"]) == ([], 0, "end")
    assert f"bgsub: {folder}: " in answer.err
    assert "in000003.png" in answer.err
    assert "1/1" in answer.err
    assert cli(*words, "--overwrite", "--quiet").ok().out == ""


def test_scheduler_without_dask(cli, tmp_path, video, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    answer = cli("batch", video, "-o", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:1")
    answer.refused("distributed", "pip install 'bgsub[batch]'", code=1)
