"""The recipes on the home automation and security pages, run with stand-ins for brokers and phones."""

import json
import re
import shlex
from pathlib import Path

import pytest
from cli_inputs import make_scene
from pages import DOCS, ROOT
from receiver import receiving
from video_fakes import write_video

from bgsub._opencv import cv2
from bgsub.cli import invoke
from bgsub.events.notifications.notification import PLACEHOLDERS, Notification

PAGE, SECURITY = ((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("home-automation", "security"))
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
    for script in re.findall(r"`python (scripts/\S+)`|`(\.ci/\S+)`", SECURITY):
        assert (ROOT / "".join(script)).is_file()
