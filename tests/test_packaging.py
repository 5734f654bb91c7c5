"""Wheel, sdist and image (as far as testable without Docker), and a machine without libraries of a screen."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from fnmatch import fnmatch
from pathlib import Path

import cv2
import numpy as np
import pytest
from readme import README, ROOT, block
from video_fakes import write_images

from bgsub import __version__
from bgsub._opencv import installing

FOLDERS = ("bgsub", "datasets", "docs", "scripts", "tests")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "ARCHITECTURE.md", "LICENSE")
FILES += ("CHANGELOG.md", "CITATION.cff", "Dockerfile", ".dockerignore")
QUICK = {"NUMBA_DISABLE_JIT": "1"}  # for tiny frames, compiling takes longer than running
TINY = np.stack([np.full((16, 20, 3), 100 + index, np.uint8) for index in range(12)])


def fresh_environment(folder: Path) -> Path:
    """Create a virtual environment and return its folder of programs."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    shared = [path for path in sys.path if path.endswith("-packages")]
    (packages / "shared.pth").write_text("\n".join(shared), encoding="utf-8")
    return folder / "bin"


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


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of the checkout without files of tests and runs."""
    copy = tmp_path_factory.mktemp("package") / "checkout"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def built(checkout):
    """Return the folder of the sdist and of the wheel made of it."""
    folder = checkout.parent / "dist"
    succeeds(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, checkout, cwd=folder.parent)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


def files(folder):
    """Return the files of a checkout by name, without those of setuptools."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if not path.parts[0].endswith(".egg-info")}


def checksums(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


@pytest.mark.slow
def test_wheel_and_sdist_are_complete(wheel, built, checkout, tmp_path):
    names = {name for name in checksums(wheel) if name.startswith("bgsub/")}
    assert names == {f"bgsub/{name}" for name in files(checkout / "bgsub")}
    assert names >= {"bgsub/py.typed", "bgsub/__init__.pyi", "bgsub/live/page/index.html"}
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    left = {name for name in names if not name.startswith("bgsub.egg-info/")}
    assert left == files(checkout) | {"PKG-INFO", "setup.cfg"}
    succeeds(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, checkout, cwd=tmp_path)
    assert checksums(tmp_path / wheel.name) == checksums(wheel)


@pytest.mark.slow
def test_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_bytes(archive.read(f"bgsub-{__version__}.dist-info/METADATA"))
    assert metadata["Version"] == __version__
    assert all(re.fullmatch(r".+, https://\S+", url) for url in metadata.get_all("Project-URL"))
    this = f"Programming Language :: Python :: {sys.version_info.major}.{sys.version_info.minor}"
    assert this in metadata.get_all("Classifier")
    assert metadata["Description-Content-Type"] == "text/markdown"
    shown = metadata.get_payload()
    assert [link for link in re.findall(r"\]\(([^)]*)\)", shown) if not link.startswith("https://")] == []
    assert shown.split("##")[-1].strip().startswith("Citation")
    assert len(shown) > 0.85 * len(README)


@pytest.mark.slow
def test_installed_package_runs(wheel, tmp_path):
    """Only the wheel is installed, without an index, even if the shared packages contain bgsub."""
    environment = fresh_environment(tmp_path / "environment")
    pip = [environment / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]
    succeeds(*pip, wheel, cwd=environment)
    (tmp_path / "datasets" / "sample").mkdir(parents=True)
    write_images(tmp_path / "datasets" / "sample" / "input", TINY)
    program = block("python") + "\nprint(mask.shape, bgsub.__file__)"
    answer = succeeds(environment / "python", "-I", "-c", program, cwd=tmp_path, **QUICK)
    place = next(environment.parent.glob("lib/*/site-packages/bgsub/__init__.py"))
    assert answer.strip() == f"(16, 20) {place}"
    for program, *words in (["bgsub"], ["python", "-I", "-m", "bgsub"]):
        assert succeeds(environment / program, *words, "--help", cwd=tmp_path).startswith("Usage: bgsub ")
    words = ["install", "--no-index", "--dry-run", "bgsub[all]"]  # as messages say; no index has bgsub
    assert "already satisfied: bgsub[all]" in succeeds(environment / "python", "-m", "pip", *words, cwd=tmp_path)


LINES = [line for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
STEPS = [step.split(maxsplit=1) for step in "\n".join(LINES).replace("\\\n", " ").splitlines() if step]
COPIES = [rest.split() for name, rest in STEPS if name == "COPY"]
RUNS = [rest for name, rest in STEPS if name == "RUN"]


@pytest.mark.parametrize("name", [name for *names, _ in COPIES for name in names])
def test_copied_files_exist_and_are_not_ignored(name):
    assert (ROOT / name).exists()
    sent = False
    for pattern in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if fnmatch(name, pattern.removeprefix("!")):
            sent = pattern.startswith("!")
    assert sent


@pytest.fixture
def sources(tmp_path):
    """Copy the sources of the image below `tmp_path`."""
    for *names, target in COPIES:
        for name in names:
            place = tmp_path / target.strip("/")
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.mkdir(exist_ok=True)
                shutil.copy(ROOT / name, place)
    return tmp_path / "src"


@pytest.mark.slow
def test_installs_bgsub_with_headless_opencv(tmp_path, sources):
    programs = fresh_environment(tmp_path / "environment")
    if run(programs / "python", "-m", "pip", "index", "versions", "opencv-python-headless", cwd=tmp_path).returncode:
        pytest.skip("no index of packages can be reached")
    (programs / "pip").write_text(f'#!/bin/sh\nexec "{programs / "python"}" -m pip "$@"\n', encoding="utf-8")
    (programs / "pip").chmod(0o755)
    (step,) = (run for run in RUNS if "pip install" in run)
    path = f"{programs}:{os.environ['PATH']}"
    succeeds("sh", "-euc", step.replace("/src", str(sources)), cwd=tmp_path, PATH=path)
    code = "import bgsub, cv2, os; print(cv2.getBuildInformation(), os.path.getmtime(bgsub.__file__) % 1)"
    answer = succeeds(programs / "python", "-I", "-c", code, cwd=tmp_path)
    assert re.search(r"GUI: +NONE", answer)
    assert answer.endswith(" 0.0\n")
    assert succeeds(programs / "bgsub", "--help", cwd=tmp_path).startswith("Usage: bgsub ")


@pytest.mark.slow
def test_kernels_are_portable(tmp_path):
    (settings,) = (rest for name, rest in STEPS if name == "ENV")
    (processor,) = (rest.partition("=")[2] for name, rest in STEPS if name == "ARG")
    values = dict(pair.split("=") for pair in settings.replace('""', "").replace("$CPU", processor).split())
    code = "from numba.core.registry import cpu_target as t; print(t.target_context.codegen().magic_tuple()[1:])"
    assert values.keys() == {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_CACHE_DIR"}
    assert succeeds(sys.executable, "-c", code, cwd=tmp_path, **values) == f"{(processor, '')}\n"


NEEDS_LIBRARIES = sys.platform.startswith("linux") and re.search("GUI: +QT", cv2.getBuildInformation())
has_windows = pytest.mark.skipif(not NEEDS_LIBRARIES, reason="this OpenCV has no windows that need libraries")
LINE = (
    "bgsub: error: OpenCV cannot be loaded ({missing}); with windows it needs, on Debian and Ubuntu: "
    "apt-get install libgl1 libglib2.0-0; without, and without root: {command}\n"
)


@pytest.mark.slow
@has_windows
def test_error_line_without_libgl(tmp_path):
    library = tmp_path / "libraries" / "libGL.so.1"
    library.parent.mkdir()
    library.touch()
    write_images(tmp_path / "frames", TINY)
    programs = fresh_environment(tmp_path / "environment with a space")
    (shared,) = programs.parent.glob("lib/*/site-packages/shared.pth")
    shared.write_text(f"{ROOT}\n{shared.read_text(encoding='utf-8')}", encoding="utf-8")
    variables = {**QUICK, "LD_LIBRARY_PATH": f"{library.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    answer = run(programs / "python", "-m", "bgsub", "run", "frames", "-o", "out", cwd=tmp_path, **variables)
    missing = f"{library}: file too short"
    python = shlex.quote(str(programs / "python"))
    command = f"{python} -m pip install --force-reinstall --no-deps opencv-python-headless"
    assert answer.stderr == LINE.format(missing=missing, command=command)
    assert (answer.returncode, answer.stdout) == (1, "")


@pytest.mark.slow
@has_windows
def test_removed_opencv(tmp_path):
    left = tmp_path / "cv2" / "__init__.py"
    left.parent.mkdir()
    left.touch()
    answer = run(sys.executable, "-c", "import bgsub._opencv", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    missing, command = f"cannot import name 'imread' from 'cv2' ({left})", installing("opencv-python-headless")
    line = LINE.format(missing=missing, command=command).removeprefix("bgsub: error: ")
    assert answer.stderr.endswith(f"\nbgsub.errors.DependencyError: {line}")
