"""Settings in files and variables: their order, wrong settings, and showing them."""

import tomllib
from pathlib import Path

import pytest
from cli_inputs import make_scene, names
from video_fakes import write_images

import bgsub
from bgsub.cli import program
from bgsub.cli.settings import Command


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
    """A function that writes bgsub.toml and returns value and source of a key in `bgsub config run`."""

    def show(text="", *before, key):
        write(text)
        lines = cli(*before, "config", "run").clean().out.splitlines()
        line = next((line for line in lines if line.startswith(f"{key} = ")), f"{key} = 'default'  #")
        return tomllib.loads(line)[key], line.partition("#")[2].strip()

    return show


def test_which_commands_use_settings():
    assert all(isinstance(command, Command) for command in program.commands.values())
    assert [name for name, command in program.commands.items() if not command.takes_settings] == ["config"]


def test_only_a_file_of_the_folder_is_announced(cli, place, write):
    own = place / "config" / "bgsub" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("quiet = true\noverwrite = true")
    words = ["run", "frames", "-o", "out"]
    cli(*words).clean()
    write("[live]\nview = 'mask'")  # no setting of this command
    cli(*words).clean()
    write("quiet = true")
    assert cli(*words).ok().err == "bgsub: settings from bgsub.toml in this folder: quiet\n"
    cli("--config", "bgsub.toml", *words).clean()


def test_precedence(cli, place, monkeypatch, shown, write):
    own = place / "config" / "bgsub" / "config.toml"
    assert shown(key="rank") == ("default", "")
    own.parent.mkdir(parents=True)
    own.write_text("rank = 4\nneighbours = 2")
    write("rank = 6", "named.toml")
    assert shown(key="rank") == (4, str(own))
    assert shown("rank = 5", key="rank") == (5, "bgsub.toml")
    assert shown("rank = 5", "--config", "named.toml", key="rank") == (6, "named.toml")
    assert shown("rank = 5", "--config", "named.toml", key="neighbours") == (2, str(own))
    monkeypatch.setenv("BGSUB_RANK", "7")
    monkeypatch.setenv("BGSUB_NEIGHBOURS", "")
    assert shown("rank = 5", "--config", "named.toml", key="rank") == ("7", "BGSUB_RANK")
    assert shown("rank = 5", key="neighbours") == (2, str(own))
    monkeypatch.setenv("BGSUB_RUN_RANK", "8")
    assert shown("rank = 5", "--config", "named.toml", key="rank") == ("8", "BGSUB_RUN_RANK")
    assert shown("rank = 5", "--no-config", key="neighbours") == ("default", "")
    words = ["run", "frames", "--save-model", "m.npz", "--overwrite", "--quiet", "--start-frames", 9]
    for given, rank in (([], 8), (["--rank", 2], 2)):
        assert cli(*words, "-o", f"out{rank}", *given).code == 0
        assert bgsub.BackgroundSubtractor.load("m.npz").get_params()["rank"] == rank


def test_file_from_a_variable(cli, monkeypatch, shown, write):
    write("rank = 6", "named.toml")
    monkeypatch.setenv("BGSUB_CONFIG", "named.toml")
    assert shown(key="rank") == (6, "named.toml")
    assert shown("", "--no-config", key="rank") == ("default", "")
    cli("--config", "named.toml", "--no-config", "config").refused("--no-config and --config exclude each other")
    monkeypatch.setenv("BGSUB_CONFIG", "gone.toml")
    cli("run", "frames").refused("there is no settings file 'gone.toml'")
    Path("latin.toml").write_bytes("a = 'ü'".encode("latin-1"))
    for name, message in ((".", "Is a directory"), ("latin.toml", "no TOML: 'utf-8' codec")):
        cli("--config", name, "config").refused(message)


LARGE = "this is no TOML: Exceeds the limit (4300 digits) for integer string conversion"
WRONG = {
    "[run]\nthreshhold = 1": "unknown key 'threshhold' in [run]; did you mean 'threshold'?",
    "rank = 'many'": "'rank' must be an integer >= 1, got 'many'",
    "stabilise = 1": "'stabilise' must be true or false, got '1'",
    "shadows = 1": "'shadows' must be one of on, off, merged, or true or false, got '1'",
    "fps = -1": "'fps': -1.0 is not in the range 1e-06<=x<1000",
    "output = 1979-05-27": "'output' must be a text or a number, got 1979-05-27",
    "save = true": "'save' must be a text or a number, or a list of them, got true",
    "fps = true": "'fps' must be a text or a number, got true",
    "[run]\non_error = 'stopp'": "'on_error' in [run]: 'stopp' is not one of 'stop', 'skip'",
    "[run]\nsave_model = 'gone/m'": "'save_model' in [run] takes a file in a folder that exists, got 'gone/m'",
    "[method]\nmetric = 'cubic'": "'metric' in [method] must be one of scaled, canonical, got 'cubic'",
    "[method]\nmu = 0": "'mu' in [method] must be a number in [1e-12, 1e+12], got 0.0",
    "start_frame = 1": "unknown key 'start_frame'; did you mean 'start-frames'?",
    "[method]\nRank = 1": "unknown key 'Rank' in [method]; did you mean 'rank'?",
    "zzz = 1": "unknown key 'zzz'",
    "[demo]\nsave = 1": "unknown key 'save' in [demo]; it belongs to [run] or [batch] or [live]",
    "[rum]\nrank = 1": "unknown table [rum]; did you mean 'run'?",
    "[method]\nsave = 1": "unknown key 'save' in [method]; it belongs to [run] or [batch] or [live]",
    "run = 1": "'run' must be a table, [run], got 1",
    "rank = = 1": "this is no TOML: Invalid value (at line 1, column 8)",
    "a = " + "[" * 100_000: "this is no TOML: ",
    "rank = " + "9" * 5000: LARGE,
    "[run]\nrank = 0x" + "f" * 5000: LARGE,
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:40])
def test_wrong_files(cli, place, write, text):
    write(text)
    for words in (["run", "frames", *([] if "output" in text else ["-o", "out"])], ["config", "run"]):
        cli(*words).refused(f"bgsub.toml: {WRONG[text]}")
    assert cli("run", "--help").code == cli("--version").code == 0
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("BGSUB_RANK", "many", "BGSUB_RANK must be an integer >= 1, got 'many'"),
        ("BGSUB_QUIET", "maybe", "BGSUB_QUIET: 'maybe' is not a valid boolean"),
        ("BGSUB_SAVE", "panle", "BGSUB_SAVE: an output must be one of mask, "),
        ("BGSUB_RANC", "1", "unknown variable 'BGSUB_RANC'; did you mean 'BGSUB_RANK'?\n"),
    ],
)
def test_wrong_variables(cli, place, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    cli("run", "frames", "-o", "out").refused(message)


def test_config_prints_equivalent_toml(cli, settings, write):
    assert cli("config").clean().out.startswith("# no settings")
    top = "save = ['mask', 'panel']\nthreshold = 0.1\nabsorb_after = inf\n"
    write(f"{top}[run]\nrank = 5\noutput = 'a \"b\"'\n[method]\nmu = 0.5\nrank = 4")
    answer = cli("config").clean()
    lines = ('save = ["mask", "panel"]', "absorb-after = inf", "rank = 5", 'output = "a \\"b\\""')
    assert {f"{line}  # bgsub.toml" for line in lines} <= set(answer.out.splitlines())
    content = tomllib.loads(answer.out)
    assert set(content) == {"run", "track", "scan", "batch", "live", "evaluate", "bench"}
    ranks, mus = ([content[command][key] for command in ("run", "live")] for key in ("rank", "mu"))
    assert (ranks, mus) == ([5, 4], [0.5, 0.5])
    write(answer.out, "again.toml")
    assert tomllib.loads(cli("--config", "again.toml", "config").out) == content
    assert set(tomllib.loads(cli("config", "bench").out)) == {"bench"}
    cli("config", "rum").refused("got 'rum'; did you mean 'run'?; see bgsub config --help")


def test_american_spelling_and_hidden_options(cli, place, write):
    top = "save = ['mask', 'background']\nquiet = true\nneighbors = 2\n"
    write(f"{top}[run]\noutput = 'out'\n[method]\nstabilize = false\nmetric = 'canonical'")
    assert cli("run", "frames", "--save-model", "m.npz").ok().out == ""
    assert names("out") == ["background", "mask"]
    parameters = bgsub.BackgroundSubtractor.load("m.npz").get_params()
    assert parameters.items() >= {"neighbours": 2, "stabilise": False, "metric": "canonical"}.items()
    text = cli("run", "--help-all").clean().out
    assert "--metric" not in text
    assert "Not listed: rare parameters of bgsub.BackgroundSubtractor, such as --max-value\n" in text
    cli("run", "frames", "-o", "out2", "--save-model", "m2.npz", "--quiet", "--metric", "scaled").ok()
    assert bgsub.BackgroundSubtractor.load("m2.npz").get_params()["metric"] == "scaled"


def test_config_hides_the_token(cli, settings, monkeypatch):
    monkeypatch.setenv("BGSUB_TOKEN", "correct-horse")
    answer = cli("config", "live")
    assert 'token = "***"  # BGSUB_TOKEN' in answer.out
    assert "correct-horse" not in answer.out


def test_drawn_regions_win_over_bgsub_toml(cli, shown, write):
    write('roi = ["door=1%,2%,3%,4%"]\nprivacy = []\n', "bgsub-regions.toml")
    expected = (["door=1%,2%,3%,4%"], "bgsub-regions.toml")
    assert shown("[run]\nroi = ['5,5,9,9']\nprivacy = ['0,0,1,1']", key="roi") == expected
    assert shown(key="privacy") == ([], "bgsub-regions.toml")
    write("roi = ['1,1,2,2']", "named.toml")
    assert shown("", "--config", "named.toml", key="roi") == (["1,1,2,2"], "named.toml")
    write("webhook = 'http://127.0.0.1:9/'", "bgsub-regions.toml")
    cli("config", "run").refused("bgsub-regions.toml: 'webhook' sends events to an address")
    write("insecure = true", "bgsub-regions.toml")
    cli("config", "run").refused("bgsub-regions.toml: 'insecure' skips the verification of cameras")
