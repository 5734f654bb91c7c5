"""The program: help, version, imports, options of the method, and a closed pipe."""

import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version

import pytest
from readme import ROOT

from bgsub import __version__
from bgsub.cli import installation, program
from bgsub.cli.help import FileOption
from bgsub.cli.method_options import FILE_ONLY, METHOD_PARAMETERS

WITH_PARAMETERS = ("run", "track", "batch", "live", "evaluate", "bench")


def start(*words, **options):
    return subprocess.Popen([sys.executable, "-m", "bgsub", *words], text=True, stderr=subprocess.PIPE, **options)


def test_no_command_shows_the_help(cli):
    assert cli().out == cli("--help").out == cli("-h").out
    assert cli().code == 0


@pytest.mark.parametrize("command", WITH_PARAMETERS)
def test_every_parameter_is_an_option(command):
    options = {option.name: option for option in program.commands[command].params}
    for name, parameter in METHOD_PARAMETERS.items():
        option = options[name]
        assert option.opts[0] == f"--{name.replace('_', '-')}"
        assert isinstance(option, FileOption) == (name in FILE_ONLY)
        assert parameter.help[1:] in option.help
        assert (f"{parameter.symbol} in the paper" in option.help) == bool(parameter.symbol)
        if parameter.default is not None:
            default = str(parameter.default).lower() if parameter.kind is bool else parameter.default
            assert f"default: {default}]" in option.help
        assert "None" not in option.help


def test_nothing_heavy_is_imported_before_a_command_runs():
    lines = [[], ["--help"], ["run", "--help"], ["--version"], ["config"], ["run", "--rank", "0"], ["live", "--wings"]]
    lines += [["run", "x", "-o", "out", "--roi", "1,2"], ["track", "x", "-o", "out", "--backend", "none"]]
    code = (
        "import sys; from bgsub.cli import invoke\n"
        f"for words in {lines}:\n"
        "    code = invoke(words)\n"
        "    found = {'numpy', 'cv2', 'numba', 'scipy', 'tqdm'} & set(sys.modules)\n"
        "    print(code, sorted(found), file=sys.stderr)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    found = [line for line in process.stderr.splitlines() if not line.startswith("bgsub: error: ")]
    assert found == ["0 []"] * 5 + ["2 []"] * 4


@pytest.mark.parametrize("words", [["--help"], pytest.param(["run", "frames", "-o", "out"], marks=pytest.mark.slow)])
def test_closed_standard_output_is_no_error(tmp_path, folder, words):
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*words, stdout=writing, cwd=tmp_path)
    os.close(writing)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 1


def test_version_lists_the_libraries(cli):
    import av  # noqa: PLC0415

    answer = cli("--version").clean()
    lines = answer.out.splitlines()
    assert lines[0] == f"bgsub {__version__}"
    assert lines[1].startswith("Python 3.")
    assert lines[1].endswith(" cores")
    assert lines[2].startswith("OpenCV: opencv-")
    assert f"PyAV {av.__version__} (FFmpeg {av.ffmpeg_version_info})" in answer.out
    assert f"NumPy {version('numpy')}, SciPy {version('scipy')}, Numba {version('numba')}" in lines[4]
    assert lines[5].startswith("extras: ")
    assert max(map(len, lines)) <= 120
    with start("--version", stdout=subprocess.PIPE) as process:
        assert process.stdout.read() == answer.out


def test_version_names_missing_packages(cli, monkeypatch):
    def installed(package):
        if package in ("opencv-python", "numpy"):
            return "1.2.3"
        if package == "opencv-contrib-python-headless":
            return "4.5.6"
        raise PackageNotFoundError(package)

    monkeypatch.setattr(installation, "version", installed)
    assert cli("--version").clean().out.splitlines()[2:] == [
        "OpenCV: opencv-python 1.2.3, opencv-contrib-python-headless 4.5.6",
        "PyAV missing",
        "NumPy 1.2.3, SciPy missing, Numba missing, llvmlite missing",
        "extras: none",
        "not installed: pip install 'bgsub[plot,batch,virtual-camera]'",
    ]
    monkeypatch.setattr(installation, "version", lambda _package: "1.2.3")
    monkeypatch.setitem(sys.modules, "av", None)
    assert "PyAV 1.2.3\n" in cli("--version").clean().out  # installed, but the import fails


def test_extras_are_those_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, package in installation._EXTRAS.items():
        assert any(line.startswith(package) for line in extras[extra])
    listed = {tuple(sorted(line.split("[")[1].rstrip("]").split(","))) for line in extras["all"]}
    assert tuple(sorted(installation._EXTRAS)) in listed
