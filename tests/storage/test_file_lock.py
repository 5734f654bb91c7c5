"""Outputs that one run writes at a time."""

import errno
import os
import threading

import pytest
from saying import says

from bgsub.errors import SinkError
from bgsub.storage.file_lock import Claims

fcntl = pytest.importorskip("fcntl", reason="other locks than those of POSIX")


def refused(target):
    return says(SinkError, f"the output '{target}' is being written by another run")


def test_a_claim_keeps_others_out_as_long_as_the_block_takes(tmp_path):
    target = tmp_path / "panel.mp4"
    with Claims() as claims:
        claims.take(target)
        claims.take(target)  # one's own
        with Claims() as others:
            others.take(tmp_path / "panel.mkv")
            with refused(target):
                others.take(target)
            with says(SinkError, "somebody works here"):
                others.take(target, "somebody works here")
        with refused(target), Claims() as others:
            others.take(tmp_path / "." / target.name)
    with Claims() as others:
        others.take(target)
    assert os.listdir(tmp_path) == []


def test_another_thread_may_end_what_one_began(tmp_path):
    claims = Claims()
    thread = threading.Thread(target=claims.take, args=[tmp_path / "a"])
    thread.start()
    thread.join()
    with refused(tmp_path / "a"):
        Claims().take(tmp_path / "a")
    claims.__exit__()
    with Claims() as others:
        others.take(tmp_path / "a")


def test_nothing_is_left_and_nothing_else_removed(tmp_path):
    (tmp_path / "given").mkdir()
    with Claims() as claims:
        claims.take(tmp_path / "given" / "a")
        claims.take(tmp_path / "made" / "deep" / "a")
        assert sorted(os.listdir(tmp_path)) == ["given", "made"]
    assert os.listdir(tmp_path) == ["given"]


def test_where_nothing_can_be_written_the_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    with Claims() as claims, pytest.raises(SinkError, match=r"'.*file' is a file, and a folder is wanted there"):
        claims.take(tmp_path / "file" / "a")


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_written_all_the_same(tmp_path, monkeypatch, caplog, number):
    def flock(_file, _what):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with Claims() as claims:
        claims.take(tmp_path / "a")
        claims.take(tmp_path / "b")
    warning = f"the disk of '{tmp_path}' knows no locks: another run there would not be noticed"
    assert [record.getMessage() for record in caplog.records] == [warning]
    assert os.listdir(tmp_path) == []
