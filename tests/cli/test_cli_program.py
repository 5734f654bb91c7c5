"""The program as a whole: help, version, what it imports, what it prints where."""

import os
import subprocess
import sys

import pytest

from bgsub import __version__
from bgsub.cli import program
from bgsub.cli.help import FileOption
from bgsub.cli.method_options import FILE_ONLY, METHOD_PARAMETERS

WITH_PARAMETERS = ("run", "track", "batch", "live", "evaluate", "bench")


def start(*words, **options):
    return subprocess.Popen([sys.executable, "-m", "bgsub", *words], text=True, stderr=subprocess.PIPE, **options)


def test_the_version_comes_first(cli):
    process = start("--version", stdout=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (out.splitlines()[0], err, process.returncode) == (f"bgsub {__version__}", "", 0)
    assert cli("--version").clean().out == out


def test_without_a_command_comes_the_help(cli):
    assert cli().out == cli("--help").out
    assert cli().code == 0
    assert cli("-h").out.index("run") < cli("-h").out.index("bench")


@pytest.mark.parametrize("command", WITH_PARAMETERS)
def test_every_parameter_is_an_option_with_its_symbol(command):
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
    told = [line for line in process.stderr.splitlines() if not line.startswith("bgsub: error: ")]
    assert told == ["0 []"] * 5 + ["2 []"] * 4


@pytest.mark.parametrize("words", [["--help"], ["run", "frames", "-o", "out"]])
def test_a_reader_that_has_gone_away_is_no_trouble(tmp_path, folder, words):
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*words, stdout=writing, cwd=tmp_path)
    os.close(writing)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 1


def test_a_bar_is_drawn_on_a_terminal_only(cli, tmp_path, folder, monkeypatch):
    words = ["run", folder, "-o", tmp_path / "out", "--on-error", "skip", "--overwrite"]
    assert cli(*words).err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    bar = cli(*words).err
    assert "0/30 [00:00<?" in bar
    assert bar.endswith("\r")
    assert cli(*words, "--quiet").err == ""
    (folder / "in000003.png").write_bytes(b"")
    lines = [line.strip() for line in cli(*words).err.replace("\r", "\n").split("\n")]
    assert f"bgsub: image '{folder / 'in000003.png'}' is empty; skipped" in lines
