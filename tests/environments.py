"""Fresh virtual environments that share the installed packages of the test run."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
QUICK = {"NUMBA_DISABLE_JIT": "1"}  # for tiny frames, compiling takes longer than running


def write_tiny_frames(folder: Path) -> None:
    """Write twelve frames of 20x16 with increasing brightness."""
    folder.mkdir(parents=True)
    for index in range(12):
        cv2.imwrite(str(folder / f"in{index:06d}.png"), np.full((16, 20, 3), 100 + index, np.uint8))


def fresh_environment(folder: Path) -> Path:
    """Create a virtual environment and return its folder of programs."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    shared = [path for path in sys.path if path.endswith("-packages")]
    (packages / "shared.pth").write_text("\n".join(shared), encoding="utf-8")
    return folder / "bin"


def install(environment: Path, wheel: Path) -> None:
    """Install only a wheel, without an index, even if the shared packages contain bgsub."""
    pip = [environment / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]
    succeeds(*pip, wheel, cwd=environment)


def index_is_there(python: Path, folder: Path) -> bool:
    """Whether pip can reach a package index."""
    return run(python, "-m", "pip", "index", "versions", "opencv-python-headless", cwd=folder).returncode == 0


def run(*command: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end without the user's PYTHONPATH."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=cwd, env={**environment, **variables}, capture_output=True, text=True, check=False, timeout=250
    )


def succeeds(*command: object, cwd: Path, **variables: str) -> str:
    """Run a program that must succeed, and return its output."""
    result = run(*command, cwd=cwd, **variables)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
