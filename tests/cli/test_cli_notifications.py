"""Notifications by commands and webhooks, from the command line."""

from __future__ import annotations

import itertools
import json
import shlex
import sys
import threading
import time

import pytest
from cli_inputs import make_scene, served
from receiver import HANG, receiving, unused_address

from bgsub._opencv import cv2
from bgsub.jobs.job import Statistics

QUICK = ("--start-frames", 8, "--rank", 2)  # so that short videos have motion
WANTED = "--record, --on-event, --webhook or --snapshots"


class Visit:
    """Images of a camera: empty until `begun` is set, then a moving square until `ended` is set."""

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
    """A camera in whose images a motion begins when the run has processed thirty frames."""
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
    """Return a command that appends its arguments to a file."""
    code = f"import sys; open({str(path)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))"
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def test_run_notifies_commands_and_webhooks(cli, video, tmp_path):
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
    assert sorted(got.read_text().splitlines()) == sorted(
        [*(f"{kind} motion video" for kind in ("start", "snapshot", "end")), str(picture)]
    )
    assert picture.read_bytes()[:2] == b"\xff\xd8"
    assert answer.err == (
        f"bgsub: webhook {server.address}: answers 500 Internal Server Error; notifications are tried again for 60 s\n"
        f"bgsub: webhook {server.address} works again; notifications lost meanwhile: 0\n"
    )


def test_track_notifies(cli, video, tmp_path):
    with receiving() as server:
        answer = cli(
            "track", video, "-o", tmp_path / "out", *QUICK, "--event-formats", "csv", "--webhook", server.address
        ).clean()
        assert [one["type"] for one in server.notifications()] == ["start", "end"]
    assert "; 2 notifications delivered; wrote " in answer.out


def test_live_notifies_without_other_outputs(cli, visited, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with receiving() as server:
        cli("live", visited, *QUICK, "--no-window", "--duration", 200, "--webhook", server.address).ok()
        notifications = [one for one in server.notifications() if one["event"] == "motion"]
    assert [one["type"] for one in notifications] == ["start", "end"]
    assert {one["source"] for one in notifications} == {visited.removeprefix("http://")}
    assert all(one["time"].startswith("20") and one["time"][-6] in "+-" for one in notifications)
    assert list(tmp_path.iterdir()) == []


def test_clips_are_notified_without_an_output_folder(cli, video, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("run", video, *QUICK, "--record", "clips", "--on-event", f"clip: {appending('got')} {{clip}}")
    assert "; 1 notification delivered; wrote " in cli(*words).clean().out
    (clip,) = (tmp_path / "clips").glob("video-0001.m*")
    assert (tmp_path / "got").read_text() == f"{clip}\n"
    cli("run", video, *QUICK, "--on-event", "end: true").clean()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clips", "got", "video.avi"]
    cli("run", video).refused_with("Missing option '-o' / '--output'")


def test_lost_notifications_are_reported(cli, video, tmp_path, short_end):
    nobody = unused_address()
    answer = cli("run", video, "-o", tmp_path / "out", *QUICK, "--webhook", nobody, "--on-event", "start: true").ok()
    assert "; 1 notification delivered; 2 notifications lost; wrote " in answer.out
    name = f"webhook {nobody}"
    assert answer.err == f"bgsub: {name}: no answer: Connection refused; notifications are tried again for 60 s\n"


def test_hanging_receivers_do_not_delay_frames(cli, visited, short_end):
    with receiving(always=HANG) as server:
        words = ("live", visited, *QUICK, "--no-window", "--duration", 200, "--json")
        begin = time.monotonic()
        answer = cli(*words, "--webhook", server.address, "--on-event", "sleep 1000").ok()
        seconds = time.monotonic() - begin
    facts = json.loads(answer.out)
    assert facts["frames"] == 200
    assert facts["notifications"]["delivered"] == 0
    assert facts["notifications"]["lost"] >= 4
    assert seconds - facts["seconds"] < 60


def test_stop_while_the_webhook_hangs(cli, visited, signal_after, short_end):
    signal_after(60, 15)
    before = threading.active_count()
    with receiving(always=HANG) as server:
        answer = cli("live", visited, *QUICK, "--no-window", "--webhook", server.address).ok()
    assert "stopped by SIGTERM" in answer.out
    assert threading.active_count() <= before + 1  # the loader of the kernels stays


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--webhook", "gate", "a webhook is an address http://HOST/... or https://HOST/..., got 'gate'"),
        ("--on-event", "", "a command must be a program and its arguments, got ''"),
        ("--on-event", "no-such-program", "there is no program 'no-such-program', got 'no-such-program'"),
    ],
)
@pytest.mark.parametrize("command", [("run", "-o", "out"), ("live", "--no-window"), ("track", "-o", "out")])
def test_wrong_values(cli, command, option, value, message):
    cli(*command, "none.avi", option, value).refused(f"{option}: {message}")


def test_unknown_placeholders(cli):
    start = "--on-event: a command can have the placeholders {type}, {event}, "
    cli("run", "none.avi", "-o", "out", "--on-event", "echo {sourse}").refused_with(
        start, "got {sourse}; did you mean 'source'?\n"
    )


def test_snapshots_for_commands_need_a_folder(cli):
    cli("live", "none.avi", "--on-event", "echo {snapshot}").refused(
        "a command for snapshots needs a folder of them (--snapshots), got 'echo {snapshot}'"
    )


def test_motion_options_need_an_output(cli, tmp_path):
    cli("run", "none.avi", "-o", "out", "--motion-threshold", 0.1).refused(f"--motion-threshold needs {WANTED}")
    cli("run", "none.avi", "-o", "out", "--event-gap", 1).refused(f"--event-gap needs {WANTED}")
    cli("run", "none.avi", "-o", "out", "--webhook", "http://h/", "--pre-roll", 1).refused("--pre-roll needs --record")


def test_motion_threshold(cli, video, tmp_path):
    cli("run", video, "-o", tmp_path / "out", "--motion-threshold", 0.9, "--snapshots", tmp_path / "pictures").clean()
    assert not any((tmp_path / "pictures").iterdir())


def test_settings_do_not_show_addresses(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BGSUB_NO_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    (tmp_path / "bgsub.toml").write_text('webhook = ["http://me:secret@host/hook-id"]\n')
    shown = cli("--config", "bgsub.toml", "config", "run").clean().out
    assert 'webhook = "***"' in shown
    assert "secret" not in shown
    (tmp_path / "bgsub.toml").unlink()
    assert "# webhook is not set" in cli("config", "run").clean().out


def test_a_resumed_run_may_have_another_webhook(cli, video, tmp_path, signal_after):
    with receiving() as server:
        words = ("run", video, "-o", tmp_path / "out", "--resume", "--save", "mask.png", *QUICK)
        signal_after(20, 15)
        assert cli(*words, "--webhook", server.address).code == 143
        state = (tmp_path / "out" / ".resume" / "state").read_bytes()
        assert server.address.encode() not in state
        cli(*words, "--webhook", f"{server.address}/new").ok()
        assert server.requests.queue[-1][0] == "/new"
