"""``bgsub completion``: the scripts in real shells, what is completed, and that it is quick and silent."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from video_fakes import write_images

from bgsub.cli import completion, program

SHELLS = ("bash", "zsh", "fish")
# What a shell asks, and some of what it must be answered; None where the names of files are its own business.
ASKED = {
    "ba": {"batch"},
    "run --ov": {"--overwrite"},
    "run --he": {"--help", "--help-all"},
    "run --save ": {"mask", "panel", "background-image"},
    "run --save mask,pa": {"mask,panel"},
    "run --save mask,panel.mk": {"mask,panel.mkv"},
    "run --event-formats csv,": {"csv,html", "csv,jsonl"},
    "run --shadows m": {"merged"},
    "run --light ": {"true", "false"},
    "run --backend h": {"hardware"},
    "evaluate --against k": {"knn"},
    "config de": {"decompose", "demo"},
    "completion b": {"bash"},
    "live rt": {"rtsp://"},
    "live --backdrop b": {"blur"},
    "--config ": None,
    "run fr": None,
    "run --log ": None,
    "evaluate ": None,
    "run --record ": None,
    "run --threshold ": set(),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what is completed there, a home, and bgsub among the programs."""
    programs, home = tmp_path / "programs", tmp_path / "home"
    for folder in (programs, home):
        folder.mkdir()
    (programs / "bgsub").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bgsub "$@"\n')
    (programs / "bgsub").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BGSUB_NO_CONFIG")
    return tmp_path


def shell(name, code):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    words = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}[name]
    ended = subprocess.run([name, *words, code], capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def in_bash(line):
    """Return what the script makes of a line: the words, and what it tells the shell to do on its own."""
    words, last = line.rpartition(" ")[::2]
    typed = ["bgsub", *words.split(), last]
    return (
        f"COMP_WORDS=({shlex.join(typed)}); COMP_CWORD={len(typed) - 1}; COMPREPLY=(); _bgsub_completion bgsub; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )


@pytest.mark.slow
def test_bash_completes(place):
    code = 'eval "$(bgsub completion bash)"; compopt() { echo "$@"; }; '
    code += "; echo ---; ".join(map(in_bash, ASKED))
    answers = "\n".join(shell("bash", code)).split("\n---\n")
    assert len(answers) == len(ASKED)
    for (line, wanted), answer in zip(ASKED.items(), answers, strict=True):
        found = set(answer.split("\n")) - {""}
        if wanted is None:
            assert found <= {"-o default", "-o dirnames"}, line
        assert bool(found) == (wanted is None or bool(wanted)), line
        assert (wanted or set()) <= found, line


@pytest.mark.slow
def test_fish_completes(place):
    lines = [line for line, wanted in ASKED.items() if wanted]
    code = "bgsub completion fish | source; " + "; echo ---; ".join(
        f"complete -C {shlex.quote(f'bgsub {line}')}" for line in lines
    )
    answers = "\n".join(shell("fish", code)).split("---")
    for line, answer in zip(lines, answers, strict=True):
        assert ASKED[line] <= {row.split("\t")[0] for row in answer.strip().split("\n")}, line


@pytest.mark.slow
def test_zsh_takes_the_script(place):
    code = 'autoload -U compinit; compinit -u; eval "$(bgsub completion zsh)"; echo $_comps[bgsub]'
    assert shell("zsh", code) == ["_bgsub_completion"]


@pytest.mark.parametrize("name", SHELLS)
def test_every_shell_gets_its_script(cli, name):
    if name == "bash" and shutil.which("bash") is None:
        pytest.skip("Click asks bash for its version")
    assert "_BGSUB_COMPLETE" in cli("completion", name).clean().out


@pytest.mark.slow
def test_the_examples_of_the_help_work(place):
    for example in completion.examples:
        name = example.text.partition(",")[0]
        (place / "home" / ".config" / "fish").mkdir(parents=True, exist_ok=True)
        subprocess.run(["sh", "-c", example.command], check=True, timeout=60)
        file = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/config.fish"}[name]
        (line,) = (place / "home" / file).read_text().splitlines()
        if name == "bash":
            code = f"source ~/.bashrc; {in_bash('run --save mas')}"
            assert shell("bash", code) == ["mask"]
        assert f"bgsub completion {name}" in line


def test_another_shell_is_refused(cli):
    answer = cli("completion", "tcsh")
    answer.refused_with("Invalid value for '{bash|zsh|fish}': 'tcsh' is not one of 'bash', 'zsh', 'fish'")


def completed(line, **variables):
    """Return what is answered, and by what modules."""
    code = (
        "import sys; from bgsub.cli import invoke; code = invoke([]); "
        "print(code, *sorted({'numpy', 'cv2', 'numba', 'scipy', 'tqdm', 'av'} & set(sys.modules)), file=sys.stderr)"
    )
    asked = {"_BGSUB_COMPLETE": "bash_complete", "COMP_WORDS": f"bgsub {line}", "COMP_CWORD": str(line.count(" ") + 1)}
    words = [sys.executable, "-c", code]
    environment = {**os.environ, **asked, **variables}
    ended = subprocess.run(words, capture_output=True, text=True, env=environment, check=True, timeout=60)
    return ended.stdout.split(), ended.stderr


@pytest.mark.parametrize("text", ["save = 'mask'", "= wrong", "unknown = 1"])
def test_nothing_heavy_is_imported_and_nothing_else_is_said(place, text):
    Path("bgsub.toml").write_text(text)
    write_images(place / "frames", [])
    answer = completed("run frames --on-event true --roi 1,2 --save mask,pan", BGSUB_UNKNOWN="1")
    assert answer == (["plain,mask,panel"], "0\n")


def test_settings_do_not_change_the_script(cli, place):
    plain = cli("completion", "fish").clean().out
    Path("bgsub.toml").write_text("= wrong")
    assert cli("completion", "fish").clean().out == plain


def test_every_command_is_completed(place):
    assert {word.removeprefix("plain,") for word in completed("")[0]} == set(program.commands)
