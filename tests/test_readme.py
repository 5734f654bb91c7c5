"""Everything that the README shows is run here."""

import importlib.util
import re
import shlex

import numpy as np
import pytest
from readme import README, ROOT, block

from bgsub.cli import invoke
from bgsub.cli.live import live


def test_the_readme_is_short():
    lines = README.splitlines()
    assert len(lines) < 120
    assert max(map(len, lines)) <= 160


def test_the_two_commands_come_first_and_install_in_the_same_way():
    main, tests = block("main"), block("tests")
    assert README.index("<!-- main -->") < README.index("<!-- tests -->") < README.index("## Use")
    for command in (main, tests):
        assert "\n" not in command
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert tests.endswith("&& .venv/bin/pytest")


def commands():
    main = block("main").split(" && ")[-1].removeprefix(".venv/bin/")
    return [main, *block("commands").splitlines()]


@pytest.mark.parametrize("command", commands())
def test_every_command_runs(command, tmp_path, monkeypatch, capsys):
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(command)
    assert program == "bgsub"
    assert invoke(arguments) == 0
    assert capsys.readouterr().out.strip()
    if "-o" in arguments:
        assert any((tmp_path / "out").rglob("*.*"))


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


def test_nothing_is_shown_that_is_not_run():
    assert len(re.findall(r"^```\w+$", README, re.MULTILINE)) == len(
        re.findall(r"^<!-- end -->$", README, re.MULTILINE)
    )


def test_the_pictures_and_files_it_names_exist():
    for name in re.findall(r"\]\(([^)h][^)#]*)[^)]*\)", README):
        assert (ROOT / name).exists(), name


def test_places_on_pages_exist():
    for page, place in re.findall(r"\]\((docs/[\w-]+\.md)#([\w-]+)\)", README):
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert place in [heading.lower().replace(" ", "-") for heading in headings]


def test_the_tables_are_those_of_the_result_files():
    spec = importlib.util.spec_from_file_location("docs_tables", ROOT / "scripts" / "docs_tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    for page in tables.PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert tables.fill(text) == text, f"run python scripts/docs_tables.py: {page} is out of date"
    assert tables.fill(text.replace("table: accuracy -->\n", "table: accuracy -->\n| wrong |\n")) == text
