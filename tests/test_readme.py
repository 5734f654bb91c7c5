"""Everything that the README shows is run here."""

import re
import shlex
import tomllib

import docs_tables as tables
import numpy as np
import pytest
from readme import ROOT, block

from bgsub import __version__
from bgsub.cli import invoke
from bgsub.cli.live import live


def commands():
    main = block("main").split(" && ")[-1].removeprefix(".venv/bin/")
    return [main, *block("commands").splitlines()]


@pytest.mark.parametrize(
    "command", [commands()[0], *(pytest.param(one, marks=pytest.mark.slow) for one in commands()[1:])]
)
def test_every_command_runs(command, here, capsys):
    (here / "datasets").symlink_to(ROOT / "datasets")
    program, *arguments = shlex.split(command)
    assert program == "bgsub"
    assert invoke(arguments) == 0
    assert capsys.readouterr().out.strip()
    if "-o" in arguments:
        assert any((here / "out").rglob("*.*"))


def test_the_python_example_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    exec(compile(block("python"), "README.md", "exec"), names)
    assert names["mask"].shape == names["frame"].image.shape[:2]
    assert set(np.unique(names["mask"])) <= {0, 127, 255}


@pytest.mark.parametrize("command", block("live").splitlines())
def test_the_live_commands_are_understood(command):
    program, name, *arguments = shlex.split(command)
    assert (program, name) == ("bgsub", "live")
    context = live.make_context("bgsub live", list(arguments))
    assert context.params["cameras"] == (arguments[0],)


def test_the_tables_are_those_of_the_result_files():
    for page in tables.PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert tables.fill(text) == text, f"run python scripts/docs_tables.py: {page} is out of date"
    assert tables.fill(text.replace("table: accuracy -->\n", "table: accuracy -->\n| wrong |\n")) == text


CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
VERSIONS = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", CHANGES, re.MULTILINE)


def test_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = re.search(r"^version: (.*)$", citation, re.MULTILINE)[1]
    assert {project["version"], cited, VERSIONS[0][0]} == {__version__}


def test_the_commands_for_a_video(here, capsys):
    assert invoke(["demo", "-o", "demo", "--scene", "street", "--duration", "120", "--quiet"]) == 0
    (here / "demo" / "input.mp4").rename("video.mp4")
    for command in block("video").splitlines():
        assert invoke(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert shown.startswith("#  start")
    assert "wrote day/overview.html" in shown
    assert (here / "day" / "clips" / "clips.csv").exists()
