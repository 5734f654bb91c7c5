"""Fresh environments outside the checkout, which see the packages that the tests run with."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
QUICK = {"NUMBA_DISABLE_JIT": "1"}  # tiny frames take longer to compile for than to work on


def write_tiny_frames(folder: Path) -> None:
    """Write twelve frames of 20x16, each a little lighter than the one before."""
    folder.mkdir(parents=True)
    for index in range(12):
        cv2.imwrite(str(folder / f"in{index:06d}.png"), np.full((16, 20, 3), 100 + index, np.uint8))


def fresh_environment(folder: Path) -> Path:
    """Make a virtual environment and return its folder of programs; installing into it leaves the others alone."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    shared = [path for path in sys.path if path.endswith("-packages")]
    (packages / "shared.pth").write_text("\n".join(shared), encoding="utf-8")
    return folder / "bin"


def install(environment: Path, wheel: Path) -> None:
    """Install a wheel, nothing else, without an index, whatever bgsub the shared packages hold."""
    pip = [environment / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]
    succeeds(*pip, wheel, cwd=environment)


def index_is_there(python: Path, folder: Path) -> bool:
    """Tell whether pip finds OpenCV in an index of packages: not so without a network."""
    return run(python, "-m", "pip", "index", "versions", "opencv-python-headless", cwd=folder).returncode == 0


def run(*command: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, without the folders of modules of whoever runs the tests."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=cwd, env={**environment, **variables}, capture_output=True, text=True, check=False, timeout=250
    )


def succeeds(*command: object, cwd: Path, **variables: str) -> str:
    """Run a program that must succeed, and return what it printed."""
    result = run(*command, cwd=cwd, **variables)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
