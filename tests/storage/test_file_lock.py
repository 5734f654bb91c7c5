"""Locks on outputs: one run writes an output at a time."""

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


def test_claim_locks_until_the_end_of_the_block(tmp_path):
    target = tmp_path / "panel.mp4"
    with Claims() as claims:
        claims.take(target)
        claims.take(target)  # again, by the same run
        with Claims() as others:
            others.take(tmp_path / "panel.mkv")
            with refused(target):
                others.take(target)
            with says(SinkError, "in use"):
                others.take(target, "in use")
        with refused(target), Claims() as others:
            others.take(tmp_path / "." / target.name)
    with Claims() as others:
        others.take(target)
    assert os.listdir(tmp_path) == []


def test_another_thread_may_release(tmp_path):
    claims = Claims()
    thread = threading.Thread(target=claims.take, args=[tmp_path / "a"])
    thread.start()
    thread.join()
    with refused(tmp_path / "a"):
        Claims().take(tmp_path / "a")
    claims.__exit__()
    with Claims() as others:
        others.take(tmp_path / "a")


def test_only_new_folders_are_removed(tmp_path):
    (tmp_path / "given").mkdir()
    with Claims() as claims:
        claims.take(tmp_path / "given" / "a")
        claims.take(tmp_path / "made" / "deep" / "a")
        assert sorted(os.listdir(tmp_path)) == ["given", "made"]
    assert os.listdir(tmp_path) == ["given"]


def test_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    with Claims() as claims, pytest.raises(SinkError, match=r"'.*file' is a file, not a folder"):
        claims.take(tmp_path / "file" / "a")


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_disk_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog, number):
    def flock(_file, _what):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with Claims() as claims:
        claims.take(tmp_path / "a")
        claims.take(tmp_path / "b")
    warning = f"the file system of '{tmp_path}' has no locks: another run there would not be detected"
    assert [record.getMessage() for record in caplog.records] == [warning]
    assert os.listdir(tmp_path) == []
