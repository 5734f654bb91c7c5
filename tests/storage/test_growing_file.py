"""Files that grow: what a kill leaves, and how they go on."""

from __future__ import annotations

import io

import pytest

from bgsub.errors import SinkError
from bgsub.storage.growing_file import GrowingFile, Journal


def test_nothing_is_made_before_there_is_something(tmp_path):
    file = GrowingFile(tmp_path / "a.txt")
    assert (file.sync(), file.reading().read()) == (0, b"")
    file.cut(0)
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_it_goes_on_where_it_was_cut(tmp_path):
    killed = GrowingFile(tmp_path / "a.txt")
    killed.append("grün,")
    size = killed.sync()
    killed.append("lost")  # without a word, and yet on the disk
    assert killed.path.read_text() == "grün,lost"
    file = GrowingFile(tmp_path / "a.txt")
    file.cut(size)
    file.append(b"blue")
    assert file.reading().read().decode() == "grün,blue"
    file.finish()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "grün,blue"}


def test_what_is_missing_is_named(tmp_path):
    file = GrowingFile(tmp_path / "a.txt")
    file.path.write_bytes(b"123")
    with pytest.raises(SinkError) as caught:
        file.cut(5)
    what = f"'{tmp_path / 'a.txt'}' cannot be continued: '{file.path}' must hold 5 bytes to go on from, it has 3"
    assert str(caught.value) == what


def test_an_empty_file_may_be_finished(tmp_path):
    GrowingFile(tmp_path / "a.txt").finish()
    assert (tmp_path / "a.txt").read_bytes() == b""


def test_a_full_disk_is_told_though_it_takes_a_part(tmp_path, monkeypatch):
    class Full(io.FileIO):
        def write(self, data):
            if self.tell() >= 4:
                raise OSError(28, "No space left on device")
            return super().write(data[:4])

    file = GrowingFile(tmp_path / "a.txt")
    monkeypatch.setattr(GrowingFile, "_opened", lambda self: full)
    with Full(file.path, "wb") as full, pytest.raises(SinkError, match=r"a\.txt' cannot be written: No space left"):
        file.append(b"123456")


def test_records_come_back(tmp_path):
    journal = Journal(tmp_path / "a.npz")
    records = [({"index": 0}, b"one"), ({"index": 1, "name": "ü"}, b"")]
    for facts, data in records:
        journal.add(facts, data)
    assert list(journal.records()) == records
    journal.remove()
    assert list(tmp_path.iterdir()) == []
