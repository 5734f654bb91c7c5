"""``bgsub --version``: what matters where something goes wrong."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version

from readme import ROOT

from bgsub import __version__
from bgsub.cli import installation as versions


def test_the_versions_of_what_matters(cli):
    lines = cli("--version").clean().out.splitlines()
    assert lines[0] == f"bgsub {__version__}"
    assert lines[1].startswith("Python 3.")
    assert lines[1].endswith(" cores")
    assert lines[2].startswith("OpenCV: opencv-")
    assert f"NumPy {version('numpy')}, SciPy {version('scipy')}, Numba {version('numba')}" in lines[4]
    assert lines[5].startswith("extras: ")
    assert max(map(len, lines)) <= 120


def test_the_version_of_ffmpeg(cli):
    import av  # noqa: PLC0415

    assert f"PyAV {av.__version__} (FFmpeg {av.ffmpeg_version_info})" in cli("--version").clean().out


def test_what_is_not_installed_is_told_with_the_command(cli, monkeypatch):
    def installed(package):
        if package in ("opencv-python", "numpy"):
            return "1.2.3"
        if package == "opencv-contrib-python-headless":
            return "4.5.6"
        raise PackageNotFoundError(package)

    monkeypatch.setattr(versions, "version", installed)
    assert cli("--version").clean().out.splitlines()[2:] == [
        "OpenCV: opencv-python 1.2.3, opencv-contrib-python-headless 4.5.6",
        "PyAV missing",
        "NumPy 1.2.3, SciPy missing, Numba missing, llvmlite missing",
        "extras: none",
        "not installed: pip install 'bgsub[plot,batch,virtual-camera]'",
    ]


def test_a_package_that_cannot_be_imported_is_no_trouble(cli, monkeypatch):
    monkeypatch.setattr(versions, "version", lambda _package: "1.2.3")
    monkeypatch.setitem(sys.modules, "av", None)
    assert "PyAV 1.2.3\n" in cli("--version").clean().out


def test_the_extras_are_those_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, package in versions._EXTRAS.items():
        assert any(line.startswith(package) for line in extras[extra])
    assert f"bgsub[{','.join(sorted(versions._EXTRAS))}]" in {
        f"bgsub[{','.join(sorted(line.split('[')[1].rstrip(']').split(',')))}]" for line in extras["all"]
    }
