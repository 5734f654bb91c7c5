"""The program: help, version, imports, options of the method, completion, and a closed pipe."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
import pytest
from kernel_programs import BEGIN
from numba import config
from readme import ROOT
from video_fakes import read_video, write_video

from bgsub import __version__
from bgsub.cli import program
from bgsub.cli.help import GROUPS, by_group
from bgsub.cli.method_options import HIDDEN, METHOD_PARAMETERS
from bgsub.cli.settings import long_names
from bgsub.scene import kernel_warmup

HEAVY = "{'numpy', 'cv2', 'numba', 'scipy', 'tqdm', 'av'} & set(sys.modules)"


def run(*words, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=200)


def test_no_command_shows_the_help(cli):
    assert cli().out == cli("--help").out == cli("-h").out
    assert cli().code == 0


@pytest.mark.parametrize("command", ["run", "track", "batch", "live", "evaluate", "bench"])
def test_every_parameter_is_an_option(command):
    options = {option.name: option for option in program.commands[command].params}
    for name, parameter in METHOD_PARAMETERS.items():
        option = options[name]
        assert option.opts[0] == f"--{name.replace('_', '-')}"
        assert option.hidden == (name in HIDDEN)
        assert parameter.help[1:] in option.help
        assert (f"{parameter.symbol} in the paper" in option.help) == bool(parameter.symbol)
        if parameter.default is not None:
            default = str(parameter.default).lower() if parameter.kind is bool else parameter.default
            assert f"default: {default}]" in option.help
        assert "None" not in option.help


def test_nothing_heavy_is_imported_before_a_command_runs():
    lines = [[], ["--help"], ["run", "--help"], ["--version"], ["config"], ["run", "--rank", "0"], ["live", "--wings"]]
    regions = ["--roi", "a=0,0,5,5", "--roi", "10%,0;5,5;0,9"]
    lines += [["run", "x", "-o", "out", "--roi", "1,2"], ["track", "x", "-o", "out", *regions, "--every", "0"]]
    code = (
        "import sys; from bgsub.cli import invoke\n"
        f"for words in {lines}:\n"
        "    code = invoke(words)\n"
        f"    print(code, sorted({HEAVY}), file=sys.stderr)"
    )
    said = run(sys.executable, "-c", code).stderr
    found = [line for line in said.splitlines() if not line.startswith("bgsub: error: ")]
    assert found == ["0 []"] * 5 + ["2 []"] * 4


@pytest.mark.parametrize("words", [["--help"], pytest.param(["run", "frames", "-o", "out"], marks=pytest.mark.slow)])
def test_closed_standard_output_is_no_error(tmp_path, folder, words):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "bgsub", *words]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, check=False, timeout=60)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_version_lists_the_packages(cli):
    import av  # noqa: PLC0415

    answer = cli("--version").clean().out
    program, python, packages = answer.splitlines()
    assert program == f"bgsub {__version__}"
    assert python.startswith("Python 3.")
    assert packages.startswith("opencv-")
    assert f", av {av.__version__}, numpy {version('numpy')}, " in packages
    assert run(sys.executable, "-m", "bgsub", "--version").stdout == answer


jit = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


@pytest.mark.slow
@jit
def test_kernels_of_all_frame_formats_are_compiled_once(tmp_path):
    cache = tmp_path / "cache"
    program = BEGIN + "from bgsub.cli import invoke\ncode = invoke(['warm-up'])\nsay(len(started))\nsys.exit(code)\n"
    first, second = (run(sys.executable, "-c", program, NUMBA_CACHE_DIR=str(cache)) for _ in range(2))
    stamps = sorted(cache.rglob("*.kernels"))
    (folder,) = {stamp.parent for stamp in stamps}
    message, count = first.stdout.splitlines()
    assert (first.returncode, message) == (0, f"all kernels are in {folder}")
    assert int(count) >= 4
    lines = re.sub(r"in \d+\.\d s", "in T s", first.stderr).splitlines()
    expected = ["bgsub: compiling kernels 0 of 3, once per installation", "bgsub: 3 kernels compiled in T s"]
    assert [line for line in lines if not re.search(" [12] of ", line)] == expected * 4  # frame formats
    assert (second.returncode, second.stdout, second.stderr) == (0, f"{message}\n0\n", "")
    formats = [f"{dtype}-{channels}-3" for dtype in ("uint8", "float32") for channels in (1, 3)]
    assert {stamp.stem.split("-", 2)[2] for stamp in stamps} == {*formats, *(f"{one}-reduced" for one in formats)}


@jit
def test_cache_folder_that_cannot_be_written(cli, monkeypatch):
    monkeypatch.setattr(kernel_warmup, "_stamp", lambda frames: None)
    monkeypatch.setattr(kernel_warmup, "prepare", lambda frames: None)
    cli("warm-up").refused("no folder for them can be written (NUMBA_CACHE_DIR names one)")


# A line and some of its completions; None where the shell completes file names.
COMPLETED = {
    "ba": {"batch"},
    "run --ov": {"--overwrite"},
    "run --he": {"--help", "--help-all"},
    "run --shadows m": {"merged"},
    "run --light ": {"true", "false"},
    "run --save mask,pa": {"mask,panel"},
    "track --event-formats csv,": {"csv,jsonl", "csv,html", "csv,pictures"},
    "run --threshold ": set(),
    **dict.fromkeys(("--config ", "run fr", "run --log ", "run --record ")),
}


@pytest.fixture
def place(settings, monkeypatch):
    """A working folder that is the home as well, with bgsub among the programs."""
    program = settings / "programs" / "bgsub"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bgsub "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("HOME", str(settings))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings / ".config"))
    return settings


def in_bash(line):
    """Bash code that prints the completions of a line and the options for the shell."""
    words, last = line.rpartition(" ")[::2]
    typed = ["bgsub", *words.split(), last]
    return (
        f"COMP_WORDS=({shlex.join(typed)}); COMP_CWORD={len(typed) - 1}; COMPREPLY=(); _bgsub_completion bgsub; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes(place):
    code = 'eval "$(_BGSUB_COMPLETE=bash_source bgsub)"; compopt() { echo "$@"; }; '
    code += "; echo ---; ".join(map(in_bash, COMPLETED))
    ended = run("bash", "--norc", "-c", code)
    assert (ended.returncode, ended.stderr) == (0, "")
    answers = ended.stdout.removesuffix("\n").split("\n---\n")
    for (line, wanted), answer in zip(COMPLETED.items(), answers, strict=True):
        found = set(answer.split("\n")) - {""}
        if wanted is None:
            assert found <= {"-o default", "-o dirnames"}, line
        assert bool(found) == (wanted is None or bool(wanted)), line
        assert (wanted or set()) <= found, line


def completed(line, **variables):
    """Return the completions and the heavy modules that were imported."""
    code = f"import sys; from bgsub.cli import invoke; print(invoke([]), *sorted({HEAVY}), file=sys.stderr)"
    typed = {"_BGSUB_COMPLETE": "bash_complete", "COMP_WORDS": f"bgsub {line}", "COMP_CWORD": str(line.count(" ") + 1)}
    ended = run(sys.executable, "-c", code, **typed, **variables)
    return ended.stdout.split(), ended.stderr


@pytest.mark.parametrize("text", ["save = 'mask'", "= wrong", "unknown = 1"])
def test_completion_imports_nothing_heavy_and_ignores_settings(place, text):
    Path("bgsub.toml").write_text(text)
    Path("frames").mkdir()
    answer = completed("run frames --on-event true --roi 1,2 --shadows me", BGSUB_UNKNOWN="1")
    assert answer == (["plain,merged"], "0\n")


def test_every_command_is_completed(place):
    assert {word.removeprefix("plain,") for word in completed("")[0]} == set(program.commands)


COMMANDS = pytest.mark.parametrize("name", list(program.commands))
LONG = [name for name, command in program.commands.items() if command.common]
EXAMPLES = [example for command in program.commands.values() for example in command.examples]
# The others need a camera, a browser or other machines, or no files.
OTHERS = ("bgsub live", "bgsub regions", "echo", "bgsub warm-up")
ON_FILES = [line for line in EXAMPLES if not line.startswith(OTHERS) and "--scheduler" not in line]


@pytest.fixture
def shown(cli, monkeypatch):
    """A function that returns the help of a command in a terminal of a given width."""

    def show(name, flag="--help", width=80):
        monkeypatch.setenv("COLUMNS", str(width))
        return cli(*name.split(), flag).clean().out

    return show


def sections(text):
    """Return the lines below each heading."""
    found = {}
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            rows = found.setdefault(line[:-1], [])
        elif found and line:
            rows.append(line)
    return found


def flags(rows):
    return [row.split()[0].rstrip(",") for row in rows if row.startswith("  -")]


@COMMANDS
def test_help_fits_the_terminal(shown, name):
    for flag, width in (("--help", 80), ("--help-all", 80), ("--help-all", 100), ("--help-all", 200)):
        text = shown(name, flag, width)
        assert text.startswith(f"Usage: bgsub {name}")
        assert max(map(len, text.splitlines())) <= min(width, 100)
        assert not [line for line in text.splitlines() if line.endswith("-")]  # no option is broken in two


@COMMANDS
def test_help_all_shows_all_options_in_groups_and_names_no_others(shown, name):
    command = program.commands[name]
    text = shown(name, "--help-all")
    assert name in LONG or shown(name) == text
    found = sections(text)
    groups = [heading for heading in found if heading != "Examples"]
    assert groups == [group for group in GROUPS if group in groups]
    for group, options in by_group(command.params):
        assert [option.opts[0] for option in options] == [flag for flag in flags(found[group]) if flag != "-h"]
    assert "-h" in flags(found["Running"])
    assert text.endswith("In every command: --quiet, --verbose, --log, --progress; see bgsub --help\n")
    known = {flag for one in (program, command) for option in one.params for flag in option.opts}
    assert set(re.findall(r"--[a-z][a-z0-9-]*", text)) <= known | {"--help", "--help-all"}


@pytest.mark.parametrize("name", LONG)
def test_help_shows_the_common_options(shown, name):
    command, text = program.commands[name], shown(name)
    listed = {flag for rows in sections(text).values() for flag in flags(rows)}
    assert listed == {option.opts[0] for key, option in long_names(command).items() if key in command.common}
    number = sum(len(flags(rows)) for rows in sections(shown(name, "--help-all")).values())
    assert f"All {number} options: bgsub {name} --help-all\n" in text


@pytest.fixture
def inputs(here):
    """A folder with the input files of the examples, made of the bundled sample."""
    sample = ROOT / "datasets" / "sample"
    images = [cv2.imread(str(path)) for path in sorted((sample / "input").iterdir())[:60]]
    Path("frames").symlink_to(sample / "input")
    Path("highway").symlink_to(sample)
    Path("dataset/baseline").mkdir(parents=True)
    Path("dataset/baseline/lobby").symlink_to(sample)
    write_video(here / "video.avi", np.array(images), fps=25).rename("video.mp4")
    Path("recordings").mkdir()
    for name in ("cam-1.mp4", "cam-2.mp4", "recordings/a.mp4"):
        shutil.copy("video.mp4", name)
    np.save("matrix.npy", np.random.default_rng(0).normal(size=(30, 3)) @ np.ones((3, 40)))
    return here


@pytest.mark.slow
@pytest.mark.parametrize("line", ON_FILES)
def test_examples_run(cli, inputs, line, request):
    if "batch" in line:
        request.getfixturevalue("serial")
    words = shlex.split(line)
    if words[1] in ("overview", "search"):
        cli("run", "video.mp4", "-o", "out", "--save", "mask", "--event-formats", "jsonl", "--record", "clips").ok()
        for name in ("events", "results/video"):
            shutil.copytree("out", name)
    before = set(inputs.rglob("*"))
    answer = cli(*words[1:]).ok()
    assert answer.out.strip()
    made = set(inputs.rglob("*")) - before
    assert made or words[1] in ("config", "bench", "evaluate", "scan", "search")
    if "mask,panel" in line:
        assert len(read_video(inputs / "out" / "mask.mkv")) == len(read_video(inputs / "out" / "panel.mp4")) == 60
    if "--record" in line and "batch" not in line:
        assert (inputs / "clips" / "clips.csv").exists()
