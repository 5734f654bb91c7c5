"""``bgsub evaluate`` on trees: averages, files, stored results, and checks before the first run."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from cli_inputs import QUICK, make_scene, write_sequence

from bgsub._opencv import cv2
from bgsub.evaluation import Sheet
from bgsub.evaluation import evaluate as evaluate_method
from bgsub.parameters import SUBTRACTOR


@pytest.fixture
def dataset(here):
    """Three sequences of 30 frames in two categories; nothing moves in the last one."""
    for name, empty in (("busy/one", 12), ("busy/two", 20), ("calm/still", 30)):
        write_sequence(here / "dataset" / name, make_scene(30, empty=empty), "11 30")
    return here / "dataset"


def overall_in(path):
    with Path(path).open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["level"] == "overall"]


def test_table_and_files_of_a_tree(cli, dataset):
    answer = cli("evaluate", dataset, *QUICK, "--against", "mog2", "--csv", "o.csv", "--sheet", "o.html").clean()
    rows = [line.split("  ")[0] for line in answer.out.splitlines()]
    assert rows[1:7:2] == rows[2:7:2] == ["busy/one", "busy/two", "calm/still"]
    assert rows[7:13:2] == rows[8:13:2] == ["mean of busy", "mean of calm", "overall"]
    assert rows[13].startswith("overall, bgsub: recall is the mean of the 1 of 2 categories")
    assert f" {float(overall_in('o.csv')[0]['f_measure']):.4f} " in answer.out
    assert "busy/one, bgsub" in Path("o.html").read_text()


def test_json_replaces_the_table(cli, dataset):
    words = ("evaluate", dataset, *QUICK, "--against", "mog2", "--fps", 10, "--csv", "o.csv")
    content = json.loads(cli(*words, "--json").clean().out)
    parameters = content["parameters"]["bgsub"]
    assert set(parameters) == set(SUBTRACTOR)
    assert (parameters["fps"], parameters["start_frames"]) == (10, 10)
    assert content["parameters"]["mog2"] == {}
    ours = [video for video in content["videos"] if video["method"] == "bgsub"]
    assert [(video["frames"], video["scored_frames"]) for video in ours] == [(30, 20)] * 3
    assert [video["f_measure"] is None for video in ours] == [False, False, True]
    (overall,) = (mean for mean in content["overall"] if mean["method"] == "bgsub")
    assert overall["f_measure"] == pytest.approx((ours[0]["f_measure"] + ours[1]["f_measure"]) / 2)
    assert overall["f_measure"] > 0.9
    assert float(overall_in("o.csv")[0]["f_measure"]) == overall["f_measure"]


def test_written_masks_score_the_same(cli, dataset):
    live = cli("evaluate", dataset, *QUICK, "--masks", "masks").clean()
    stored = cli("evaluate", dataset, "--results", "masks", "--sheet", "o.png", "--worst", 2).clean()
    cells = [
        [line.replace("bgsub", "masks").split()[:-1] for line in answer.out.splitlines()] for answer in (live, stored)
    ]
    assert cells[0] == cells[1]
    assert len(list(Path("masks").glob("*/*/bin*.png"))) == 90
    assert cv2.imread("o.png").shape[1] == 4 * 48 + 12


def test_files_are_replaced_only_with_overwrite(cli, dataset):
    words = "evaluate", dataset / "busy" / "one", "--start-frames", 20
    for option, name in (("--csv", "o.csv"), ("--sheet", "o.html"), ("--masks", "masks")):
        path = Path(name) if option != "--masks" else Path(name) / "busy" / "one" / "bin000001.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
        cli(*words, option, name).refused(f"'{path}' exists already", "--overwrite")
        assert path.read_bytes() == b"mine"
    cli(*words, "--csv", "o.csv", "--sheet", "o.html", "--masks", "masks", "--overwrite").clean()
    assert b"mine" not in (Path("o.csv").read_bytes(), Path("o.html").read_bytes(), path.read_bytes())


def test_failed_run_shows_its_scores_and_writes_no_file(cli, dataset):
    (dataset / "busy" / "two" / "input" / "in000020.png").write_bytes(b"no image")
    answer = cli("evaluate", "dataset", *QUICK, "--csv", "o.csv", "--sheet", "o.png")
    assert answer.code == 2
    assert answer.err == "bgsub: error: image 'dataset/busy/two/input/in000020.png' cannot be decoded\n"
    assert [line.split()[0] for line in answer.out.splitlines()] == ["sequence", "one"]
    assert not list(dataset.parent.glob("o.*"))
    answer = cli("evaluate", "dataset", *QUICK, "--json")
    assert [video["video"] for video in json.loads(answer.out)["videos"]] == ["one"]


def test_stopped_run_shows_its_scores(cli, dataset, monkeypatch):
    def stop(sequence, *words, **options):
        if sequence.name == "two":
            raise KeyboardInterrupt
        return evaluate_method(sequence, *words, **options)

    monkeypatch.setattr("bgsub.evaluation.run.evaluate", stop)
    answer = cli("evaluate", "dataset", *QUICK, "--csv", "o.csv")
    assert (answer.code, answer.err.strip()) == (130, "bgsub: error: stopped by the user")
    assert [line.split()[0] for line in answer.out.splitlines()] == ["sequence", "one"]
    assert not list(dataset.parent.glob("o.*"))


def test_everything_is_checked_before_the_first_run(cli, dataset, monkeypatch):
    monkeypatch.setattr("bgsub.evaluation.run.evaluate", lambda *_, **__: pytest.fail("a run began"))
    monkeypatch.setattr("bgsub.evaluation.run.score_results", lambda *_, **__: pytest.fail("a run began"))
    monkeypatch.setattr(cv2, "bgsegm", None, raising=False)
    (dataset / "empty").mkdir()
    for words, message in (
        (("gone",), "folder gone does not exist"),
        (("dataset/empty",), "no sequence in dataset/empty"),
        (("dataset", "--csv", "gone/o.csv"), "--csv takes a file in a folder that exists, got 'gone/o.csv'"),
        (("dataset", "--csv", "dataset"), "--csv takes a file, got the folder 'dataset'"),
        (("dataset", "--sheet", "o.pdf"), "sheet must end in .html or .png, got 'o.pdf'"),
        (("dataset", "--sheet", "o.png", "--worst", 100), "at most 200 frames, got 300"),
        (("dataset", "--against", "magic"), "--against takes mog2, knn"),
        (("dataset", "--results", "gone"), "folder gone does not exist"),
        (("dataset", "--results", "dataset", "--rank", 2), "without --against, --masks and method parameters"),
    ):
        cli("evaluate", *words).refused(message)
    cli("evaluate", "dataset", "--against", "gsoc").refused("gsoc needs", "opencv-contrib-python", code=1)
    shutil.rmtree(dataset / "calm" / "still" / "groundtruth")
    cli("evaluate", "dataset").refused("folder dataset/calm/still/groundtruth does not exist")


def test_failed_sheet_does_not_lose_the_scores(cli, dataset, monkeypatch):
    monkeypatch.setattr(Sheet, "_page", lambda _: 1 / 0)
    answer = cli("evaluate", dataset / "busy" / "one", *QUICK, "--sheet", "o.html", "--csv", "o.csv")
    assert answer.code == 1
    assert answer.out.startswith("sequence ")
    assert Path("o.csv").exists()
