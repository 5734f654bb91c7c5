"""Settings in files and variables: their order, wrong settings, and writing them."""

import json
import os
import sys
import tomllib
from pathlib import Path

import click
import pytest
from cli_inputs import make_scene, names
from video_fakes import write_images

import bgsub
from bgsub.cli import program
from bgsub.cli.config import store
from bgsub.cli.setting_sources import Setting, find_files, read_file, read_settings, user_file
from bgsub.cli.settings import Command
from bgsub.errors import ParameterError, SinkError, SourceError, did_you_mean, nearest

FOUND = "bgsub: settings from bgsub.toml in this folder: "
WITHOUT_SETTINGS = ["config", "completion"]


@pytest.fixture
def place(settings):
    write_images(settings / "frames", make_scene(12, empty=12))
    return settings


@pytest.fixture
def write(here):
    """A function that writes TOML into a file of the working folder."""

    def put(text: str, name: str = "bgsub.toml") -> Path:
        Path(name).write_text(text)
        return Path(name)

    return put


@pytest.fixture
def shown(cli, settings, write):
    """A function that writes bgsub.toml and returns value and source of a key in `bgsub config run --json`."""

    def show(text="", *before, key):
        write(text)
        found = json.loads(cli(*before, "config", "run", "--json").clean().out)["settings"]
        setting = found["run"].get(key) or found["method"][key]
        return setting["value"], setting["source"]

    return show


def model_parameters():
    return bgsub.BackgroundSubtractor.load("m.npz").get_params()


def test_which_commands_use_settings():
    assert all(isinstance(command, Command) for command in program.commands.values())
    assert [name for name, command in program.commands.items() if not command.takes_settings] == WITHOUT_SETTINGS


def test_run_with_settings_from_a_file(cli, place, write):
    write(
        "save = ['mask', 'background']\nquiet = true\n[run]\noutput = 'out'\nbackend = 'auto'\n"
        "[method]\nstart-frames = 5\nstabilise = false\n"
    )
    answer = cli("run", "frames", "--save-model", "m.npz").ok()
    message = f"{FOUND}backend, output, quiet, save, stabilise, start-frames\n"
    assert (answer.out, answer.err) == ("", message)
    assert names("out") == ["background", "mask"]
    assert (model_parameters()["start_frames"], model_parameters()["stabilise"]) == (5, False)


def test_only_a_file_of_the_folder_is_announced(cli, place, write):
    own = place / "config" / "bgsub" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("quiet = true\noverwrite = true")
    words = ["run", "frames", "-o", "out"]
    cli(*words).clean()
    write("[live]\nview = 'mask'")  # no setting of this command
    cli(*words).clean()
    write("quiet = true")
    assert cli(*words).ok().err == f"{FOUND}quiet\n"
    cli("--config", "bgsub.toml", *words).clean()


def test_precedence(cli, place, monkeypatch, shown, write):
    own = place / "config" / "bgsub" / "config.toml"
    assert shown(key="rank") == (3, "default")
    own.parent.mkdir(parents=True)
    own.write_text("rank = 4\nneighbours = 2")
    write("rank = 6", "named.toml")
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
        assert model_parameters()["rank"] == rank


def test_shadows_are_words_or_booleans(cli, place, write):
    write("shadows = false")
    words = ["run", "frames", "-o", "out", "--save-model", "m.npz", "--overwrite", "--quiet"]
    for typed, shadows in (([], "merged"), (["--shadows", "true"], "on"), (["--shadows", "off"], "off")):
        assert cli(*words, *typed).code == 0
        assert model_parameters()["shadows"] == shadows


def test_file_from_a_variable(cli, monkeypatch, shown, write):
    write("rank = 6", "named.toml")
    monkeypatch.setenv("BGSUB_CONFIG", "named.toml")
    assert shown(key="rank") == (6, "named.toml")
    assert shown("", "--no-config", key="rank") == (3, "default")
    cli("--config", "named.toml", "--no-config", "config").refused("--no-config and --config exclude each other")
    monkeypatch.setenv("BGSUB_CONFIG", "gone.toml")
    cli("run", "frames").refused("there is no settings file 'gone.toml'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nthreshhold = 1", "unknown key 'threshhold' in [run]; did you mean 'threshold'?"),
        ("rank = 'many'", "'rank' must be an integer >= 1, got 'many'"),
        ("rank = true", "'rank' must be an integer >= 1, got true"),
        ("[method]\nrank = [1]", "'rank' in [method] must be an integer >= 1, got [1]"),
        ("stabilise = 1", "'stabilise' must be true or false, got 1"),
        ("shadows = 1", "'shadows' must be one of on, off, merged, or true or false, got '1'"),
        ("quiet = 'yes'", "'quiet' must be true or false, got 'yes'"),
        ("fps = -1", "'fps': -1.0 is not in the range x>0"),
        ("fps = false", "'fps' must be a number, got false"),
        ("output = 1979-05-27", "'output' must be a text, got 1979-05-27"),
        ("output = ['a', 'b']", "'output' must be a text, got ['a', 'b']"),
        ("save = true", "'save' must be a text, a number or a list of them, got true"),
        ("[run]\nbackend = 'hardwere'", "'backend' in [run]: 'hardwere' is not one of 'auto', 'hardware'; did you"),
        ("[run]\nsave_model = 'gone/m'", "takes a file in a folder that exists, got 'gone/m'"),
        ("[method]\nmetric = 'cubic'", "'metric' in [method] must be one of scaled, canonical, got 'cubic'"),
        ("metric = 'scaled'", "unknown key 'metric'; it belongs to [method]"),
        ("[method]\nmu = 0", "'mu' in [method] must be a number in [1e-12, 1e+12], got 0.0"),
    ],
)
def test_wrong_values_in_a_file(cli, place, write, text, message):
    write(text)
    for words in (["run", "frames", *([] if "output" in text else ["-o", "out"])], ["config", "run"]):
        cli(*words).refused("bgsub.toml: ", message)
    assert cli("run", "--help").code == cli("--version").code == 0
    assert not Path("out").exists()


def test_log_names_the_sources_of_settings(cli, place, write, monkeypatch):
    write("rank = 2\nneighbours = 0\nseed = 1")
    monkeypatch.setenv("BGSUB_OUTPUT", "out")
    assert "bgsub: settings from BGSUB_OUTPUT, bgsub.toml\n" in cli("-v", "run", "frames").err
    assert "settings from" not in cli("-v", "run", "frames", "-o", "out2", "--rank", 1, "--neighbors", 1).err
    cli("run", "frames", "--rank", 0).refused("error: --rank must be an integer >= 1, got 0")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("BGSUB_RANK", "many", "BGSUB_RANK must be an integer >= 1, got 'many'"),
        ("BGSUB_RUN_FPS", "-1", "BGSUB_RUN_FPS: -1.0 is not in the range x>0"),
        ("BGSUB_QUIET", "maybe", "BGSUB_QUIET: 'maybe' is not a valid boolean"),
        ("BGSUB_SAVE", "panle", "BGSUB_SAVE: an output must be one of mask, "),
        ("BGSUB_START", "soon", "BGSUB_START must be a frame number"),
        ("BGSUB_RANC", "1", "unknown variable 'BGSUB_RANC'; did you mean 'BGSUB_RANK'?\n"),
        ("BGSUB_LIVE_VIEV", "1", "unknown variable 'BGSUB_LIVE_VIEV'; did you mean 'BGSUB_LIVE_VIEW'?\n"),
        ("BGSUB_1234567890123", "1", "unknown variable 'BGSUB_1234567890123'\n"),
    ],
)
def test_wrong_variables(cli, place, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    cli("run", "frames", "-o", "out").refused(message)


def test_lists_and_flags_in_variables(cli, place, monkeypatch):
    for name, value in (("SAVE", "mask, background"), ("QUIET", "true"), ("STABILISE", "false"), ("OUTPUT", "out")):
        monkeypatch.setenv(f"BGSUB_{name}", value)
    assert cli("run", "frames").clean().out == ""
    assert names("out") == ["background", "mask"]


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
def test_settings_of_any_kind_of_option(settings, write, monkeypatch, text, variable, value, taken):
    write(text)
    monkeypatch.setenv(variable or "BGSUB_ROI", value)
    roi = click.Option(["--roi"], multiple=True, metavar="X,Y,W,H")
    kinds, size = click.Option(["--kinds"], metavar="KIND,..."), click.Option(["--size"], nargs=2, type=int)
    context = Command("any", params=[roi, kinds, size]).make_context("any", [])
    assert {name: given for name, given in context.params.items() if given} == taken


def test_config_prints_equivalent_toml(cli, settings, write):
    write(
        "save = ['mask', 'panel']\nthreshold = 0.1\nabsorb_after = inf\n[run]\nrank = 5\noutput = 'a \"b\"'\n"
        "[method]\nmu = 0.5"
    )
    answer = cli("config").clean()
    lines = answer.out.splitlines()
    for line in (
        'save = ["mask", "panel"]  # bgsub.toml',
        "absorb-after = inf  # bgsub.toml",
        "rank = 5  # bgsub.toml",
        "rank = 3  # default",
        'output = "a \\"b\\""  # bgsub.toml',
        "quiet = false  # default",
        "# fps is not set",
    ):
        assert line in lines
    content = tomllib.loads(answer.out)
    assert set(content) == {*program.commands, "method"} - {*WITHOUT_SETTINGS}
    assert (content["run"]["rank"], content["method"]["rank"], content["method"]["mu"]) == (5, 3, 0.5)
    assert "rank" not in content["live"]
    write(answer.out, "again.toml")
    assert tomllib.loads(cli("--config", "again.toml", "config").out) == content
    assert set(tomllib.loads(cli("config", "demo").out)) == {"demo"}
    assert set(tomllib.loads(cli("config", "bench").out)) == {"bench", "method"}
    cli("config", "rum").refused("got 'rum'; did you mean 'run'?; see bgsub config --help")


def test_american_spelling_and_parameters_of_the_file_only(cli, place, write):
    write("neighbors = 2\n[method]\nstabilize = false\nmetric = 'canonical'")
    cli("run", "frames", "-o", "out", "--save-model", "m.npz", "--quiet").ok()
    expected = {"neighbours": 2, "stabilise": False, "metric": "canonical"}
    assert {name: model_parameters()[name] for name in expected} == expected
    cli("--no-config", "run", "frames", "--metric", "scaled").refused("No such option '--metric'; set it in [method]")


def test_template_is_written_once(cli, settings):
    assert cli("config", "--init").clean().out == "wrote bgsub.toml\n"
    text = Path("bgsub.toml").read_text()
    assert set(tomllib.loads(text)) == {*program.commands, "method"} - {*WITHOUT_SETTINGS}
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


def test_config_hides_the_token(cli, settings, monkeypatch):
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


def values(*files):
    resolved = read_settings(OPTIONS, ("run", "live"), files)
    return {command: {key: setting.value for key, setting in found.items()} for command, found in resolved.items()}


def test_keys_at_the_top_apply_to_all_commands_with_the_option(write):
    path = write("save = ['mask']\nframes = 3\nrank = 2")
    assert values(path) == {
        "method": {"rank": 2},
        "run": {"save": ["mask"], "frames": 3, "rank": 2},
        "live": {"save": ["mask"], "rank": 2},
        "demo": {"frames": 3},
        "decompose": {},
    }
    assert read_settings(OPTIONS, ("run",), [path])["run"]["rank"] == Setting(2, "bgsub.toml", "rank", "")


def test_precedence_of_tables_and_files(write):
    path = write("rank = 1\n[run]\nrank = 3\n[method]\nrank = 2\nstart_frames = 8\n")
    found = read_settings(OPTIONS, ("run", "live"), [path])
    assert values(path)["run"] == {"rank": 3, "start-frames": 8}
    assert values(path)["live"] == values(path)["method"] == {"rank": 2, "start-frames": 8}
    assert found["run"]["rank"].name == "bgsub.toml: 'rank' in [run]"
    assert found["live"]["start-frames"].name == "bgsub.toml: 'start_frames' in [method]"
    files = [write("[run]\nrank = 1\nframes = 1", "one.toml"), write("rank = 2", "two.toml")]
    assert values(*files)["run"] == {"rank": 2, "frames": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ranc = 1", "unknown key 'ranc'; did you mean 'rank'?"),
        ("start_frame = 1", "unknown key 'start_frame'; did you mean 'start_frames'?"),
        ("start-frame = 1", "unknown key 'start-frame'; did you mean 'start-frames'?"),
        ("[method]\nRank = 1", "unknown key 'Rank' in [method]; did you mean 'rank'?"),
        ("zzz = 1", "unknown key 'zzz'"),
        ("[demo]\nsave = 1", "unknown key 'save' in [demo]; it belongs to [run] or [live]"),
        ("[rum]\nrank = 1", "unknown table [rum]; did you mean 'run'?"),
        ("run = 1", "'run' must be a table, [run], got 1"),
        ("start-frames = 1\nstart_frames = 2", "'start-frames' and 'start_frames' are the same"),
        ("[run]\nrank = ", "this is no TOML: Invalid value (at the end of line 2)"),
        ("rank = = 1", "this is no TOML: Invalid value (at line 1, column 8)"),
        (f"rank = {'9' * 5000}", "this is no TOML: it has a number of thousands of digits"),
        (f"[run]\nrank = 0x{'f' * 5000}", "this is no TOML: it has a number of thousands of digits"),
    ],
)
def test_wrong_keys_and_syntax(write, text, message):
    with pytest.raises(ParameterError) as caught:
        values(write(text))
    assert str(caught.value) == f"bgsub.toml: {message}"


@pytest.mark.parametrize("text", ["[run]\non-event = 'rm x'", "on_event = ['rm x']"])
def test_programs_are_set_in_named_files_only(write, text):
    options = {"method": [], "run": ["on-event"]}
    path = write(text)
    with pytest.raises(ParameterError, match=r"bgsub.toml: 'on.event'.* runs programs: .* such as --config bgsub.toml"):
        read_settings(options, (), find_files())
    assert read_settings(options, (), find_files(path), path)["run"]["on-event"].value
    other = write(text, "mine.toml")
    with pytest.raises(ParameterError, match=r"bgsub.toml: .* runs programs"):
        read_settings(options, (), find_files(other), other)


def test_unreadable_files(here):
    Path("latin.toml").write_bytes("a = 'ü'".encode("latin-1"))
    for path, message in (("gone.toml", "no settings file"), (".", "Is a directory"), ("latin.toml", "not in UTF-8")):
        with pytest.raises((SourceError, ParameterError), match=message):
            read_file(Path(path))


def test_order_of_files(write, here, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "xdg"))
    assert find_files() == []
    own = here / "xdg" / "bgsub" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("rank = 1")
    write("rank = 2")
    assert find_files() == [own, Path("bgsub.toml")]
    assert find_files(Path("named.toml"))[-1] == Path("named.toml")

    def refuse(*_arguments, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", refuse)  # a home that cannot be entered
    assert find_files() == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_folder_of_the_users_file(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    for folder, expected in (("/etc/me", "/etc/me"), ("relative", "/home/me/.config"), ("", "/home/me/.config")):
        monkeypatch.setenv("XDG_CONFIG_HOME", folder)
        assert user_file() == Path(expected, "bgsub", "config.toml")


def test_nearest_name():
    assert nearest("Treshold", ["threshold", "rank"]) == "threshold"
    assert nearest("zzz", ["threshold", "rank"]) is None
    assert did_you_mean("ranks", ["rank"]) == "; did you mean 'rank'?"
    assert did_you_mean("zzz", ["rank"]) == ""


ROI = ["door=1%,2%;3%,4%;5%,6%"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# mine\n", {"roi": ROI}),
        ("rank = 3  # why\n\n[live]\nfast = true\n", {"rank": 3, "roi": ROI, "live": {"fast": True}}),
        ("'roi' = '''\na=0,0,1,1'''\nrank = 3", {"rank": 3, "roi": ROI}),
        ("roi = [  # all\n  'a=0,0,1,1',\n]\n# end\n", {"roi": ROI}),
        ("[run]\nroi = '0,0,1,1'\n", {"roi": ROI, "run": {"roi": "0,0,1,1"}}),
        ("roi = '0,0,1,1'\n[live]\nroi = '0,0,2,2'\n", {"roi": "0,0,1,1", "live": {"roi": ROI}}),
        ("text = '''\nroi = 5\n[live]\n'''\n", {"text": "roi = 5\n[live]\n", "roi": ROI}),
        ("a = 1\r\n[live]\r\n", {"a": 1, "roi": ROI, "live": {}}),
        ("live = {roi = '1,2,3,4'}\n", {"live": {"roi": ROI}}),
    ],
)
def test_stored_key_replaces_only_itself(tmp_path, before, after):
    path = tmp_path / "bgsub.toml"
    path.write_bytes(before.encode())
    for _ in range(2):
        store(path, "live", {"roi": ROI, "privacy": []})
        text = path.read_bytes().decode()
        assert tomllib.loads(text) == after
        assert all(comment in text for comment in ("# mine", "# why", "# end") if comment in before)


def test_regions_in_a_new_file(tmp_path):
    path = tmp_path / "bgsub.toml"
    both = {"roi": ['a "b"=0,0,1,1', "c\\d=0,0,1,1"], "privacy": ["0,0,5%,5%"]}
    store(path, "live", both)
    assert tomllib.loads(path.read_text()) == both
    store(path, "live", {"roi": [], "privacy": ["x=0,0,1,1"]})
    assert path.read_text() == 'roi = []\nprivacy = ["x=0,0,1,1"]\n'
    assert names(tmp_path) == ["bgsub.toml"]


def test_file_that_cannot_be_changed(tmp_path):
    path = tmp_path / "bgsub.toml"
    path.write_text("roi = [\n")
    for target, error in (
        (path, ParameterError),
        (tmp_path / "none" / "bgsub.toml", SinkError),
        (tmp_path, SourceError),
    ):
        with pytest.raises(error):
            store(target, "live", {"roi": ROI})
    assert path.read_text() == "roi = [\n"
