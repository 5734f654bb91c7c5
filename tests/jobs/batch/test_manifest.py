"""The manifest and the lock: what a kill leaves, and who may work in a folder."""

import csv
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bgsub.errors import OutputError, SinkError
from bgsub.jobs.batch.finding import Identity
from bgsub.jobs.batch.lock import FolderLock, read_holder
from bgsub.jobs.batch.manifest import Entry, Manifest, fingerprint
from bgsub.jobs.job import Job


def entry(name="a", **values):
    return Entry(Identity(f"/in/{name}.mp4", 5, 7), "f00", name, "done", **values)


def test_what_is_appended_is_read_again(tmp_path):
    first, second = entry("a", result={"frames": 3}), entry("ü\n\udce4", error="x")
    with Manifest(tmp_path / "new") as manifest:
        manifest.append(first)
        manifest.append(second)
        manifest.append(replace(first, attempts=2))
    with Manifest(tmp_path / "new") as manifest:
        assert list(manifest.entries.values()) == [replace(first, attempts=2), second]
    assert len((tmp_path / "new" / "manifest.jsonl").read_bytes().splitlines()) == 3


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_torn_line_is_cut_off(tmp_path, cut, caplog):
    with Manifest(tmp_path) as manifest:
        manifest.append(entry("a"))
        manifest.append(entry("b"))
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    with Manifest(tmp_path) as manifest:
        assert list(manifest.entries) == ["/in/a.mp4"]
        manifest.append(entry("c"))
    assert "is torn" in caplog.text
    assert [json.loads(line)["output"] for line in path.read_text().splitlines()] == ["a", "c"]


def test_a_manifest_that_is_only_torn(tmp_path):
    (tmp_path / "manifest.jsonl").write_bytes(b'{"sour')
    with Manifest(tmp_path) as manifest:
        assert manifest.entries == {}
        manifest.append(entry())
    assert len((tmp_path / "manifest.jsonl").read_bytes().splitlines()) == 1


def test_other_lines_are_left_out(tmp_path, caplog):
    (tmp_path / "manifest.jsonl").write_bytes(b"nonsense\n[]\n{}\n\xff\n")
    with Manifest(tmp_path) as manifest:
        assert manifest.entries == {}
    assert caplog.text.count("is no entry") == 4


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    def fsync(_file):
        raise OSError(28, "No space left on device")

    with Manifest(tmp_path) as manifest:
        manifest.append(entry("a"))
        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(OutputError, match="No space left"):
            manifest.append(entry("b"))
        assert list(manifest.entries) == ["/in/a.mp4"]
    assert len((tmp_path / "manifest.jsonl").read_bytes().splitlines()) == 1


def test_the_table_has_a_row_per_source(tmp_path):
    with Manifest(tmp_path) as manifest:
        manifest.append(entry("a", result={"frames": 3, "seconds": 99}, seconds=1.5))
        manifest.append(replace(entry("b"), state="failed", error='said "no", twice'))
        manifest.append(entry("a", result={"frames": 4}, seconds=2.5))
        manifest.write_csv()
    with (tmp_path / "manifest.csv").open(newline="") as file:
        rows = {row["source"]: row for row in csv.DictReader(file)}
    assert (rows["/in/a.mp4"]["frames"], rows["/in/a.mp4"]["seconds"]) == ("4", "2.5")
    assert (rows["/in/b.mp4"]["state"], rows["/in/b.mp4"]["error"]) == ("failed", 'said "no", twice')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.csv", "manifest.jsonl"]


def test_the_fingerprint_tells_options_apart_and_not_files(tmp_path):
    model = tmp_path / "m.npz"
    model.write_bytes(b"1")
    job = Job("a.mp4", Path("/out/a"), model=model, save_model=Path("/out/a/m.npz"))
    other = Job("b.mp4", Path("/out/b"), model=model, save_model=Path("/out/b/m.npz"))
    first = fingerprint(job)
    assert fingerprint(other) == first
    assert fingerprint(replace(job, overwrite=True)) == first
    assert fingerprint(replace(job, save=("mask", "panel"))) != first
    assert fingerprint(replace(job, parameters={"rank": 2})) != first
    assert fingerprint(replace(job, save_model=None)) != first
    model.write_bytes(b"22")
    assert fingerprint(job) != first


def test_the_fingerprint_tells_the_content_of_region_masks_apart(tmp_path):
    mask = tmp_path / "m.png"
    mask.write_bytes(b"1")
    job = Job("a.mp4", Path("/out/a"), roi=(f"door={mask}", "0,0,5,5"))
    first = fingerprint(job)
    assert fingerprint(replace(job, roi=job.roi[:1])) != first
    mask.write_bytes(b"22")
    assert fingerprint(job) != first


def test_one_batch_at_a_time(tmp_path):
    with FolderLock(tmp_path) as lock:
        assert read_holder(lock.path) == {"host": socket.gethostname(), "pid": os.getpid(), "token": lock.token}
        with pytest.raises(SinkError, match=rf"another batch works in '.*' \(process {os.getpid()} on "):
            FolderLock(tmp_path)
    assert read_holder(lock.path) == {}
    with FolderLock(tmp_path) as again:
        assert again.token != lock.token


_HOLD = "import sys, time; from pathlib import Path; from bgsub.jobs.batch.lock import FolderLock\n"
_HOLD += "lock = FolderLock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", _HOLD, tmp_path], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(SinkError, match=rf"process {process.pid} on"):
            FolderLock(tmp_path)
    finally:
        process.kill()
        process.communicate()
    assert read_holder(tmp_path / ".lock")["pid"] == process.pid
    with FolderLock(tmp_path) as lock:
        assert read_holder(lock.path)["pid"] == os.getpid()


def test_the_lock_of_another_host_stands(tmp_path):
    (tmp_path / ".lock").write_text('{"host": "elsewhere", "pid": 1, "token": "t"}')
    with pytest.raises(SinkError, match=r"process 1 on elsewhere\); if it is dead, remove '.*\.lock'"):
        FolderLock(tmp_path)
