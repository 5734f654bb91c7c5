"""Every example runs on the bundled sample and says something true."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import cv2
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "scripts" / "examples"
SAMPLE = str(ROOT / "datasets" / "sample" / "input")


@pytest.fixture
def example(capsys):
    """A function that runs an example by name and returns what it printed, line by line."""

    def run(name, *arguments):
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.main(list(map(str, arguments)))
        return capsys.readouterr().out.splitlines()

    return run


def test_webcam_loop(example):
    lines = example("webcam_loop", SAMPLE, "--no-window", "--frames", 60)
    shares = [float(line.split()[1]) for line in lines]
    assert len(shares) == 60
    assert 0 < max(shares) < 0.3


def test_compare_with_mog2(example):
    head, *rows = example("compare_with_mog2", SAMPLE)
    assert head.split() == ["frame", "MOG2", "KNN", "bgsub"]
    assert len(rows) == 20
    assert all(re.fullmatch(r" *\d+( +\d+\.\d+%){3}", row) for row in rows)


def test_detect_on_residual(example, tmp_path):
    lines = example("detect_on_residual", SAMPLE, "--output", tmp_path / "boxes.png")
    assert len(lines) > 50
    assert all(0 < float(line.split()[-1]) <= 1 for line in lines)
    assert cv2.imread(str(tmp_path / "boxes.png")).ndim == 3


def test_robust_pca(example):
    plain, robust = example("robust_pca", "--size", 80, "--rank", 3)
    assert float(plain.split()[-1]) > 0.1
    assert float(robust.split()[-1]) < 1e-3


def test_all_examples_are_tested():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tested
