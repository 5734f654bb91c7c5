"""``bgsub evaluate`` on trees: averages, files, results on disk, and what it refuses before it runs."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from cli_inputs import make_scene, write_sequence

from bgsub._opencv import cv2
from bgsub.evaluation import Sheet, make_method
from bgsub.evaluation import evaluate as evaluate_method
from bgsub.evaluation.methods import OPENCV_METHODS
from bgsub.parameters import SUBTRACTOR

START = ("--start-frames", 10)


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """Three sequences of 30 frames in two categories; nothing moves in the last one."""
    monkeypatch.chdir(tmp_path)
    for name, empty in (("busy/one", 12), ("busy/two", 20), ("calm/still", 30)):
        write_sequence(tmp_path / "dataset" / name, make_scene(30, empty=empty), "11 30")
    return tmp_path / "dataset"


def test_the_methods_are_there():
    assert all(hasattr(make_method(name), "apply") for name in ("mog2", "knn"))


def test_a_tree_gives_videos_categories_overall_and_all_files(cli, dataset):
    answer = cli("evaluate", dataset, *START, "--against", "mog2", "--csv", "o.csv", "--sheet", "o.html").clean()
    rows = [line.split("  ")[0] for line in answer.out.splitlines()]
    assert rows[1:7:2] == rows[2:7:2] == ["busy/one", "busy/two", "calm/still"]
    assert rows[7:13:2] == rows[8:13:2] == ["mean of busy", "mean of calm", "overall"]
    assert rows[13].startswith("overall, bgsub: recall is the mean of the 1 of 2 categories")
    with (dataset.parent / "o.csv").open(newline="") as file:
        means = [row for row in csv.DictReader(file) if row["level"] == "overall"]
    assert f" {float(means[0]['f_measure']):.4f} " in answer.out
    assert "busy/one, bgsub" in (dataset.parent / "o.html").read_text()


def test_json_is_printed_in_the_place_of_the_table(cli, dataset):
    words = ("evaluate", dataset, *START, "--against", "mog2", "--fps", 10, "--csv", "o.csv")
    content = json.loads(cli(*words, "--json").clean().out)
    assert set(content["parameters"]["bgsub"]) == set(SUBTRACTOR)
    assert content["parameters"]["bgsub"]["fps"] == 10
    assert content["parameters"]["bgsub"]["start_frames"] == 10
    assert content["parameters"]["mog2"] == {}
    ours = [video for video in content["videos"] if video["method"] == "bgsub"]
    assert [(video["frames"], video["scored_frames"]) for video in ours] == [(30, 20)] * 3
    assert [video["f_measure"] is None for video in ours] == [False, False, True]
    (overall,) = (mean for mean in content["overall"] if mean["method"] == "bgsub")
    assert overall["f_measure"] == pytest.approx((ours[0]["f_measure"] + ours[1]["f_measure"]) / 2)
    assert overall["f_measure"] > 0.9
    with (dataset.parent / "o.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["level"] == "overall"]
    assert float(rows[0]["f_measure"]) == overall["f_measure"]


def test_masks_that_were_written_score_the_same(cli, dataset):
    live = cli("evaluate", dataset, *START, "--masks", "masks")
    stored = cli("evaluate", dataset, "--results", "masks", "--sheet", "o.png", "--worst", 2)
    assert (live.code, stored.code, stored.err) == (0, 0, "")
    cells = [
        [line.replace("bgsub", "masks").split()[:-1] for line in answer.out.splitlines()] for answer in (live, stored)
    ]
    assert cells[0] == cells[1]
    assert len(list((dataset.parent / "masks").glob("*/*/bin*.png"))) == 90
    assert cv2.imread("o.png").shape[1] == 4 * 48 + 12


@pytest.mark.parametrize(("option", "name"), [("--csv", "o.csv"), ("--sheet", "o.html"), ("--masks", "masks")])
def test_what_exists_is_replaced_only_if_asked(cli, dataset, option, name):
    words = "evaluate", dataset / "busy" / "one", "--start-frames", 20, option, name
    cli(*words).clean()
    path = Path(name) if option != "--masks" else Path(name) / "busy" / "one" / "bin000001.png"
    before = path.read_bytes()
    path.write_bytes(b"mine")
    cli(*words).refused(f"the output '{path}' exists already; --overwrite replaces it")
    assert path.read_bytes() == b"mine"
    cli(*words, "--overwrite").clean()
    assert path.read_bytes()[:8] == before[:8]


def test_a_run_that_fails_in_the_middle_shows_what_it_has_and_writes_no_file(cli, dataset):
    broken = dataset / "busy" / "two" / "input" / "in000020.png"
    broken.write_bytes(b"no image")
    answer = cli("evaluate", "dataset", *START, "--csv", "o.csv", "--sheet", "o.png")
    assert answer.code == 2
    assert answer.err == "bgsub: error: image 'dataset/busy/two/input/in000020.png' cannot be decoded\n"
    assert [line.split()[0] for line in answer.out.splitlines()] == ["sequence", "one"]
    assert not list(dataset.parent.glob("o.*"))
    answer = cli("evaluate", "dataset", *START, "--json")
    assert [video["video"] for video in json.loads(answer.out)["videos"]] == ["one"]


def test_what_is_done_when_the_user_stops_is_shown(cli, dataset, monkeypatch):
    def stop(sequence, *words, **options):
        if sequence.name == "two":
            raise KeyboardInterrupt
        return evaluate_method(sequence, *words, **options)

    monkeypatch.setattr("bgsub.evaluation.run.evaluate", stop)
    answer = cli("evaluate", "dataset", *START, "--csv", "o.csv")
    assert (answer.code, answer.err.strip()) == (130, "bgsub: error: stopped by the user")
    assert [line.split()[0] for line in answer.out.splitlines()] == ["sequence", "one"]
    assert not list(dataset.parent.glob("o.*"))


def test_everything_is_checked_before_the_first_run(cli, dataset, monkeypatch):
    monkeypatch.setattr("bgsub.evaluation.run.evaluate", lambda *_, **__: pytest.fail("a run began"))
    monkeypatch.setattr("bgsub.evaluation.run.score_results", lambda *_, **__: pytest.fail("a run began"))
    monkeypatch.setattr(cv2, "bgsegm", None, raising=False)
    (dataset / "empty").mkdir()
    cli("evaluate", "gone").refused("folder gone does not exist")
    cli("evaluate", "dataset/empty").refused(
        "no sequence in dataset/empty: a sequence is a folder with input and groundtruth"
    )
    cli("evaluate", "dataset", "--csv", "gone/o.csv").refused(
        "--csv takes a file in a folder that exists, got 'gone/o.csv'"
    )
    cli("evaluate", "dataset", "--csv", "dataset").refused("--csv takes a file, got the folder 'dataset'")
    cli("evaluate", "dataset", "--sheet", "o.pdf").refused("sheet must end in .html or .png, got 'o.pdf'")
    cli("evaluate", "dataset", "--sheet", "o.png", "--worst", 100).refused(
        "a PNG sheet has at most 200 frames, got 300; use .html or fewer frames"
    )
    cli("evaluate", "dataset", "--against", "magic").refused(
        "--against takes " + ", ".join(OPENCV_METHODS) + ", got 'magic'"
    )
    cli("evaluate", "dataset", "--against", "gsoc").refused(
        f"gsoc needs OpenCV's extra modules, which the installed OpenCV {cv2.__version__} does not have; "
        "replace opencv-python by opencv-contrib-python",
        code=1,
    )
    cli("evaluate", "dataset", "--results", "gone").refused("folder gone does not exist")
    cli("evaluate", "dataset", "--results", "dataset", "--rank", 2).refused(
        "--results scores masks as they are, without --against, --masks and method parameters; "
        "see bgsub evaluate --help"
    )
    shutil.rmtree(dataset / "calm" / "still" / "groundtruth")
    cli("evaluate", "dataset").refused("folder dataset/calm/still/groundtruth does not exist")


def test_a_sheet_that_cannot_be_written_does_not_cost_the_scores(cli, dataset, monkeypatch):
    monkeypatch.setattr(Sheet, "_page", lambda _: 1 / 0)
    answer = cli("evaluate", dataset / "busy" / "one", *START, "--sheet", "o.html", "--csv", "o.csv")
    assert answer.code == 1
    assert answer.out.startswith("sequence ")
    assert (dataset.parent / "o.csv").exists()
