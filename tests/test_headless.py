"""A machine without screen libraries: the error line and its remedy."""

import os
import re
import shlex
import sys

import pytest
from environments import QUICK, ROOT, fresh_environment, run, write_tiny_frames

from bgsub._opencv import cv2, installing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or not re.search("GUI: +QT", cv2.getBuildInformation()),
        reason="this OpenCV has no windows that need libraries",
    ),
]
LINE = (
    "bgsub: error: OpenCV cannot be loaded ({missing}); with windows it needs, on Debian and Ubuntu: "
    "apt-get install libgl1 libglib2.0-0; without, and without root: {command}\n"
)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return folder, Python and variables of an environment without libGL.so.1."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "libraries").mkdir()
    (folder / "libraries" / "libGL.so.1").touch()
    write_tiny_frames(folder / "frames")
    programs = fresh_environment(folder / "environment with a space")
    (shared,) = programs.parent.glob("lib/*/site-packages/shared.pth")
    shared.write_text(f"{ROOT}\n{shared.read_text(encoding='utf-8')}", encoding="utf-8")
    variables = {**QUICK, "LD_LIBRARY_PATH": f"{folder / 'libraries'}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    return folder, programs / "python", variables


def test_error_line(bare):
    folder, python, variables = bare
    answer = run(python, "-m", "bgsub", "run", "frames", "-o", "out", cwd=folder, **variables)
    missing = f"{folder}/libraries/libGL.so.1: file too short"
    command = f"{shlex.quote(str(python))} -m pip install --force-reinstall --no-deps opencv-python-headless"
    assert answer.stderr == LINE.format(missing=missing, command=command)
    assert (answer.returncode, answer.stdout) == (1, "")


def test_removed_opencv(tmp_path):
    left = tmp_path / "cv2" / "__init__.py"
    left.parent.mkdir()
    left.touch()
    answer = run(sys.executable, "-c", "import bgsub._opencv", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    missing, command = f"cannot import name 'imread' from 'cv2' ({left})", installing("opencv-python-headless")
    line = LINE.format(missing=missing, command=command).removeprefix("bgsub: error: ")
    assert answer.stderr.endswith(f"\nbgsub.errors.DependencyError: {line}")
