"""What is synced, and in which order."""

from __future__ import annotations

import errno
import os

import pytest

from bgsub.storage import lasting
from bgsub.storage.atomic import remove_partials, replacing, write_whole
from bgsub.storage.growing_file import GrowingFile


@pytest.fixture
def synced(monkeypatch):
    """Names of what was synced or renamed, in that order."""
    calls, real = [], {name: getattr(os, name) for name in ("open", "fsync", "replace")}
    opened = {}

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
        monkeypatch.setattr(lasting.os, name, fake)
    return calls


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


def test_content_comes_before_the_name_and_the_name_before_the_end(folder, synced):
    write_whole(folder / "a.txt", b"new")
    assert synced == ["a.txt.partial", "a.txt.partial -> a.txt", "folder"]


@pytest.mark.skipif(os.name != "posix", reason="Windows syncs no folders")
def test_of_many_files_content_and_names_come_later(folder, synced):
    for name in "ab":
        with replacing(folder / name, lasting=False) as partial:
            partial.write_text("new")
    assert synced == ["a.partial -> a", "b.partial -> b"]
    synced.clear()
    lasting.sync_files([folder / "a", folder / "gone", folder / "b"])
    assert sorted(synced) == ["a", "b"]


@pytest.mark.skipif(os.name != "posix", reason="Windows syncs no folders")
def test_a_new_folder_has_a_name_that_lasts(folder, synced):
    lasting.make_folder(folder / "one" / "two")
    lasting.make_folder(folder / "one" / "two")
    assert sorted(synced) == ["folder", "one"]
    (folder / "one" / "two" / "a").write_text("")
    synced.clear()
    lasting.sync_tree(folder)
    assert sorted(synced) == ["a", "folder", "one", "two"]


def test_a_file_that_is_removed_stays_so(folder, synced):
    file = GrowingFile(folder / "a.txt")
    file.append("a")
    file.remove()
    assert synced == ["folder"]
    file.remove()
    assert synced == ["folder"]


@pytest.mark.skipif(os.name != "posix", reason="Windows syncs no folders")
def test_a_folder_that_the_disk_does_not_sync_is_left_and_a_broken_disk_is_told(folder, monkeypatch):
    def refuse(number):
        def fsync(_handle):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(lasting.os, "fsync", fsync)

    refuse(errno.EINVAL)
    lasting.sync_folder(folder)
    refuse(errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        lasting.sync_folder(folder)


def test_what_had_grown_for_a_file_goes_and_what_grows_for_another_stays(folder):
    grown = ("a.mp4.partial", "a.partial.mp4", "a.partial.mp4.partial", "a.mp4.images.partial")
    for name in (*grown, "a.mp4", "aa.mp4.partial", "a.mp4x.partial"):
        (folder / name).write_text("")
    remove_partials(folder / "a.mp4")
    assert sorted(os.listdir(folder)) == ["a.mp4", "a.mp4x.partial", "aa.mp4.partial"]
