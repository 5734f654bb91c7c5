"""Regions written into a settings file: the rest of it stays as it is."""

from __future__ import annotations

import os
import tomllib

import pytest
from saying import says

from bgsub.cli.settings_writing import store
from bgsub.errors import ParameterError, SinkError

ROI = ["door=1%,2%;3%,4%;5%,6%"]
LINE = 'roi = ["door=1%,2%;3%,4%;5%,6%"]\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", LINE),
        ("# mine\n", LINE + "# mine\n"),
        ("rank = 3  # why\n\n[live]\nfast = true\n", "rank = 3  # why\n" + LINE + "\n[live]\nfast = true\n"),
        ("[live]\nfast = true", LINE + "[live]\nfast = true"),
        ("rank = 3", "rank = 3\n" + LINE),
        ("roi = 'a=0,0,1,1'\nrank = 3\n", LINE + "rank = 3\n"),
        ('roi = [  # all\n  "a=0,0,1,1",\n  # none\n]\n# end\n', LINE + "# end\n"),
        ("'roi' = '''\na=0,0,1,1'''\nrank = 3\n", LINE + "rank = 3\n"),
        ("[run]\nroi = '0,0,1,1'\n", LINE + "[run]\nroi = '0,0,1,1'\n"),
        ("roi = '0,0,1,1'\n[live]\nroi = '0,0,2,2'\n", "roi = '0,0,1,1'\n[live]\n" + LINE),
        ("text = '''\nroi = 5\n[live]\n'''\n", "text = '''\nroi = 5\n[live]\n'''\n" + LINE),
        ("a = 1\r\n[live]\r\n", "a = 1\r\n" + LINE + "[live]\r\n"),
        ("name = 'Türe'\n", "name = 'Türe'\n" + LINE),
    ],
)
def test_one_key_is_replaced_and_all_else_stays(tmp_path, before, after):
    path = tmp_path / "bgsub.toml"
    path.write_bytes(before.encode())
    store(path, "live", {"roi": ROI, "privacy": []})
    assert path.read_bytes().decode() == after
    store(path, "live", {"roi": ROI})
    assert path.read_bytes().decode() == after


def test_a_new_file_with_several_and_empty_again(tmp_path):
    path = tmp_path / "bgsub.toml"
    both = {"roi": ['a "b"=0,0,1,1', "c\\d=0,0,1,1"], "privacy": ["0,0,5%,5%"]}
    store(path, "live", both)
    assert tomllib.loads(path.read_text()) == both
    assert path.read_text().count("\n") == 5
    store(path, "live", {"roi": [], "privacy": ["x=0,0,1,1"]})
    assert path.read_text() == 'roi = []\nprivacy = ["x=0,0,1,1"]\n'
    assert os.listdir(tmp_path) == ["bgsub.toml"]


@pytest.mark.parametrize("before", ["live = {roi = '1,2,3,4'}\n", "'live'.roi = '1,2,3,4'\n"])
def test_what_cannot_be_replaced_is_left_alone(tmp_path, before):
    path = tmp_path / "bgsub.toml"
    path.write_text(before)
    with pytest.raises(ParameterError, match="written in a way in which roi cannot be replaced"):
        store(path, "live", {"roi": ROI})
    assert path.read_text() == before


def test_wrong_files(tmp_path):
    path = tmp_path / "bgsub.toml"
    path.write_text("roi = [\n")
    with pytest.raises(ParameterError, match="this is no TOML"):
        store(path, "live", {"roi": ROI})
    assert path.read_text() == "roi = [\n"
    with pytest.raises(SinkError):
        store(tmp_path / "none" / "bgsub.toml", "live", {"roi": ROI})
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    with says(Exception, f"the settings file '{folder}' cannot be read: Is a directory"):
        store(folder, "live", {"roi": ROI})
