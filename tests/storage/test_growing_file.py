"""Files that grow: what a kill leaves, and how they go on."""

from __future__ import annotations

import io

import pytest

from bgsub.errors import SinkError
from bgsub.storage.growing_file import GrowingFile


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
