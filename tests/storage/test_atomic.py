"""Files that appear whole or not at all."""

from __future__ import annotations

import pytest

from bgsub.errors import SinkError
from bgsub.storage.atomic import replacing, write_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_in_the_end(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with replacing(path) as partial:
            partial.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_what_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(SinkError, match=r"a\.txt' cannot be written: No such file or directory$"):
        write_whole(tmp_path / "gone" / "a.txt", b"")
