"""Everything that the README shows is run here."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from readme import README, ROOT, block, write_video_of_100_seconds

import bgsub
from bgsub.cli import invoke
from bgsub.cli.live import live


def test_the_two_commands_come_first_and_install_in_the_same_way():
    main, tests = block("main"), block("tests")
    assert README.index("<!-- main -->") < README.index("<!-- tests -->") < README.index("## Use")
    for command in (main, tests):
        assert "\n" not in command
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert tests.endswith("&& .venv/bin/pytest")


def commands():
    main = block("main").split(" && ")[-1].removeprefix(".venv/bin/")
    return [main, *block("commands").splitlines(), block("decompose")]


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


def test_the_matrix_is_split(capsys):
    exec(compile(block("matrix"), "README.md", "exec"), {})
    assert float(capsys.readouterr().out) < 1e-5


def test_the_loops_of_programs_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_video_of_100_seconds(Path("video.mp4"))
    seen = []
    names = {"bgsub": bgsub, "sink_or_function": lambda frame, _separation: seen.append(frame.index)}
    exec(compile(block("programs"), "README.md", "exec"), names)
    assert seen == [90, 92, 94, 96, 98]
    assert isinstance(names["objects"], type(bgsub.find_objects(names["separation"])))


def test_the_settings_hold(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BGSUB_NO_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    Path("bgsub.toml").write_text(block("toml"), encoding="utf-8")
    assert invoke(["config", "run"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^threshold = 0\.1 +# bgsub\.toml", shown, re.MULTILINE)
    assert re.search(r'^save = \["mask", "panel\.mp4"\] +# bgsub\.toml', shown, re.MULTILINE)
    for variable, command in (("BGSUB_THRESHOLD=0.2", "live"), ("BGSUB_RUN_SAVE=mask,panel.mp4", "run")):
        monkeypatch.setenv(*variable.split("="))
        assert invoke(["config", command]) == 0
        assert variable.split("=")[0] in capsys.readouterr().out


@pytest.mark.parametrize("command", block("live").splitlines())
def test_the_live_commands_are_understood(command):
    program, name, *arguments = shlex.split(command)
    assert (program, name) == ("bgsub", "live")
    context = live.make_context("bgsub live", list(arguments))
    assert context.params["cameras"] == (arguments[0],)


def test_the_pictures_and_files_it_names_exist():
    for name in re.findall(r"\]\(([^)h][^)]*)\)", README) + re.findall(r"(scripts/[^` ]+\.py)", README):
        assert (ROOT / name).exists(), name
