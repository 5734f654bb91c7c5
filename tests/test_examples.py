"""Every example runs on the bundled sample."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import pytest

ROOT = Path(__file__).parents[1]
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
    result = subprocess.run(  # as a program, because the worker processes import it
        [sys.executable, EXAMPLES / "batch_of_files.py", tmp_path / "in", tmp_path / "out", "--workers", "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (result.returncode, result.stderr) == (0, "")
    broken, *done = sorted(result.stdout.splitlines())
    assert broken.startswith("broken.avi: ")
    assert done == ["one: 60 frames", "two: 60 frames"]
    for name in ("one", "two"):
        assert len(list((tmp_path / "out" / name / "mask").iterdir())) == 60
    assert (tmp_path / "out" / "manifest.csv").exists()
