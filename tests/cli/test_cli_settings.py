"""Settings in files and variables: their order, errors about wrong ones, and writing them."""

import json
import os
import sys
import tomllib
from pathlib import Path

import click
import pytest
from cli_inputs import make_scene
from saying import says
from video_fakes import write_images

import bgsub
from bgsub.cli import program
from bgsub.cli.config import store
from bgsub.cli.setting_sources import Setting, find_files, read_file, read_settings, user_file
from bgsub.cli.settings import Command
from bgsub.errors import ParameterError, SinkError, SourceError, did_you_mean, nearest


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with frames, where settings are read; the user's file is config/bgsub/config.toml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BGSUB_NO_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_images(tmp_path / "frames", make_scene(12, empty=12))
    return tmp_path


@pytest.fixture
def shown(cli, place):
    """A function that writes bgsub.toml and returns what `bgsub config run --json` shows, by key."""

    def show(text="", *before, key):
        Path("bgsub.toml").write_text(text)
        answer = cli(*before, "config", "run", "--json").clean()
        settings = json.loads(answer.out)["settings"]
        found = settings["run"].get(key) or settings["method"][key]
        return found["value"], found["source"]

    return show


TAKES_NONE = ["config", "completion"]


def test_every_command_takes_settings():
    assert all(isinstance(command, Command) for command in program.commands.values())
    assert [name for name, command in program.commands.items() if not command.takes_settings] == TAKES_NONE


def test_a_run_with_everything_from_a_file(cli, place):
    Path("bgsub.toml").write_text(
        "save = ['mask', 'background']\nquiet = true\n[run]\noutput = 'out'\nbackend = 'auto'\n"
        "[method]\nstart-frames = 5\nstabilise = false\n"
    )
    answer = cli("run", "frames", "--save-model", "m.npz")
    told = "bgsub: settings from bgsub.toml in this folder: backend, output, quiet, save, stabilise, start-frames\n"
    assert (answer.code, answer.out, answer.err) == (0, "", told)
    assert sorted(path.name for path in Path("out").iterdir()) == ["background", "mask"]
    parameters = bgsub.BackgroundSubtractor.load("m.npz").get_params()
    assert (parameters["start_frames"], parameters["stabilise"]) == (5, False)


def test_only_the_file_that_was_found_here_is_announced(cli, place):
    own = place / "config" / "bgsub" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("quiet = true\noverwrite = true")
    words = ["run", "frames", "-o", "out"]
    cli(*words).clean()
    Path("bgsub.toml").write_text("[live]\nview = 'mask'")  # nothing of this command
    cli(*words).clean()
    Path("bgsub.toml").write_text("quiet = true")
    assert cli(*words).ok().err == "bgsub: settings from bgsub.toml in this folder: quiet\n"
    cli("--config", "bgsub.toml", *words).clean()
    cli("--config", place / "bgsub.toml", *words).clean()


def test_the_order_of_precedence(cli, place, monkeypatch, shown):
    own = place / "config" / "bgsub" / "config.toml"
    assert shown(key="rank") == (3, "default")
    own.parent.mkdir(parents=True)
    own.write_text("rank = 4\nneighbours = 2")
    Path("named.toml").write_text("rank = 6")
    assert shown(key="rank") == (4, str(own))
    assert shown("rank = 5", key="rank") == (5, "bgsub.toml")
    assert shown("rank = 5", "--config", "named.toml", key="rank") == (6, "named.toml")
    assert shown("rank = 5", "--config", "named.toml", key="neighbours") == (2, str(own))
    monkeypatch.setenv("BGSUB_RANK", "7")
    monkeypatch.setenv("BGSUB_NEIGHBOURS", "")
    assert shown("rank = 5", "--config", "named.toml", key="rank") == (7, "BGSUB_RANK")
    assert shown("rank = 5", key="neighbours") == (2, str(own))
    monkeypatch.setenv("BGSUB_RUN_RANK", "8")
    assert shown("rank = 5", "--config", "named.toml", key="rank") == (8, "BGSUB_RUN_RANK")
    assert shown("rank = 5", "--no-config", key="neighbours") == (1, "default")
    words = ["run", "frames", "--save-model", "m.npz", "--overwrite", "--quiet", "--start-frames", 9]
    for given, rank in (([], 8), (["--rank", 2], 2)):
        assert cli(*words, "-o", f"out{rank}", *given).code == 0
        assert bgsub.BackgroundSubtractor.load("m.npz").get_params()["rank"] == rank


def test_shadows_are_words_or_true_and_false(cli, place):
    Path("bgsub.toml").write_text("shadows = false")
    words = ["run", "frames", "-o", "out", "--save-model", "m.npz", "--overwrite", "--quiet"]
    for typed, shadows in (([], "merged"), (["--shadows", "true"], "on"), (["--shadows", "off"], "off")):
        assert cli(*words, *typed).code == 0
        assert bgsub.BackgroundSubtractor.load("m.npz").get_params()["shadows"] == shadows


def test_the_file_of_a_variable(cli, place, monkeypatch, shown):
    Path("named.toml").write_text("rank = 6")
    monkeypatch.setenv("BGSUB_CONFIG", "named.toml")
    assert shown(key="rank") == (6, "named.toml")
    assert shown("", "--no-config", key="rank") == (3, "default")
    cli("--config", "named.toml", "--no-config", "config").refused(
        "--no-config and --config exclude each other; see bgsub --help"
    )
    monkeypatch.setenv("BGSUB_CONFIG", "gone.toml")
    cli("run", "frames").refused("there is no settings file 'gone.toml'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nthreshhold = 1", "bgsub.toml: unknown key 'threshhold' in [run]; did you mean 'threshold'?"),
        ("rank = 'many'", "bgsub.toml: 'rank' must be an integer >= 1, got 'many'"),
        ("[run]\nrank = 2.5", "bgsub.toml: 'rank' in [run] must be an integer >= 1, got '2.5'"),
        ("rank = true", "bgsub.toml: 'rank' must be an integer >= 1, got true"),
        ("[method]\nrank = [1]", "bgsub.toml: 'rank' in [method] must be an integer >= 1, got [1]"),
        ("stabilise = 1", "bgsub.toml: 'stabilise' must be true or false, got 1"),
        ("shadows = 1", "bgsub.toml: 'shadows' must be one of on, off, merged, or true or false, got '1'"),
        ("quiet = 'yes'", "bgsub.toml: 'quiet' must be true or false, got 'yes'"),
        ("fps = -1", "bgsub.toml: 'fps': -1.0 is not in the range x>0"),
        ("fps = false", "bgsub.toml: 'fps' must be a number, got false"),
        ("output = 1979-05-27", "bgsub.toml: 'output' must be a text, got 1979-05-27"),
        ("output = ['a', 'b']", "bgsub.toml: 'output' must be a text, got ['a', 'b']"),
        ("save = true", "bgsub.toml: 'save' must be a text, a number or a list of them, got true"),
        (
            "[run]\nbackend = 'hardwere'",
            "bgsub.toml: 'backend' in [run]: 'hardwere' is not one of 'auto', 'hardware'; did you mean 'hardware'?",
        ),
        ("[run]\nsave_model = 'gone/m'", "takes a file in a folder that exists, got 'gone/m'"),
        ("rank = = 2", "bgsub.toml: this is no TOML: Invalid value (at line 1, column 8)"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(cli, place, text, message):
    Path("bgsub.toml").write_text(text)
    for words in (["run", "frames", "-o", "out"] if "output" not in text else ["run", "frames"], ["config", "run"]):
        cli(*words).refused_with("bgsub.toml: ", f"{message}\n")
    assert not Path("out").exists()


def test_the_log_tells_where_settings_come_from(cli, place, monkeypatch):
    Path("bgsub.toml").write_text("rank = 2\nneighbours = 0\nseed = 1")
    monkeypatch.setenv("BGSUB_OUTPUT", "out")
    assert "bgsub: settings from BGSUB_OUTPUT, bgsub.toml\n" in cli("-v", "run", "frames").err
    assert "settings from" not in cli("-v", "run", "frames", "-o", "out2", "--rank", 1, "--neighbors", 1).err


def test_what_is_typed_is_blamed_on_nobody_else(cli, place):
    Path("bgsub.toml").write_text("rank = 2")
    cli("run", "frames", "-o", "out", "--rank", 0).refused("--rank must be an integer >= 1, got 0")


def test_a_wrong_file_keeps_nobody_from_the_help(cli, place):
    Path("bgsub.toml").write_text("= wrong")
    assert cli("run", "--help").code == 0
    assert cli("--version").code == 0


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("BGSUB_RANK", "many", "BGSUB_RANK must be an integer >= 1, got 'many'"),
        ("BGSUB_RUN_FPS", "-1", "BGSUB_RUN_FPS: -1.0 is not in the range x>0"),
        ("BGSUB_QUIET", "maybe", "BGSUB_QUIET: 'maybe' is not a valid boolean"),
        ("BGSUB_SAVE", "panle", "BGSUB_SAVE: an output must be one of mask, "),
        ("BGSUB_START", "soon", "BGSUB_START must be a frame number"),
        ("BGSUB_RANC", "1", "environment: unknown variable 'BGSUB_RANC'; did you mean 'BGSUB_RANK'?\n"),
        ("BGSUB_LIVE_VIEV", "1", "environment: unknown variable 'BGSUB_LIVE_VIEV'; did you mean 'BGSUB_LIVE_VIEW'?\n"),
        ("BGSUB_CONFG", "1", "environment: unknown variable 'BGSUB_CONFG'; did you mean 'BGSUB_CONFIG'?\n"),
        ("BGSUB_1234567890123", "1", "environment: unknown variable 'BGSUB_1234567890123'\n"),
    ],
)
def test_a_wrong_variable_is_refused(cli, place, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    cli("run", "frames", "-o", "out").refused_with(message)


def test_variables_hold_lists_and_flags(cli, place, monkeypatch):
    for name, value in (("SAVE", "mask, background"), ("QUIET", "true"), ("STABILISE", "false"), ("OUTPUT", "out")):
        monkeypatch.setenv(f"BGSUB_{name}", value)
    answer = cli("run", "frames")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert sorted(path.name for path in Path("out").iterdir()) == ["background", "mask"]


@pytest.mark.parametrize(
    ("text", "variable", "value", "taken"),
    [
        ("roi = ['1,2,3,4', '5,6,7,8']", "", "", {"roi": ("1,2,3,4", "5,6,7,8")}),
        ("roi = '1,2,3,4'", "", "", {"roi": ("1,2,3,4",)}),
        ("", "BGSUB_ROI", "1,2,3,4 5,6,7,8", {"roi": ("1,2,3,4", "5,6,7,8")}),
        ("kinds = ['a', 'b']", "", "", {"kinds": "a,b"}),
        ("size = [4, 3]", "", "", {"size": (4, 3)}),
        ("", "BGSUB_SIZE", "4 3", {"size": (4, 3)}),
    ],
)
def test_any_kind_of_option_is_found_by_itself(place, monkeypatch, text, variable, value, taken):
    Path("bgsub.toml").write_text(text)
    monkeypatch.setenv(variable or "BGSUB_ROI", value)
    roi = click.Option(["--roi"], multiple=True, metavar="X,Y,W,H")
    kinds, size = click.Option(["--kinds"], metavar="KIND,..."), click.Option(["--size"], nargs=2, type=int)
    context = Command("any", params=[roi, kinds, size]).make_context("any", [])
    assert {name: given for name, given in context.params.items() if given} == taken


def test_config_prints_toml_that_means_the_same(cli, place):
    Path("bgsub.toml").write_text(
        "save = ['mask', 'panel']\nthreshold = 0.1\nabsorb_after = inf\n[run]\nrank = 5\noutput = 'a \"b\"'"
    )
    answer = cli("config").clean()
    lines = answer.out.splitlines()
    for line in (
        'save = ["mask", "panel"]  # bgsub.toml',
        "threshold = 0.1  # bgsub.toml",
        "absorb-after = inf  # bgsub.toml",
        "rank = 5  # bgsub.toml",
        "rank = 3  # default",
        'output = "a \\"b\\""  # bgsub.toml',
        'backend = "auto"  # default',
        "quiet = false  # default",
        "# fps is not set",
        "stabilise = true  # default",
    ):
        assert line in lines
    content = tomllib.loads(answer.out)
    assert set(content) == {*program.commands, "method"} - {*TAKES_NONE}
    assert content["run"]["rank"] == 5
    assert content["method"]["rank"] == 3
    assert "rank" not in content["live"]
    Path("again.toml").write_text(answer.out)
    again = cli("--config", "again.toml", "config")
    assert tomllib.loads(again.out) == content
    assert "UNSET" not in answer.out


def test_config_of_one_command(cli, place):
    assert set(tomllib.loads(cli("config", "demo").out)) == {"demo"}
    assert set(tomllib.loads(cli("config", "bench").out)) == {"bench", "method"}
    names = ", ".join(name for name in program.commands if name not in TAKES_NONE)
    cli("config", "rum").refused(
        f"COMMAND must be one of {names}, got 'rum'; did you mean 'run'?; see bgsub config --help"
    )


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("[method]\nmetric = 'canonical'\nmu = 0.5\nsubset = 100", {"metric": "canonical", "mu": 0.5, "subset": 100}),
        ("neighbors = 2\n[method]\nstabilize = false", {"neighbours": 2, "stabilise": False}),
    ],
)
def test_parameters_without_an_option_and_american_spelling(cli, place, text, parameters):
    Path("bgsub.toml").write_text(text)
    cli("run", "frames", "-o", "out", "--save-model", "m.npz", "--quiet").ok()
    own = bgsub.BackgroundSubtractor.load("m.npz").get_params()
    assert {name: own[name] for name in parameters} == parameters
    shown = json.loads(cli("config", "run", "--json").out)["settings"]["method"]
    assert {name: shown[name]["value"] for name in parameters} == parameters


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[method]\nmetric = 'cubic'", "'metric' in [method] must be one of scaled, canonical, got 'cubic'"),
        ("metric = 'scaled'", "unknown key 'metric'; it belongs to [method]"),
        ("[run]\nmetric = 'scaled'", "unknown key 'metric' in [run]; it belongs to [method]"),
        ("[method]\nmu = 0", "'mu' in [method] must be a number in [1e-12, 1e+12], got 0.0"),
    ],
)
def test_wrong_parameters_without_an_option(cli, place, text, message):
    Path("bgsub.toml").write_text(text)
    cli("run", "frames", "-o", "out").refused(f"bgsub.toml: {message}")


def test_a_typed_parameter_without_an_option_is_refused_with_advice(cli, place):
    cli("run", "frames", "--metric", "scaled").refused_with("No such option '--metric'; set it in [method]")


def test_a_template_is_written_once(cli, place):
    answer = cli("config", "--init")
    assert (answer.code, answer.out) == (0, "wrote bgsub.toml\n")
    text = Path("bgsub.toml").read_text()
    assert set(tomllib.loads(text)) == {*program.commands, "method"} - {*TAKES_NONE}
    assert not any(tomllib.loads(text).values())
    assert "# Dimension of the background subspace. [k in the paper; an integer >= 1; default: 3]\n# rank = 3\n" in text
    cli("config", "--init").refused("'bgsub.toml' exists already and is not overwritten")
    cli("config", "--init", "gone/x.toml").refused("'gone/x.toml' cannot be written: No such file or directory")
    assert Path("bgsub.toml").read_text() == text
    assert cli("config", "--init", "x.toml", "run").out == "wrote x.toml\n"
    assert list(tomllib.loads(Path("x.toml").read_text())) == ["run", "method"]
    values = [line[2:] for line in text.splitlines() if " = " in line and not line.endswith("=")]
    assert len(values) > 60
    for line in values:
        tomllib.loads(line)


def test_a_token_is_not_shown(cli, place, monkeypatch):
    assert "# token is not set" in cli("config", "live").out
    monkeypatch.setenv("BGSUB_TOKEN", "correct-horse")
    answer = cli("config", "live")
    assert 'token = "***"  # BGSUB_TOKEN' in answer.out
    assert "correct-horse" not in answer.out + cli("config", "live", "--json").out


OPTIONS = {
    "method": ["rank", "start-frames"],
    "run": ["save", "start-frames", "rank", "frames"],
    "live": ["save", "start-frames", "rank", "view"],
    "demo": ["frames"],
    "decompose": ["plot"],
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A function that writes TOML into a file of the working folder."""
    monkeypatch.chdir(tmp_path)

    def put(text: str, name: str = "bgsub.toml") -> Path:
        Path(name).write_text(text)
        return Path(name)

    return put


def values(resolved):
    return {command: {key: setting.value for key, setting in found.items()} for command, found in resolved.items()}


def test_a_key_at_the_top_holds_wherever_there_is_the_option(write):
    found = read_settings(OPTIONS, ("run", "live"), [write("save = ['mask']\nframes = 3\nrank = 2")])
    assert values(found) == {
        "method": {"rank": 2},
        "run": {"save": ["mask"], "frames": 3, "rank": 2},
        "live": {"save": ["mask"], "rank": 2},
        "demo": {"frames": 3},
        "decompose": {},
    }
    assert found["run"]["rank"] == Setting(2, "bgsub.toml", "rank", "")


def test_the_table_of_a_command_wins_over_that_of_the_method_and_over_the_top(write):
    path = write("[run]\nrank = 3\n[method]\nrank = 2\nstart_frames = 8\n")
    path.write_text("rank = 1\n" + path.read_text())
    found = read_settings(OPTIONS, ("run", "live"), [path])
    assert values(found)["run"] == {"rank": 3, "start-frames": 8}
    assert values(found)["live"] == values(found)["method"] == {"rank": 2, "start-frames": 8}
    assert found["run"]["rank"].name == "bgsub.toml: 'rank' in [run]"
    assert found["live"]["start-frames"].name == "bgsub.toml: 'start_frames' in [method]"


def test_later_files_win(write):
    files = [write("[run]\nrank = 1\nframes = 1", "one.toml"), write("rank = 2", "two.toml")]
    assert values(read_settings(OPTIONS, ("run", "live"), files))["run"] == {"rank": 2, "frames": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ranc = 1", "bgsub.toml: unknown key 'ranc'; did you mean 'rank'?"),
        ("[run]\nranc = 1", "bgsub.toml: unknown key 'ranc' in [run]; did you mean 'rank'?"),
        ("start_frame = 1", "bgsub.toml: unknown key 'start_frame'; did you mean 'start_frames'?"),
        ("start-frame = 1", "bgsub.toml: unknown key 'start-frame'; did you mean 'start-frames'?"),
        ("[method]\nRank = 1", "bgsub.toml: unknown key 'Rank' in [method]; did you mean 'rank'?"),
        ("zzz = 1", "bgsub.toml: unknown key 'zzz'"),
        ("[demo]\nsave = 1", "bgsub.toml: unknown key 'save' in [demo]; it belongs to [run] or [live]"),
        ("[rum]\nrank = 1", "bgsub.toml: unknown table [rum]; did you mean 'run'?"),
        ("run = 1", "bgsub.toml: 'run' must be a table, [run], got 1"),
        ("start-frames = 1\nstart_frames = 2", "bgsub.toml: 'start-frames' and 'start_frames' are the same"),
        ("[run]\nrank = ", "bgsub.toml: this is no TOML: Invalid value (at the end of line 2)"),
        ("rank = = 1", "bgsub.toml: this is no TOML: Invalid value (at line 1, column 8)"),
        (f"rank = {'9' * 5000}", "bgsub.toml: this is no TOML: it has a number of thousands of digits"),
        (f"[run]\nrank = 0x{'f' * 5000}", "bgsub.toml: this is no TOML: it has a number of thousands of digits"),
    ],
)
def test_a_wrong_file_is_refused_in_a_line(write, text, message):
    with says(ParameterError, message):
        read_settings(OPTIONS, ("run", "live"), [write(text)])


@pytest.mark.parametrize("text", ["[run]\non-event = 'rm x'", "on_event = ['rm x']"])
def test_a_file_that_merely_lies_here_runs_no_programs(write, text):
    options = {"method": [], "run": ["on-event"]}
    path = write(text)
    with pytest.raises(ParameterError, match=r"bgsub.toml: 'on.event'.* runs programs: .* such as --config bgsub.toml"):
        read_settings(options, (), find_files())
    assert values(read_settings(options, (), find_files(path), path))["run"]["on-event"]
    other = write(text, "mine.toml")
    with pytest.raises(ParameterError, match=r"bgsub.toml: .* runs programs"):
        read_settings(options, (), find_files(other), other)


def test_a_file_that_cannot_be_read(write, tmp_path):
    with says(SourceError, "there is no settings file 'gone.toml'"):
        read_file(Path("gone.toml"))
    with says(SourceError, f"the settings file '{tmp_path}' cannot be read: Is a directory"):
        read_file(tmp_path)
    Path("latin.toml").write_bytes("a = 'ü'".encode("latin-1"))
    with says(ParameterError, "latin.toml: this is no TOML: the text is not in UTF-8"):
        read_file(Path("latin.toml"))


def test_the_files_in_their_order(write, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert find_files() == []
    own = tmp_path / "xdg" / "bgsub" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("rank = 1")
    write("rank = 2")
    assert find_files() == [own, Path("bgsub.toml")]
    assert find_files(Path("named.toml"))[-1] == Path("named.toml")


def test_a_home_that_may_not_be_entered_has_no_settings(monkeypatch):
    def refuse(*_arguments, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/other/.config")
    assert find_files() == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other places")
def test_the_place_of_the_users_file(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/me")
    assert user_file() == Path("/etc/me/bgsub/config.toml")
    for ignored in ("relative", ""):
        monkeypatch.setenv("XDG_CONFIG_HOME", ignored)
        assert user_file() == Path("/home/me/.config/bgsub/config.toml")


def test_the_nearest_name():
    assert nearest("Treshold", ["threshold", "rank"]) == "threshold"
    assert nearest("zzz", ["threshold", "rank"]) is None
    assert did_you_mean("ranks", ["rank"]) == "; did you mean 'rank'?"
    assert did_you_mean("zzz", ["rank"]) == ""


ROI = ["door=1%,2%;3%,4%;5%,6%"]
TABLE = "[live]\nfast = true\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", {"roi": ROI}),
        ("# mine\n", {"roi": ROI}),
        (f"rank = 3  # why\n\n{TABLE}", {"rank": 3, "roi": ROI, "live": {"fast": True}}),
        ("'roi' = '''\na=0,0,1,1'''\nrank = 3", {"rank": 3, "roi": ROI}),
        ("roi = [  # all\n  'a=0,0,1,1',\n]\n# end\n", {"roi": ROI}),
        ("[run]\nroi = '0,0,1,1'\n", {"roi": ROI, "run": {"roi": "0,0,1,1"}}),
        ("roi = '0,0,1,1'\n[live]\nroi = '0,0,2,2'\n", {"roi": "0,0,1,1", "live": {"roi": ROI}}),
        ("text = '''\nroi = 5\n[live]\n'''\n", {"text": "roi = 5\n[live]\n", "roi": ROI}),
        ("a = 1\r\n[live]\r\n", {"a": 1, "roi": ROI, "live": {}}),
        ("name = 'T\u00fcre'\n", {"name": "T\u00fcre", "roi": ROI}),
        ("live = {roi = '1,2,3,4'}\n", {"live": {"roi": ROI}}),
    ],
)
def test_one_key_is_replaced_and_the_rest_stays(tmp_path, before, after):
    path = tmp_path / "bgsub.toml"
    path.write_bytes(before.encode())
    for _ in range(2):
        store(path, "live", {"roi": ROI, "privacy": []})
        text = path.read_bytes().decode()
        assert tomllib.loads(text) == after
        assert all(comment in text for comment in ("# mine", "# why", "# end") if comment in before)


def test_a_new_file_with_several_regions_and_empty_again(tmp_path):
    path = tmp_path / "bgsub.toml"
    both = {"roi": ['a "b"=0,0,1,1', "c\\d=0,0,1,1"], "privacy": ["0,0,5%,5%"]}
    store(path, "live", both)
    assert tomllib.loads(path.read_text()) == both
    store(path, "live", {"roi": [], "privacy": ["x=0,0,1,1"]})
    assert path.read_text() == 'roi = []\nprivacy = ["x=0,0,1,1"]\n'
    assert [entry.name for entry in tmp_path.iterdir()] == ["bgsub.toml"]


def test_a_file_that_cannot_be_changed_stays_as_it_is(tmp_path):
    path = tmp_path / "bgsub.toml"
    path.write_text("roi = [\n")
    with pytest.raises(ParameterError, match="this is no TOML"):
        store(path, "live", {"roi": ROI})
    assert path.read_text() == "roi = [\n"
    with pytest.raises(SinkError):
        store(tmp_path / "none" / "bgsub.toml", "live", {"roi": ROI})
    with pytest.raises(SourceError, match="cannot be read: Is a directory"):
        store(tmp_path, "live", {"roi": ROI})
