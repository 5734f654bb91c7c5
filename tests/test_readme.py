"""Everything that the README shows is run here, and every example, on the bundled sample."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import cv2
import docs_tables as tables
import numpy as np
import pytest
from readme import ROOT, block

from bgsub import __version__
from bgsub.cli import invoke
from bgsub.cli.live import live

MAIN = block("main").split(" && ")[-1].removeprefix(".venv/bin/")
OTHERS = [pytest.param(command, marks=pytest.mark.slow) for command in block("commands").splitlines()]


@pytest.mark.parametrize("command", [MAIN, *OTHERS])
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


EXAMPLES = ROOT / "scripts" / "examples"
SAMPLE = str(ROOT / "datasets" / "sample" / "input")


@pytest.fixture
def example(capsys):
    """Return a function that runs an example and returns its output lines."""

    def run(name, *arguments):
        importlib.import_module(f"examples.{name}").main(list(map(str, arguments)))
        return capsys.readouterr().out.splitlines()

    return run


@pytest.mark.slow
def test_webcam_loop(example):
    lines = example("webcam_loop", SAMPLE, "--no-window", "--frames", 60)
    shares = [float(line.split()[1]) for line in lines]
    assert len(shares) == 60
    assert 0 < max(shares) < 0.3


@pytest.mark.slow
def test_compare_with_mog2(example):
    head, *rows = example("compare_with_mog2", SAMPLE)
    assert head.split() == ["frame", "MOG2", "KNN", "bgsub"]
    assert len(rows) == 20
    assert all(re.fullmatch(r" *\d+( +\d+\.\d+%){3}", row) for row in rows)


@pytest.mark.slow
def test_detect_on_residual(example, tmp_path):
    lines = example("detect_on_residual", SAMPLE, "--output", tmp_path / "boxes.png")
    assert len(lines) > 50
    assert all(0 < float(line.split()[-1]) <= 1 for line in lines)
    assert cv2.imread(str(tmp_path / "boxes.png")).ndim == 3


def test_robust_pca(example):
    plain, robust = example("robust_pca", "--size", 80, "--rank", 3)
    assert float(plain.split()[-1]) > 0.1
    assert float(robust.split()[-1]) < 1e-3


@pytest.mark.slow
def test_batch_of_files(tmp_path):
    for name in ("one", "two"):
        shutil.copytree(SAMPLE, tmp_path / "in" / name, ignore=lambda _folder, names: sorted(names)[60:])
    (tmp_path / "in" / "broken.avi").write_bytes(b"no video")
    # as a program, because the worker processes import it
    command = [sys.executable, EXAMPLES / "batch_of_files.py", tmp_path / "in", tmp_path / "out", "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=300)
    assert (result.returncode, result.stderr) == (0, "")
    broken, *done = sorted(result.stdout.splitlines())
    assert broken.startswith("broken.avi: ")
    assert done == ["one: 60 frames", "two: 60 frames"]
    for name in ("one", "two"):
        assert len(list((tmp_path / "out" / name / "mask").iterdir())) == 60
    assert (tmp_path / "out" / "manifest.csv").exists()
