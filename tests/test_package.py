"""Wheel and sdist: complete, described, and working outside of the checkout, without an index."""

import re
import shutil
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from environments import QUICK, ROOT, fresh_environment, install, succeeds, write_tiny_frames
from readme import README, block

from bgsub import __version__

pytestmark = pytest.mark.slow
FOLDERS = ("bgsub", "datasets", "docs", "scripts", "tests")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "ARCHITECTURE.md", "LICENSE")
FILES += ("CHANGELOG.md", "CITATION.cff", "Dockerfile", ".dockerignore")


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


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    programs = fresh_environment(tmp_path_factory.mktemp("environment"))
    install(programs, wheel)
    return programs


def files(folder):
    """Return the files of a checkout by name, without those of setuptools."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if not path.parts[0].endswith(".egg-info")}


def checksums(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


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


def test_installed_package_runs(environment, tmp_path):
    write_tiny_frames(tmp_path / "datasets" / "sample" / "input")
    program = block("python") + "\nprint(mask.shape, bgsub.__file__)"
    answer = succeeds(environment / "python", "-I", "-c", program, cwd=tmp_path, **QUICK)
    place = next(Path(environment).parent.glob("lib/*/site-packages/bgsub/__init__.py"))
    assert answer.strip() == f"(16, 20) {place}"
    for program, *words in (["bgsub"], ["python", "-I", "-m", "bgsub"]):
        assert succeeds(environment / program, *words, "--help", cwd=tmp_path).startswith("Usage: bgsub ")
    words = ["install", "--no-index", "--dry-run", "bgsub[all]"]  # as messages say; no index has bgsub
    assert "already satisfied: bgsub[all]" in succeeds(environment / "python", "-m", "pip", *words, cwd=tmp_path)
