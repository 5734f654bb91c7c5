"""``bgsub batch``: what is said; the rest is tested in tests/batch."""

import json
import sys

import pytest

QUICK = ("--start-frames", 10)


def test_good_and_bad_files(cli, tmp_path, video, folder, serial):
    bad = tmp_path / "video.mkv"
    bad.write_bytes(b"no video")
    out = tmp_path / "out"
    words = ("-o", out, "--save", "mask,panel", "--save-model", "m.npz", *QUICK)
    answer = cli("batch", video, folder, bad, *words)
    assert answer.code == 1
    told = answer.err.splitlines()
    assert [line.split(": ")[1] for line in told[:3]] == [f"[1/3] {folder}", f"[2/3] {video}", f"[3/3] {bad}"]
    assert f": failed: '{bad}' is not a video" in told[2]
    assert len(told) == 3
    assert answer.out.startswith("2 done, 1 failed, 0 done before, 0 left in ")
    for name, made in (("frames", {"mask", "panel"}), ("video.avi", {"mask.mkv", "panel.mp4"})):
        assert {path.name for path in (out / name).iterdir()} == {"m.npz", "result.json", *made}
    again = cli("batch", video, folder, bad, *words)
    assert again.code == 1
    assert again.err.startswith("bgsub: 2 of 3 files done before\nbgsub: [1/1] ")
    good = cli("batch", video, *words)
    assert (good.code, good.err) == (0, "bgsub: 1 of 1 file done before\n")


def test_json_and_quiet(cli, tmp_path, video, serial):
    answer = cli("batch", video, "-o", tmp_path / "out", "--json", *QUICK).ok()
    told = json.loads(answer.out)
    assert [entry["result"]["frames"] for entry in told["done"]] == [30]
    assert (told["failed"], told["left"], told["stopped"]) == ([], 0, "end")
    assert answer.err.startswith(f"bgsub: [1/1] {video}: 30 frames in ")
    quiet = cli("batch", video, "-o", tmp_path / "out", "--overwrite", "--quiet", *QUICK)
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_the_log_has_a_line_per_file(cli, tmp_path, video, serial):
    log = tmp_path / "log"
    answer = cli("batch", video, "-o", tmp_path / "out", "--progress", "bar", "--log", log, *QUICK).ok()
    assert "1/1" in answer.err
    assert f"INFO [1/1] {video}: 30 frames in " in log.read_text()
    assert "INFO 1 done, 0 failed" in log.read_text()


def test_warnings_of_a_job_name_the_file(cli, tmp_path, folder, serial):
    (folder / "in000003.png").write_bytes(b"no image")
    answer = cli("batch", folder, "-o", tmp_path / "out", "--on-error", "skip", *QUICK).ok()
    assert f"bgsub: {folder}: " in answer.err
    assert "in000003.png" in answer.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere.mp4",), "no such file or folder: 'nowhere.mp4'"),
        ((".", "--save-model", "sub/m.npz"), "--save-model takes "),
        ((".", "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"), "--scheduler brings its own workers"),
        ((".", "--rank", "0"), "--rank must be"),
    ],
)
def test_wrong_input_is_one_line(cli, tmp_path, video, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    cli("batch", *words, "-o", "out").refused_with(told)
    assert not (tmp_path / "out").exists()


def test_scheduler_without_dask(cli, tmp_path, video, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    answer = cli("batch", video, "-o", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:1")
    answer.refused("a scheduler needs the package distributed: pip install 'bgsub[batch]'", code=1)
