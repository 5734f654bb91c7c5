"""What every command says of itself: the options in groups, the common ones first, and examples that run."""

import json
import shlex
import shutil
from pathlib import Path

import click
import cv2
import numpy as np
import pytest
from readme import ROOT
from video_fakes import read_video, write_video

from bgsub.cli import program
from bgsub.cli.help import GROUPS, SUBSPACE, Option, by_group
from bgsub.cli.settings import long_names

COMMANDS = pytest.mark.parametrize("name", list(program.commands))
LONG = [name for name, command in program.commands.items() if command.common]
EXAMPLES = [example.command for command in program.commands.values() for example in command.examples]
# They wait for a camera, or ask other machines; the others need only files.
ELSEWHERE = [line for line in EXAMPLES if line.startswith(("bgsub live", "bgsub camera")) or "--scheduler" in line]
OF_ITSELF = [line for line in EXAMPLES if line.startswith(("echo", "bgsub warm-up"))]  # tests of their own
ON_FILES = [line for line in EXAMPLES if line not in (*ELSEWHERE, *OF_ITSELF)]


@pytest.fixture
def shown(cli, monkeypatch):
    """A function that returns the help of a command in a terminal of that width."""

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
def test_every_option_has_a_group_and_says_what_it_does(name):
    command = program.commands[name]
    for option in command.params:
        if isinstance(option, click.Option):
            assert isinstance(option, Option), option.name
            assert option.group in GROUPS
            assert option.help or option.hidden
    assert set(command.common) <= set(long_names(command))
    common = [option for option in command.params if isinstance(option, Option) and option.common]
    assert len(common) == len(command.common or long_names(command))


@COMMANDS
@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_help_fits_the_terminal(shown, name, width):
    for flag in ("--help", "--help-all"):
        text = shown(name, flag, width)
        assert text.startswith(f"Usage: bgsub {name}")
        assert max(map(len, text.splitlines())) <= min(width, 100)
        assert text.isascii()
        assert not [line for line in text.splitlines() if line.endswith("-")]  # no option is broken in two


@COMMANDS
def test_all_is_shown_in_groups_in_one_order(shown, name):
    command = program.commands[name]
    found = sections(shown(name, "--help-all"))
    groups = [heading for heading in found if heading != "Examples"]
    assert groups == [group for group in GROUPS if group in groups]
    for group, options in by_group(command.params):
        listed = flags(found[group])
        assert [option.opts[0] for option in options] == [flag for flag in listed if flag not in ("-h", "--help-all")]
    assert "-h" in flags(found["Running"])


@pytest.mark.parametrize("name", LONG)
def test_the_common_options_come_first_and_lead_to_the_others(shown, name):
    command, text = program.commands[name], shown(name)
    listed = [flag for rows in sections(text).values() for flag in flags(rows)]
    wanted = {option.opts[0] for key, option in long_names(command).items() if key in command.common}
    assert set(listed) == wanted
    assert len(wanted) <= 15
    assert text.endswith(f" options: bgsub {name} --help-all\n")
    everything = shown(name, "--help-all")
    number = sum(len(flags(rows)) for rows in sections(everything).values())
    assert text.splitlines()[-1].startswith(f"All {number} options")
    assert len(everything) > len(text)


@pytest.mark.parametrize("name", LONG)
def test_what_is_common_is_told_in_few_lines(shown, name):
    rows = [row for rows in sections(shown(name)).values() for row in rows]
    starts = [number for number, row in enumerate(rows) if row.startswith("  -")]
    lengths = [end - start for start, end in zip(starts, [*starts[1:], len(rows)], strict=True)]
    assert max(lengths) <= 5  # one for a long name, one for a list of words
    assert sorted(lengths)[len(lengths) // 2] <= 3


@COMMANDS
def test_a_command_with_few_options_shows_all_of_them(shown, name):
    if name not in LONG:
        assert shown(name) == shown(name, "--help-all")
        assert "--help-all" not in shown(name)


@COMMANDS
def test_defaults_and_choices_are_shown(shown, name):
    found = sections(shown(name, "--help-all"))
    rows = [row for heading, rows in found.items() for row in rows if heading != "Examples"]
    blocks = [" ".join(block.split()) for block in "\n".join(["", *rows]).split("\n  -")]
    for option in program.commands[name].params:
        if not isinstance(option, Option) or option.hidden:
            continue
        (block,) = (one for one in blocks if f"-{one}".partition(" ")[0].rstrip(",") == option.opts[0])
        if option.default not in (None, False, "", ()) and isinstance(option.default, (str, float, int, Path)):
            assert "[default: " in block, block
        if isinstance(option.type, click.Choice):
            assert all(word in block for word in option.type.choices), block


def test_help_of_the_program_leads(shown):
    text = shown("")
    assert max(map(len, text.splitlines())) <= 80
    found = sections(text)
    assert text.splitlines()[2].startswith("  Find what moves in front of a fixed camera")
    groups = ["Separate", "Watch", "Measure", "Set up"]
    assert list(found) == [*groups, "Options"]
    listed = [row.split()[0] for group in groups for row in found[group] if row[2] != " "]
    assert listed == list(program.commands)
    for line in ("bgsub demo ", "bgsub run bgsub-demo/input.mp4 -o out ", "bgsub live "):
        assert f"\n    {line}" in text


def test_the_commands_to_begin_with_lead_on(cli, tmp_path, monkeypatch):
    """The second takes what the first has made."""
    monkeypatch.chdir(tmp_path)
    lines = program.help.partition("Begin with:")[2].strip().splitlines()
    demo, run, live = (shlex.split(line.strip().partition("   ")[0])[1:] for line in lines[:3])
    cli(*demo).ok()
    answer = cli(*run).ok()
    assert answer.out.startswith(f"video '{run[1]}': 300 frames of 320x240")
    assert len(read_video(tmp_path / "out" / "mask.mkv")) == 300
    assert live == ["live"]


@pytest.mark.parametrize("words", [["run", "--help-all", "--rank", "no"], ["--no-config", "demo", "--help-all"]])
def test_help_is_shown_whatever_else_is_typed(cli, words):
    assert cli(*words).clean().out.startswith("Usage: bgsub ")


def test_every_command_has_examples_that_fit():
    assert all(command.examples for command in program.commands.values())
    assert [line for line in EXAMPLES if len(line) > 78] == []
    assert all(len(program.commands[name].examples) == 3 for name in ("run", "live"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder in which the examples find their files, made of the bundled sample."""
    monkeypatch.chdir(tmp_path)
    sample = ROOT / "datasets" / "sample"
    images = [cv2.imread(str(path)) for path in sorted((sample / "input").iterdir())[:60]]
    Path("frames").symlink_to(sample / "input")
    Path("highway").symlink_to(sample)
    (tmp_path / "dataset" / "baseline").mkdir(parents=True)
    Path("dataset/baseline/lobby").symlink_to(sample)
    write_video(tmp_path / "video.avi", np.array(images), fps=25).rename("video.mp4")
    Path("recordings").mkdir()
    for name in ("cam-1.mp4", "cam-2.mp4", "recordings/a.mp4"):
        shutil.copy("video.mp4", name)
    np.save("matrix.npy", np.random.default_rng(0).normal(size=(30, 3)) @ np.ones((3, 40)))
    return tmp_path


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
    if "--merge" not in line and "--record" in line and "batch" not in line:
        assert (place / "clips" / "clips.csv").exists()


@pytest.mark.parametrize("line", ELSEWHERE)
def test_examples_of_cameras_and_clusters_are_understood(place, line):
    _, name, *words = shlex.split(line)
    with program.commands[name].make_context(name, words) as context:
        given = {key: value for key, value in context.params.items() if value not in (None, False, (), [])}
    assert given
    assert not words or any(context.get_parameter_source(key).name == "COMMANDLINE" for key in context.params)


def test_the_groups_are_there_for_other_programs():
    options = {option.name: option for option in program.commands["run"].params if isinstance(option, Option)}
    assert (options["views"].group, options["views"].common) == ("Output", True)
    assert (options["surrogate"].group, options["surrogate"].common) == (
        SUBSPACE,
        False,
    )
    assert json.dumps({group: [one.opts for one in members] for group, members in by_group(options.values())})
    assert program.groups["Separate"][0] is program.commands["run"]
