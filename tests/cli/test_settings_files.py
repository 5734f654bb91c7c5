"""Settings from files and variables: which one holds, and what is said of wrong ones."""

import os
import sys
from pathlib import Path

import pytest
from saying import says

from bgsub.cli.origins import Setting
from bgsub.cli.settings_files import find_files, read_file, read_settings, user_file
from bgsub.errors import ParameterError, SourceError, did_you_mean, nearest

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
    found = read_settings(OPTIONS, [write("save = ['mask']\nframes = 3\nrank = 2")])
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
    found = read_settings(OPTIONS, [path])
    assert values(found)["run"] == {"rank": 3, "start-frames": 8}
    assert values(found)["live"] == values(found)["method"] == {"rank": 2, "start-frames": 8}
    assert found["run"]["rank"].name == "bgsub.toml: 'rank' in [run]"
    assert found["live"]["start-frames"].name == "bgsub.toml: 'start_frames' in [method]"


def test_later_files_win(write):
    files = [write("[run]\nrank = 1\nframes = 1", "one.toml"), write("rank = 2", "two.toml")]
    assert values(read_settings(OPTIONS, files))["run"] == {"rank": 2, "frames": 1}


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
        read_settings(OPTIONS, [write(text)])


@pytest.mark.parametrize("text", ["[run]\non-event = 'rm x'", "on_event = ['rm x']"])
def test_a_file_that_merely_lies_here_runs_no_programs(write, text):
    options = {"method": [], "run": ["on-event"]}
    path = write(text)
    with pytest.raises(ParameterError, match=r"bgsub.toml: 'on.event'.* runs programs: .* as --config bgsub.toml does"):
        read_settings(options, find_files())
    assert values(read_settings(options, find_files(path), path))["run"]["on-event"]
    other = write(text, "mine.toml")
    with pytest.raises(ParameterError, match=r"bgsub.toml: .* runs programs"):
        read_settings(options, find_files(other), other)


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
