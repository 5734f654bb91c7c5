"""Everything that the README shows is run here."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from bgsub.cli import invoke

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(name):
    """Return the lines of the code block between the markers `name` and `end`."""
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```\n<!-- end -->", README, re.DOTALL)
    assert found, f"README has no block {name}"
    return found[1].strip()


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
    assert set(np.unique(names["mask"])) <= {0, 127, 255}
    assert names["background"].shape == names["frame"].image.shape


def test_the_pictures_and_files_it_names_exist():
    for name in re.findall(r"\]\(([^)h][^)]*)\)", README) + re.findall(r"(scripts/[^` ]+\.py)", README):
        assert (ROOT / name).exists(), name
