"""Commands and web addresses that are notified of motion, from the command line."""

from __future__ import annotations

import itertools
import json
import shlex
import sys
import threading
import time

import pytest
from cli_inputs import make_scene, names, served
from receiver import HANG, receiving, unused_address

from bgsub._opencv import cv2
from bgsub.jobs.job import Statistics

QUICK = ("--start-frames", 8, "--rank", 2)  # the few frames of a test have motion


class Visit:
    """Camera images: empty until `begun` is set, then a moving square, until `ended` is set."""

    def __init__(self):
        jpegs = [cv2.imencode(".jpg", frame)[1].tobytes() for frame in make_scene(200, empty=40)]
        self.empty, self.moving = itertools.cycle(jpegs[:40]), itertools.cycle(jpegs[40:])
        self.begun, self.ended = threading.Event(), threading.Event()

    def __iter__(self):
        while not self.ended.wait(0.005):
            yield next(self.moving if self.begun.is_set() else self.empty)


@pytest.fixture
def short_end(monkeypatch):
    """Let the end of a run wait 0.2 s for deliveries."""
    monkeypatch.setattr("bgsub.events.notifications.sink.finish_all.__defaults__", (0.2,))


@pytest.fixture
def visited(monkeypatch):
    """The address of a camera that shows motion after thirty frames of the run."""
    images, plain = Visit(), Statistics.__call__

    def count(self, frame, separation):
        plain(self, frame, separation)
        if self.frames == 30:
            images.begun.set()

    monkeypatch.setattr(Statistics, "__call__", count)
    with served(images) as server:
        yield server.address
        images.ended.set()


def appending(path):
    """A command that appends its words to a file."""
    code = f"import sys; open({str(path)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))"
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def test_run_notifies_commands_and_addresses(cli, video, tmp_path):
    got, pictures = tmp_path / "got", tmp_path / "pictures"
    with receiving([500]) as server:
        answer = cli(
            "run", video, "-o", tmp_path / "out", *QUICK, "--json",
            "--snapshots", pictures, "--webhook", f"{server.address}/x",
            "--on-event", f"{appending(got)} {{type}} {{event}} {{source}}",
            "--on-event", f"snapshot: {appending(got)} {{snapshot}}",
        ).ok()  # fmt: skip
        notifications = server.notifications()
    assert json.loads(answer.out)["notifications"] == {"delivered": 7, "lost": 0, "retried": 1}
    picture = pictures / "video-snapshot-0001.jpg"
    assert [(one["type"], one["snapshot"]) for one in notifications] == [
        ("start", None), ("start", None), ("snapshot", str(picture)), ("end", str(picture)),
    ]  # fmt: skip
    lines = [*(f"{kind} motion video" for kind in ("start", "snapshot", "end")), str(picture)]
    assert sorted(got.read_text().splitlines()) == sorted(lines)
    assert picture.read_bytes()[:2] == b"\xff\xd8"
    failed, works = answer.err.splitlines()
    assert failed.startswith(f"bgsub: webhook {server.address}: answers 500 Internal Server Error; ")
    assert works == f"bgsub: webhook {server.address} works again; notifications lost meanwhile: 0"


def test_track_notifies(cli, video, tmp_path):
    with receiving() as server:
        words = ("-o", tmp_path / "out", *QUICK, "--event-formats", "csv", "--webhook", server.address)
        answer = cli("track", video, *words).clean()
        assert [one["type"] for one in server.notifications()] == ["start", "end"]
    assert "; 2 notifications delivered; wrote " in answer.out


@pytest.mark.slow
def test_live_notifies_without_any_other_output(cli, visited, here):
    with receiving() as server:
        cli("live", visited, *QUICK, "--no-window", "--duration", 200, "--webhook", server.address).ok()
        notifications = [one for one in server.notifications() if one["event"] == "motion"]
    assert [one["type"] for one in notifications] == ["start", "end"]
    assert {one["source"] for one in notifications} == {visited.removeprefix("http://")}
    assert all(one["time"].startswith("20") and one["time"][-6] in "+-" for one in notifications)
    assert names(here) == []


def test_commands_need_no_output_folder(cli, video, here):
    words = ("run", video, *QUICK, "--record", "clips", "--on-event", f"clip: {appending('got')} {{clip}}")
    assert "; 1 notification delivered; wrote " in cli(*words).clean().out
    (clip,) = (here / "clips").glob("video-0001.m*")
    assert (here / "got").read_text() == f"{clip}\n"
    assert names(here) == ["clips", "got", "video.avi"]


def test_lost_notifications_are_counted(cli, video, tmp_path, short_end):
    nobody = unused_address()
    answer = cli("run", video, "-o", tmp_path / "out", *QUICK, "--webhook", nobody, "--on-event", "start: true").ok()
    assert "; 1 notification delivered; 2 notifications lost; wrote " in answer.out
    assert answer.err.startswith(f"bgsub: webhook {nobody}: no answer: Connection refused; ")


def test_hanging_destinations_do_not_delay_the_run(cli, visited, signal_after, short_end):
    signal_after(200, 15)
    with receiving(always=HANG) as server:
        begin = time.monotonic()
        words = ("live", visited, *QUICK, "--no-window", "--json")
        answer = cli(*words, "--webhook", server.address, "--on-event", "sleep 1000").ok()
        seconds = time.monotonic() - begin
    result = json.loads(answer.out)
    assert (result["frames"], result["stopped"], result["notifications"]["delivered"]) == (200, "SIGTERM", 0)
    assert result["notifications"]["lost"] >= 2
    assert seconds - result["seconds"] < 60  # the run waits for both destinations together


WRONG = [
    (("--webhook", "gate"), "--webhook: a webhook is an address http://HOST/... or https://HOST/..., got 'gate'"),
    (("--on-event", ""), "--on-event: a command must be a program and its arguments, got ''"),
    (("--on-event", "no-such-program"), "--on-event: there is no program 'no-such-program'"),
    (("--on-event", "echo {sourse}"), "got {sourse}; did you mean 'source'?"),
    (("--on-event", "echo {snapshot}"), "a command for snapshots needs a folder of them (--snapshots)"),
]


@pytest.mark.parametrize("command", [("run", "-o", "out"), ("live", "--no-window"), ("track", "-o", "out")])
def test_wrong_destinations(cli, command):
    for words, message in WRONG:
        cli(*command, "none.avi", *words).refused(message)


def test_options_of_motion_need_a_destination(cli):
    for option, value in (("--motion-threshold", 0.1), ("--event-gap", 1)):
        words = ("run", "none.avi", "-o", "out", option, value)
        cli(*words).refused(f"{option} needs --record, --on-event, --webhook or --snapshots")
    cli("run", "none.avi", "-o", "out", "--webhook", "http://h/", "--pre-roll", 1).refused("--pre-roll needs --record")


def test_config_hides_addresses(cli, settings):
    assert "# webhook is not set" in cli("config", "run").clean().out
    (settings / "bgsub.toml").write_text('webhook = ["http://me:secret@host/hook-id"]\n')
    shown = cli("--config", "bgsub.toml", "config", "run").clean().out
    assert 'webhook = "***"' in shown
    assert "secret" not in shown


def test_resumed_run_may_have_another_address(cli, video, tmp_path, signal_after):
    with receiving() as server:
        words = ("run", video, "-o", tmp_path / "out", "--resume", "--save", "mask.png", *QUICK)
        signal_after(20, 15)
        assert cli(*words, "--webhook", server.address).code == 143
        assert server.address.encode() not in (tmp_path / "out" / ".resume" / "state").read_bytes()
        cli(*words, "--webhook", f"{server.address}/new").ok()
        assert server.requests.queue[-1][0] == "/new"
