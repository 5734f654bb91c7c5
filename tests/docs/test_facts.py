"""Facts on the pages that their code blocks do not cover, and recipes for notifications and security with stand-ins."""

import inspect
import json
import re
import shlex
from pathlib import Path

import click
import docs_tutorials as script
import pytest
from cli_inputs import make_scene
from pages import DOCS, ROOT
from receiver import receiving
from video_fakes import write_video

from bgsub import BackgroundSubtractor, RobustPCA, Separation
from bgsub._opencv import cv2
from bgsub.cli import invoke, program
from bgsub.events.notifications.notification import PLACEHOLDERS, Notification
from bgsub.parameters import SUBTRACTOR


def read(page):
    return (DOCS / page).read_text(encoding="utf-8")


SECTIONS = {part.partition("\n")[0].partition(":")[0]: part for part in read("from-other-tools.md").split("\n## ")[1:]}
OPTIONS = {
    name
    for command in ("run", "live")
    for option in program.commands[command].params
    if isinstance(option, click.Option)
    for name in option.opts
}


def rows(section):
    """Return the cells of the table rows of a section, without headers."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("| ")]
    return [cells for line in lines if (cells := line.strip("| ").split(" | "))[0] != section]


def is_known(section, name):
    if name.startswith("--"):
        return name in OPTIONS
    if name.startswith("bgsub "):
        return name.removeprefix("bgsub ") in program.commands
    if section in ("scikit-learn", "pyrpca"):
        parameters = inspect.signature(RobustPCA).parameters
        return name in parameters or hasattr(RobustPCA, name) or re.search(rf"\b{name}\b.* : ", RobustPCA.__doc__)
    return (
        name == "[method]"
        or name.replace("-", "_") in SUBTRACTOR
        or hasattr(BackgroundSubtractor, name)
        or name in Separation.__dataclass_fields__
    )


@pytest.mark.parametrize("section", SECTIONS)
def test_every_name_in_a_table_exists(section):
    column = 2 if section == "OpenCV" else 1
    cells = [row[min(column, len(row) - 2)] for row in rows(section)]
    assert len(cells) > 5
    for cell in cells:
        names = re.findall(r"`([^`]+)`", cell)
        assert names or cell == "none", cell
        assert all(is_known(section, name) for name in names), cell
    assert not is_known(section, "--motions")


def test_the_defaults_on_the_tuning_page_are_correct():
    for name in ("threshold", "noise_factor", "neighbours", "median", "min_area", "rank", "forgetting", "absorb_after",
                 "scale", "start_frames"):  # fmt: skip
        section = re.search(rf"^## {name}$(.*?)(?=^## )", read("tuning.md"), re.M | re.S)[1]
        default = SUBTRACTOR[name].default
        assert f"Default {default if isinstance(default, str) else format(default, 'g')}" in section, name


@pytest.mark.large
def test_pictures_of_a_tutorial_can_be_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    page = "tutorial-python"
    assert script.make(page, tmp_path, length="10s") == []
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in (DOCS / "pictures").glob(f"{page}-*")}
    monkeypatch.setattr(script, "WINDOW_TOOLS", ("no-such-tool",))
    with pytest.raises(script.CannotError, match="needs no-such-tool"):
        script.window()


PAGE, SECURITY = read("home-automation.md"), read("security.md")
WEBHOOK = "http://homeassistant.local:8123"
# Stand-in for a program: it records its arguments and standard input.
PROGRAM = """#!/bin/sh
{ printf '%s\\n' "$0" "$@"; cat; } > "$(mktemp "$NOTES/XXXXXX")"
"""


def blocks(language, page=PAGE):
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.fixture
def camera(here):
    """Return a video with motion that replaces the camera."""
    return str(write_video(here / "gate.avi", make_scene(80, empty=30)))


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Return a function that returns the arguments and the input of each recorded call."""
    programs, written = tmp_path / "programs", tmp_path / "notes"
    programs.mkdir()
    written.mkdir()
    for name in ("mosquitto_pub", "curl", "logger"):
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("NOTES", str(written))

    def read():
        notes = [path.read_text().splitlines() for path in written.iterdir()]
        return [([Path(lines[0]).name, *lines[1:-1]], json.loads(lines[-1])) for lines in notes]

    return read


def run(command, camera, address):
    """Run a command of the page with the test's camera and server."""
    words = shlex.split(command.replace("rtsp://camera/stream", camera).replace(WEBHOOK, address))
    assert words.pop(0) == "bgsub"
    assert invoke([*words, "--fast", "--start-frames", "8", "--rank", "2"]) == 0


def test_home_assistant_webhook(camera):
    (command,) = (line for line in blocks("sh") if "--webhook" in line)
    with receiving() as server:
        run(command, camera, server.address)
        requests = list(server.requests.queue)
    notifications = [json.loads(body) for _, _, body in requests]
    assert {path for path, _, _ in requests} == {f"/api/webhook/{re.search('webhook_id: (.*)', PAGE)[1]}"}
    assert [one["type"] for one in notifications if one["event"] == "motion"] == ["start", "end"]
    assert all(one["source"] for one in notifications)


def test_mqtt_and_the_phone_receive_notifications(camera, notes):
    (command,) = (line for line in blocks("sh") if "mosquitto_pub" in line)
    run(command, camera, "")
    got = [(words, one["type"]) for words, one in notes() if one["event"] == "motion"]
    topic = re.search("state_topic: (.*)", PAGE)[1]
    assert sorted(kind for _, kind in got) == ["end", "start"]
    assert all(words == ["mosquitto_pub", "-h", "broker", "-t", topic, "-s"] for words, _ in got)
    (command,) = (line for line in blocks("sh") if "curl" in line)
    run(command, camera, "")
    ((words, notification),) = (note for note in notes() if note[0][0] == "curl")
    assert words[1:] == ["-sfT", notification["snapshot"], "-H", "Title: gate", "https://ntfy.sh/gate-4f1c9b"]
    assert cv2.imread(notification["snapshot"]).shape == (32, 48, 3)


def test_the_json_has_the_fields_of_a_notification():
    (example,) = blocks("json")
    sent = json.loads(Notification("end", "motion", 3, "camera 0", None, None, 1, None).to_json())
    assert tuple(json.loads(example)) == tuple(sent) == ("version", *PLACEHOLDERS, "objects")


def test_commands_on_the_security_page(camera, monkeypatch, capsys):
    live, alone, kept, tried = blocks("sh", SECURITY)
    run(live.replace(":8765", ":0"), camera, "")
    assert "watch at http://127.0.0.1:" in capsys.readouterr().out
    Path("bgsub.toml").write_text("save = ['panel.mp4']\n")
    variable, _, command = alone.partition(" ")
    monkeypatch.setenv(*variable.split("="))
    assert invoke([*shlex.split(command)[1:], "--rank", "2"]) == 0
    assert [path.name for path in Path("results").iterdir() if path.suffix] == ["mask.mkv"]
    assert invoke([*shlex.split(kept)[1:], "--rank", "2"]) == 0
    assert Path("results", "mask").is_dir()
    assert (ROOT / tried.split()[1] / "conftest.py").is_file()
    for name in re.findall(r"`python (scripts/\S+)`|`(\.ci/\S+)`", SECURITY):
        assert (ROOT / "".join(name)).is_file()
