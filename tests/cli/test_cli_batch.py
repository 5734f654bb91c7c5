"""``bgsub batch``: messages and exit codes; tests/jobs/batch tests the rest."""

import json
import sys

import pytest
from cli_inputs import QUICK, names


def test_good_and_bad_files(cli, tmp_path, video, folder, serial):
    bad = tmp_path / "video.mkv"
    bad.write_bytes(b"no video")
    out, log = tmp_path / "out", tmp_path / "log"
    words = ("-o", out, "--save", "mask,panel", "--save-model", "m.npz", "--log", log, *QUICK)
    answer = cli("batch", video, folder, bad, *words)
    assert answer.code == 1
    lines = answer.err.splitlines()
    assert [line.split(": ")[1] for line in lines] == [f"[1/3] {folder}", f"[2/3] {video}", f"[3/3] {bad}"]
    assert f": failed: '{bad}' is not a video" in lines[2]
    assert answer.out.startswith("2 done, 1 failed, 0 done before, 0 left in ")
    assert f"INFO [2/3] {video}: 30 frames in " in log.read_text()
    assert names(out / "frames") == ["m.npz", "mask", "panel", "result.json"]
    assert names(out / "video.avi") == ["m.npz", "mask.mkv", "panel.mp4", "result.json"]
    again = cli("batch", video, folder, bad, *words)
    assert again.code == 1
    assert again.err.startswith("bgsub: 2 of 3 files done before\nbgsub: [1/1] ")


def test_json_and_quiet(cli, tmp_path, video, serial):
    answer = cli("batch", video, "-o", tmp_path / "out", "--json", *QUICK).ok()
    result = json.loads(answer.out)
    assert [entry["result"]["frames"] for entry in result["done"]] == [30]
    assert (result["failed"], result["left"], result["stopped"]) == ([], 0, "end")
    assert answer.err.startswith(f"bgsub: [1/1] {video}: 30 frames in ")
    assert cli("batch", video, "-o", tmp_path / "out", "--overwrite", "--quiet", *QUICK).clean().out == ""


def test_warnings_of_a_job_name_the_file(cli, tmp_path, folder, serial):
    (folder / "in000003.png").write_bytes(b"no image")
    words = ("-o", tmp_path / "out", "--on-error", "skip", "--progress", "bar", *QUICK)
    answer = cli("batch", folder, *words).ok()
    assert f"bgsub: {folder}: " in answer.err
    assert "in000003.png" in answer.err
    assert "1/1" in answer.err


@pytest.mark.slow
@pytest.mark.parametrize(("quiet", "at_the_end"), [((), False), (("-q",), True)])
def test_failed_file_is_reported_once(cli, tmp_path, quiet, at_the_end):
    pytest.importorskip("distributed")
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    answer = cli("batch", tmp_path / "bad.mp4", "-o", tmp_path / "out", "--workers", 1, *quiet)
    assert answer.code == 1
    assert answer.err.count("is not a video that can be read") == 1
    assert answer.err.startswith("failed: ") == at_the_end


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.mp4",), "no such file or folder: 'nowhere.mp4'"),
        ((".", "--save-model", "sub/m.npz"), "--save-model takes "),
        ((".", "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"), "--scheduler brings its own workers"),
        ((".", "--rank", "0"), "--rank must be"),
    ],
)
def test_wrong_input(cli, here, video, words, message):
    cli("batch", *words, "-o", "out").refused(message)
    assert not (here / "out").exists()


def test_scheduler_without_dask(cli, tmp_path, video, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    answer = cli("batch", video, "-o", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:1")
    answer.refused("distributed", "pip install 'bgsub[batch]'", code=1)
