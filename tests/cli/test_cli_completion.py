"""``bgsub completion``: the scripts in real shells, the completed words, and fast, silent answers."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bgsub.cli import completion, program

# A line and some of its completions; None where the shell completes file names.
COMPLETED = {
    "ba": {"batch"},
    "run --ov": {"--overwrite"},
    "run --he": {"--help", "--help-all"},
    "run --save ": {"mask", "panel", "background-image"},
    "run --save mask,pa": {"mask,panel"},
    "run --save mask,panel.mk": {"mask,panel.mkv"},
    "run --event-formats csv,": {"csv,html", "csv,jsonl"},
    "run --shadows m": {"merged"},
    "run --light ": {"true", "false"},
    "evaluate --against k": {"knn"},
    "config de": {"decompose", "demo"},
    "completion b": {"bash"},
    "live rt": {"rtsp://"},
    "--config ": None,
    "run fr": None,
    "run --log ": None,
    "run --record ": None,
    "run --threshold ": set(),
}


@pytest.fixture
def place(settings, monkeypatch):
    """A working folder that is the home as well, with bgsub among the programs."""
    programs = settings / "programs"
    programs.mkdir()
    (programs / "bgsub").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bgsub "$@"\n')
    (programs / "bgsub").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("HOME", str(settings))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings / ".config"))
    return settings


def shell(name, code):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    words = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}[name]
    ended = subprocess.run([name, *words, code], capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def in_bash(line):
    """Bash code that prints the completions of a line and the options for the shell."""
    words, last = line.rpartition(" ")[::2]
    typed = ["bgsub", *words.split(), last]
    return (
        f"COMP_WORDS=({shlex.join(typed)}); COMP_CWORD={len(typed) - 1}; COMPREPLY=(); _bgsub_completion bgsub; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )


@pytest.mark.slow
def test_bash_completes(place):
    code = 'eval "$(bgsub completion bash)"; compopt() { echo "$@"; }; '
    code += "; echo ---; ".join(map(in_bash, COMPLETED))
    answers = "\n".join(shell("bash", code)).split("\n---\n")
    for (line, wanted), answer in zip(COMPLETED.items(), answers, strict=True):
        found = set(answer.split("\n")) - {""}
        if wanted is None:
            assert found <= {"-o default", "-o dirnames"}, line
        assert bool(found) == (wanted is None or bool(wanted)), line
        assert (wanted or set()) <= found, line


@pytest.mark.slow
def test_fish_completes(place):
    lines = [line for line, wanted in COMPLETED.items() if wanted]
    asked = (f"complete -C {shlex.quote(f'bgsub {line}')}" for line in lines)
    answers = "\n".join(shell("fish", "bgsub completion fish | source; " + "; echo ---; ".join(asked))).split("---")
    for line, answer in zip(lines, answers, strict=True):
        assert COMPLETED[line] <= {row.split("\t")[0] for row in answer.strip().split("\n")}, line


@pytest.mark.slow
def test_zsh_accepts_the_script(place):
    code = 'autoload -U compinit; compinit -u; eval "$(bgsub completion zsh)"; echo $_comps[bgsub]'
    assert shell("zsh", code) == ["_bgsub_completion"]


@pytest.mark.slow
def test_examples_of_the_help_work(place):
    (place / ".config" / "fish").mkdir(parents=True)
    for example in completion.examples:
        name = example.text.partition(",")[0]
        subprocess.run(["sh", "-c", example.command], check=True, timeout=60)
        file = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/config.fish"}[name]
        assert f"bgsub completion {name}" in (place / file).read_text()
    assert shell("bash", f"source ~/.bashrc; {in_bash('run --save mas')}") == ["mask"]


def test_every_shell_gets_its_script(cli, settings):
    shells = ["zsh", "fish"] + ["bash"] * (shutil.which("bash") is not None)  # Click asks bash for its version
    scripts = {name: cli("completion", name).clean().out for name in shells}
    assert all("_BGSUB_COMPLETE" in script for script in scripts.values())
    Path("bgsub.toml").write_text("= wrong")
    assert cli("completion", "fish").clean().out == scripts["fish"]
    cli("completion", "tcsh").refused("'tcsh' is not one of 'bash', 'zsh', 'fish'")


def completed(line, **variables):
    """Return the completions and the heavy modules that were imported."""
    code = (
        "import sys; from bgsub.cli import invoke; code = invoke([]); "
        "print(code, *sorted({'numpy', 'cv2', 'numba', 'scipy', 'tqdm', 'av'} & set(sys.modules)), file=sys.stderr)"
    )
    typed = {"_BGSUB_COMPLETE": "bash_complete", "COMP_WORDS": f"bgsub {line}", "COMP_CWORD": str(line.count(" ") + 1)}
    environment = {**os.environ, **typed, **variables}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return ended.stdout.split(), ended.stderr


@pytest.mark.parametrize("text", ["save = 'mask'", "= wrong", "unknown = 1"])
def test_completion_imports_nothing_heavy_and_ignores_settings(place, text):
    Path("bgsub.toml").write_text(text)
    Path("frames").mkdir()
    answer = completed("run frames --on-event true --roi 1,2 --save mask,pan", BGSUB_UNKNOWN="1")
    assert answer == (["plain,mask,panel"], "0\n")


def test_every_command_is_completed(place):
    assert {word.removeprefix("plain,") for word in completed("")[0]} == set(program.commands)
