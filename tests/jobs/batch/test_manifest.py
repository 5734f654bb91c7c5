"""The manifest and the lock of a batch."""

import csv
import errno
import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from bgsub.errors import OutputError, SinkError
from bgsub.jobs.batch.manifest import Entry, Manifest, hold_folder, read_holder
from bgsub.jobs.job_state import InputState


def entry(name="a", **values):
    return Entry(InputState(f"/in/{name}.mp4", 5, 7), "f00", name, "done", **values)


def test_appended_entries_are_read_again(tmp_path):
    first, second = entry("a", result={"frames": 3}), entry("ü\n\udce4", error="x")
    with Manifest(tmp_path / "new") as manifest:
        manifest.append(first)
        manifest.append(second)
        manifest.append(replace(first, attempts=2))
    with Manifest(tmp_path / "new") as manifest:
        assert list(manifest.entries.values()) == [replace(first, attempts=2), second]
    assert len((tmp_path / "new" / "manifest.jsonl").read_bytes().splitlines()) == 3


@pytest.mark.parametrize("cut", [1, 100])
def test_torn_and_damaged_lines_are_left_out(tmp_path, cut, caplog):
    with Manifest(tmp_path) as manifest:
        manifest.append(entry("a"))
        manifest.append(entry("b"))
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(b"nonsense\n[]\n{}\n\xff\n" + path.read_bytes()[:-cut])
    with Manifest(tmp_path) as manifest:
        assert list(manifest.entries) == ["/in/a.mp4"]
        manifest.append(entry("c"))
    assert "is torn" in caplog.text
    assert caplog.text.count("is no entry") == 4
    assert [json.loads(line)["output"] for line in path.read_bytes().splitlines()[4:]] == ["a", "c"]


def test_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    def fsync(_file):
        raise OSError(28, "No space left on device")

    with Manifest(tmp_path) as manifest:
        manifest.append(entry("a"))
        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(OutputError, match="No space left"):
            manifest.append(entry("b"))
        assert list(manifest.entries) == ["/in/a.mp4"]
    assert len((tmp_path / "manifest.jsonl").read_bytes().splitlines()) == 1


def test_table_has_a_row_per_source(tmp_path):
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


def test_one_batch_at_a_time(tmp_path):
    with hold_folder(tmp_path) as ticket:
        assert read_holder(ticket.path) == {"host": socket.gethostname(), "pid": os.getpid(), "token": ticket.token}
        refusal = rf"another batch works in '.*' \(process {os.getpid()} on "
        with pytest.raises(SinkError, match=refusal), hold_folder(tmp_path):
            pass
    assert read_holder(ticket.path) == {}
    with hold_folder(tmp_path) as again:
        assert again.token != ticket.token


def test_ticket_survives_temporary_errors(tmp_path, monkeypatch):
    def fails_with(patch, number):
        def read_bytes(_self):
            raise OSError(number, os.strerror(number))

        patch.setattr(Path, "read_bytes", read_bytes)

    with hold_folder(tmp_path) as ticket:
        assert ticket.valid
        with monkeypatch.context() as patch:
            fails_with(patch, errno.EMFILE)
            assert ticket.valid
            fails_with(patch, errno.EACCES)
            assert not ticket.valid
        assert not replace(ticket, path=tmp_path / "gone").valid
    assert not ticket.valid


def test_lock_of_another_host_and_of_a_dead_process(tmp_path):
    (tmp_path / ".lock").write_text('{"host": "elsewhere", "pid": 1, "token": "t"}')
    message = r"process 1 on elsewhere\); if it is dead, remove '.*\.lock'"
    with pytest.raises(SinkError, match=message), hold_folder(tmp_path):
        pass
    dead = {"host": socket.gethostname(), "pid": 1, "token": "t"}  # without the lock that a living one has
    (tmp_path / ".lock").write_text(json.dumps(dead))
    with hold_folder(tmp_path) as ticket:
        assert read_holder(ticket.path)["pid"] == os.getpid()
