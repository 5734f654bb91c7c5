"""Atomic writes and their order of syncs, and growing files."""

import errno
import io
import os

import pytest

from bgsub.errors import SinkError
from bgsub.storage import durable_io
from bgsub.storage.durable_io import GrowingFile, Journal, remove_partials, replacing, write_whole
from bgsub.storage.file_lock import Claims

posix = pytest.mark.skipif(os.name != "posix", reason="Windows syncs no folders")


@pytest.fixture
def synced(monkeypatch):
    """Names of synced and renamed files, in order."""
    calls, opened = [], {}
    real = {name: getattr(os, name) for name in ("open", "fsync", "replace")}

    def open_noted(path, *arguments, **options):
        handle = real["open"](path, *arguments, **options)
        opened[handle] = os.path.basename(path)
        return handle

    def fsync(handle):
        calls.append(opened[handle])
        real["fsync"](handle)

    def replace(source, target):
        calls.append(f"{source.name} -> {target.name}")
        real["replace"](source, target)

    for name, fake in (("open", open_noted), ("fsync", fsync), ("replace", replace)):
        monkeypatch.setattr(durable_io.os, name, fake)
    return calls


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failed_write_keeps_the_old_file(folder, error):
    path = folder / "a.txt"
    path.write_text("old")

    def fail():
        with replacing(path) as partial:
            partial.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(folder) == ["a.txt"]


def test_content_is_synced_before_the_name(folder, synced):
    write_whole(folder / "a.txt", b"new")
    assert synced == ["a.txt.partial", "a.txt.partial -> a.txt", "folder"]


@posix
def test_many_files_are_synced_later(folder, synced):
    for name in "ab":
        with replacing(folder / name, durable=False) as partial:
            partial.write_text("new")
    assert synced == ["a.partial -> a", "b.partial -> b"]
    synced.clear()
    durable_io.sync_files([folder / "a", folder / "gone", folder / "b"])
    assert sorted(synced) == ["a", "b"]


@posix
def test_new_folders_are_synced(folder, synced):
    durable_io.make_folder(folder / "one" / "two")
    durable_io.make_folder(folder / "one" / "two")
    assert sorted(synced) == ["folder", "one"]
    (folder / "one" / "two" / "a").write_text("")
    synced.clear()
    durable_io.sync_tree(folder)
    assert sorted(synced) == ["a", "folder", "one", "two"]


def test_removal_is_synced(folder, synced):
    file = GrowingFile(folder / "a.txt")
    file.append("a")
    file.remove()
    assert synced == ["folder"]
    file.remove()
    assert synced == ["folder"]


@posix
def test_only_real_disk_errors_of_folder_syncs_are_raised(folder, monkeypatch):
    def refuse(number):
        def fsync(_handle):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(durable_io.os, "fsync", fsync)

    refuse(errno.EINVAL)
    durable_io.sync_folder(folder)
    refuse(errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        durable_io.sync_folder(folder)


def test_only_temporary_files_of_one_file_are_removed(folder):
    temporary = ("a.mp4.partial", "a.partial.mp4", "a.partial.mp4.partial", "a.mp4.images.partial")
    for name in (*temporary, "a.mp4", "aa.mp4.partial", "a.mp4x.partial"):
        (folder / name).write_text("")
    remove_partials(folder / "a.mp4")
    assert sorted(os.listdir(folder)) == ["a.mp4", "a.mp4x.partial", "aa.mp4.partial"]


def test_growing_file_continues_after_a_cut(folder):
    killed = GrowingFile(folder / "a.txt")
    killed.append("grün,")
    size = killed.sync()
    assert size == len("grün,".encode())
    killed.append("lost")  # unbuffered: already on the disk
    assert killed.path.read_text() == "grün,lost"
    file = GrowingFile(folder / "a.txt")
    file.cut(size)
    file.append(b"blue")
    assert file.path.read_text() == "grün,blue"
    file.finish()
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a.txt": "grün,blue"}


def test_full_disk_is_reported_after_a_partial_write(folder, monkeypatch):
    class Full(io.FileIO):
        def write(self, data):
            if self.tell() >= 4:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data[:4])

    file = GrowingFile(folder / "a.txt")
    monkeypatch.setattr(GrowingFile, "_opened", lambda self: full)
    with Full(file.path, "wb") as full, pytest.raises(SinkError, match=r"a\.txt' cannot be written: No space left"):
        file.append(b"123456")


fcntl = pytest.importorskip("fcntl", reason="other locks than those of POSIX")


def refused(target):
    return pytest.raises(SinkError, match=f"'{target}' is being written by another run")


def test_claim_locks_until_the_end_of_the_block(tmp_path):
    target = tmp_path / "panel.mp4"
    with Claims() as claims:
        claims.take(target)
        claims.take(target)  # again, by the same run
        with Claims() as others:
            others.take(tmp_path / "panel.mkv")
            with refused(target):
                others.take(target)
            with pytest.raises(SinkError, match="in use"):
                others.take(target, "in use")
        with refused(target), Claims() as others:
            others.take(tmp_path / "." / target.name)
    with Claims() as others:
        others.take(target)
    assert os.listdir(tmp_path) == []


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


def test_records_are_read_again_and_damage_is_an_error(folder):
    journal = Journal(folder / "a.mkv")
    journal.add({"index": 1}, b"data")
    assert list(journal.records()) == [({"index": 1}, b"data")]
    journal.append(b"abc")
    with pytest.raises(ValueError, match="incomplete"):
        list(journal.records())
