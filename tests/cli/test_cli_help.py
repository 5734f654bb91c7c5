"""The help of every command: options in groups, common ones first, and examples that work."""

import re
import shlex
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from readme import ROOT
from video_fakes import read_video, write_video

from bgsub.cli import program
from bgsub.cli.help import GROUPS, by_group
from bgsub.cli.settings import long_names

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
def test_help_all_shows_all_options_in_groups(shown, name):
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


@pytest.mark.parametrize("name", LONG)
def test_help_shows_the_common_options(shown, name):
    command, text = program.commands[name], shown(name)
    listed = {flag for rows in sections(text).values() for flag in flags(rows)}
    assert listed == {option.opts[0] for key, option in long_names(command).items() if key in command.common}
    number = sum(len(flags(rows)) for rows in sections(shown(name, "--help-all")).values())
    assert f"All {number} options: bgsub {name} --help-all\n" in text


@COMMANDS
def test_help_names_options_of_the_command_only(shown, name):
    known = {flag for command in (program, program.commands[name]) for one in command.params for flag in one.opts}
    assert set(re.findall(r"--[a-z][a-z0-9-]*", shown(name, "--help-all"))) <= known | {"--help", "--help-all"}


@pytest.fixture
def place(here):
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
def test_examples_run(cli, place, line, request):
    if "batch" in line:
        request.getfixturevalue("serial")
    words = shlex.split(line)
    if words[1] in ("overview", "search"):
        cli("run", "video.mp4", "-o", "out", "--save", "mask", "--event-formats", "jsonl", "--record", "clips").ok()
        for name in ("events", "results/video"):
            shutil.copytree("out", name)
    before = set(place.rglob("*"))
    answer = cli(*words[1:]).ok()
    assert answer.out.strip()
    made = set(place.rglob("*")) - before
    assert made or words[1] in ("config", "bench", "evaluate", "scan", "search")
    if "mask,panel" in line:
        assert len(read_video(place / "out" / "mask.mkv")) == len(read_video(place / "out" / "panel.mp4")) == 60
    if "--record" in line and "batch" not in line:
        assert (place / "clips" / "clips.csv").exists()
