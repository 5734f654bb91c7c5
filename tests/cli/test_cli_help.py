"""The help of every command: options in groups, common ones first, and examples that work."""

import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import click
import cv2
import numpy as np
import pytest
from readme import ROOT
from video_fakes import read_video, write_video

from bgsub.cli import program
from bgsub.cli.help import GROUPS, REPORTING, Option, by_group
from bgsub.cli.settings import long_names

COMMANDS = pytest.mark.parametrize("name", list(program.commands))
LONG = [name for name, command in program.commands.items() if command.common]
EXAMPLES = [example.command for command in program.commands.values() for example in command.examples]
# These need a camera or other machines.
ELSEWHERE = [line for line in EXAMPLES if line.startswith(("bgsub live", "bgsub camera")) or "--scheduler" in line]
WITHOUT_FILES = [line for line in EXAMPLES if line.startswith(("echo", "bgsub warm-up"))]
ON_FILES = [line for line in EXAMPLES if line not in (*ELSEWHERE, *WITHOUT_FILES)]


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


def blocks(rows):
    """Return the text of each option by its first flag."""
    texts = [" ".join(block.split()) for block in "\n".join(["", *rows]).split("\n  -")[1:]]
    return {f"-{text}".partition(" ")[0].rstrip(","): text for text in texts}


def test_every_option_has_a_group_and_a_help_text():
    for command in program.commands.values():
        options = [option for option in command.params if isinstance(option, click.Option)]
        assert all(isinstance(option, Option) and option.group in (*GROUPS, REPORTING) for option in options)
        assert all(option.help or option.hidden for option in options)
        assert set(command.common) <= set(long_names(command))
        assert sum(option.common for option in options) == len(command.common or options)


def test_run_has_at_most_45_options(shown):
    listed = [flag for rows in sections(shown("run", "--help-all")).values() for flag in flags(rows)]
    assert len(listed) - listed.count("-h") <= 45
    assert not {"--metric", "--mu", "--subset", "--max-value"} & set(listed)


@COMMANDS
def test_help_fits_the_terminal(shown, name):
    for flag, width in (("--help", 80), ("--help-all", 100), ("--help-all", 200)):
        text = shown(name, flag, width)
        assert text.startswith(f"Usage: bgsub {name}")
        assert max(map(len, text.splitlines())) <= min(width, 100)
        assert text.isascii()
        assert not [line for line in text.splitlines() if line.endswith("-")]  # no option is broken in two
    examples = [example.command for example in program.commands[name].examples]
    assert 0 < max(map(len, examples)) <= 78


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
def test_help_shows_the_common_options_in_few_lines(shown, name):
    command, text = program.commands[name], shown(name)
    listed = [flag for rows in sections(text).values() for flag in flags(rows)]
    wanted = {option.opts[0] for key, option in long_names(command).items() if key in command.common}
    assert set(listed) == wanted
    assert len(wanted) <= 15
    everything = shown(name, "--help-all")
    number = sum(len(flags(rows)) for rows in sections(everything).values())
    assert f"All {number} options: bgsub {name} --help-all\n" in text
    rows = [row for rows in sections(text).values() for row in rows]
    starts = [number for number, row in enumerate(rows) if row.startswith("  -")]
    lengths = [end - start for start, end in pairwise(starts)]
    assert max(lengths, default=0) <= 6
    assert sorted(lengths)[len(lengths) // 2] <= 3


# Without these options there is no limit or no such output.
NO_DEFAULT = {
    *("--start", "--end", "--duration", "--raw", "--against", "--results", "--event-formats"),
    *("--output", "--record", "--snapshots", "--model", "--save-model", "--serve", "--scheduler", "--init"),
    *("--observed", "--observed-key", "--key", "--masks", "--csv", "--sheet"),
}
UNITS = (
    *("frame", "pixel", "share", "scale", "factor", "weight", "dimension", "attempts", "process", "threads", "seed"),
    *("steps", "full size", "seconds"),
)


@COMMANDS
def test_help_shows_defaults_choices_and_units(shown, name):
    found = sections(shown(name, "--help-all"))
    texts = blocks([row for heading, rows in found.items() for row in rows if heading != "Examples"])
    for option in program.commands[name].params:
        if not isinstance(option, Option) or option.hidden or option.group == REPORTING:
            continue
        text = texts[option.opts[0]]
        if not (option.is_flag or option.multiple or option.required or NO_DEFAULT & set(option.opts)):
            assert "default" in text, text
        if isinstance(option.type, click.Choice):
            assert all(word in text for word in option.type.choices), text
        if (option.metavar or "") in ("N", "X", "K", "SECONDS", "SHARE"):
            assert any(unit in text.lower() for unit in UNITS), text


def test_help_of_the_program(shown):
    text = shown("")
    assert max(map(len, text.splitlines())) <= 80
    found = sections(text)
    groups = ["Separate", "Watch", "Measure", "Set up"]
    assert list(found) == [*groups, REPORTING, "Options"]
    assert [row.split()[0] for group in groups for row in found[group] if row[2] != " "] == list(program.commands)
    for line in ("bgsub demo ", "bgsub run bgsub-demo/input.mp4 -o out ", "bgsub live "):
        assert f"\n    {line}" in text


@pytest.mark.slow
def test_first_commands_of_the_help_run(cli, here):
    lines = program.help.partition("Start with:")[2].strip().splitlines()
    demo, run, live = (shlex.split(line.strip().partition("   ")[0])[1:] for line in lines[:3])
    cli(*demo).ok()
    answer = cli(*run).ok()
    assert answer.out.startswith(f"video '{run[1]}': 300 frames of 320x240")
    assert len(read_video(here / "out" / "mask.mkv")) == 300
    assert live == ["live"]


@pytest.mark.parametrize("words", [["run", "--help-all", "--rank", "no"], ["--no-config", "demo", "--help-all"]])
def test_help_ignores_other_words(cli, words):
    assert cli(*words).clean().out.startswith("Usage: bgsub ")


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
        pytest.importorskip("distributed", reason="batch needs Dask")
        request.getfixturevalue("serial")
    words = shlex.split(line)
    before = set(place.rglob("*"))
    answer = cli(*words[1:]).ok()
    assert answer.out.strip()
    made = set(place.rglob("*")) - before
    assert made or words[1] in ("config", "bench", "evaluate")
    if "mask,panel" in line:
        assert len(read_video(place / "out" / "mask.mkv")) == len(read_video(place / "out" / "panel.mp4")) == 60
    if "--record" in line and "batch" not in line:
        assert (place / "clips" / "clips.csv").exists()


@pytest.mark.parametrize("line", ELSEWHERE)
def test_examples_of_cameras_and_clusters_are_parsed(place, line):
    _, name, *words = shlex.split(line)
    with program.commands[name].make_context(name, words) as context:
        given = {key: value for key, value in context.params.items() if value not in (None, False, (), [])}
    assert given
    assert not words or any(context.get_parameter_source(key).name == "COMMANDLINE" for key in context.params)
