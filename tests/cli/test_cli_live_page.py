"""``bgsub live --serve`` and several cameras; options that exclude each other."""

from __future__ import annotations

import json
import re
import threading
import tomllib
import urllib.request

import numpy as np
import pytest
from cli_inputs import QUICK
from video_fakes import read_video

from bgsub.jobs.controls import LIVE_VIEWS


@pytest.fixture
def page(monkeypatch):
    """A function that takes a visit; it runs in a thread once the first frame is on the page, and then ends the run."""
    threads = []

    def when_served(visit):
        from bgsub.live import session  # noqa: PLC0415

        class Server(session.LiveServer):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                threads.append(threading.Thread(target=run, args=(self.address, self.broadcasts[0].controls)))
                threads[0].start()

        def run(address, controls):
            try:
                while not controls.statistics.as_dict()["frames"]:
                    controls.wait(0.01)
                visit(address)
            finally:
                controls.quit()

        monkeypatch.setattr(session, "LiveServer", Server)

    yield when_served
    for thread in threads:
        thread.join()


def ask(address, path, body=None):
    base, _, token = address.partition("?token=")
    body = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(base + path, body, headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


def test_stream_is_watched_and_tuned_in_a_browser(cli, endless_stream, page):
    seen = []

    def visit(address):
        seen.append(ask(address, ""))
        seen.append(json.loads(ask(address, "statistics"))["cameras"][0])
        seen.append(json.loads(ask(address, "control", {"parameters": {"threshold": 0.3}})))

    page(visit)
    words = ("--no-window", "--serve", "0", "--token", "correct-horse", *QUICK)
    first, second = cli("live", endless_stream.address, *words).clean().out.splitlines()
    assert re.fullmatch(r"watch at http://127\.0\.0\.1:\d+/\?token=correct-horse", first)
    assert second.endswith("; stopped by the user")
    assert b"<title>bgsub live</title>" in seen[0]
    assert seen[1]["width"] == 48
    assert seen[1]["latency_ms"] >= 0
    assert seen[2]["cameras"][0]["parameters"]["threshold"] == 0.3


def test_regions_from_the_page_apply_from_the_next_start(cli, endless_stream, video, page, settings):
    file = settings / "bgsub.toml"
    file.write_text("# mine\n[live]\nstart-frames = 10\n")
    regions = {"roi": ["left=0%,0%;50%,0%;50%,100%;0%,100%"], "privacy": ["top=0%,0%;100%,0%;100%,20%"]}
    notices = []

    def visit(address):
        answer = json.loads(ask(address, "control", {"regions": regions}))
        notices.append(answer["cameras"][0]["notice"])

    page(visit)
    message = "bgsub: settings from bgsub.toml in this folder: "
    assert cli("live", endless_stream.address, "--no-window", "--serve", "0").ok().err == f"{message}start-frames\n"
    assert notices == ["regions saved in bgsub.toml; used from the next start"]
    assert "# mine\n" in file.read_text()
    assert tomllib.loads(file.read_text()) == {**regions, "live": {"start-frames": 10}}
    words = ("live", video, "--fast", "--no-window", "-o", "out", "--save", "mask.npz,background.npz")
    assert cli(*words).ok().err == f"{message}privacy, roi, start-frames\n"
    assert not np.load("out/mask.npz")["mask"][:, :, 25:].any()  # the border belongs to a polygon
    assert np.load("out/mask.npz")["mask"].any()
    assert not np.load("out/background.npz")["background"][:, 0].any()


def test_notice_names_options_that_override_saved_regions(cli, endless_stream, page, here):
    notices = []

    def visit(address):
        answer = json.loads(ask(address, "control", {"regions": {"roi": [], "privacy": []}}))
        notices.append(answer["cameras"][0]["notice"])

    page(visit)
    cli("live", endless_stream.address, "--no-window", "--serve", "0", "--roi", "0,0,9,9", *QUICK).clean()
    assert notices == ["regions saved in bgsub.toml, which --roi overrides; used from the next start"]


def test_json_is_alone_on_standard_output(cli, endless_stream):
    answer = cli("live", endless_stream.address, "--no-window", "--serve", "0", "--duration", 3, "--json", *QUICK).ok()
    assert json.loads(answer.out)["frames"] == 3
    assert answer.err.startswith("watch at http://")


def test_missing_file_is_reported_before_the_page_is_served(cli, tmp_path):
    cli("live", tmp_path / "none.avi", "--no-window", "--serve", "0").refused("no such file or folder", "none.avi")


def test_each_camera_has_a_folder_and_a_failed_one_is_reported(cli, tmp_path, endless_stream, video):
    out, gone = tmp_path / "out", tmp_path / "none.avi"
    words = ("--no-window", "--fast", "-o", out, "--duration", 12, *QUICK)
    answer = cli("live", endless_stream.address, video, gone, *words)
    assert answer.code == 1
    missing = f"{gone}: no such file or folder: '{gone}'"
    assert answer.err.splitlines() == [f"bgsub: {missing}", f"bgsub: error: {missing}"]
    lines = answer.out.splitlines()
    assert len(lines) == 2
    assert all(": 12 frames of 48x32" in line and "stopped" not in line for line in lines)
    assert [len(read_video(folder / "mask.mkv")) for folder in out.iterdir()] == [12, 12]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--serve", "x"], "--serve takes a port up to 65535, or host:port, got 'x'"),
        (["--serve", "70000"], "--serve takes a port up to 65535, or host:port, got '70000'"),
        (["--serve", "0", "--token", "short"], "token must be at least 8 letters"),
        (["--token", "correct-horse", "-o", "out"], "--token needs --serve"),
        (["--event-formats", "csv", "--serve", "0"], "--event-formats needs --output"),
        (["-o", "out", "--name", "../{view}"], "--name: a name must be that of a file below the output folder"),
        (["--post-roll", "3", "-o", "out"], "--post-roll needs --record"),
        (["1", "--virtual-camera"], "--virtual-camera takes one camera, got several"),
        (["1", "-o", "out", "--save-model", "m.npz"], "a model file is for one camera, got several cameras"),
        (["0", "-o", "out"], "each camera can be given once, got camera 0 twice"),
        (["--serve", "0", "--backdrop", "#zz"], "backdrop must be 'blur', a colour such as '#00b140' or an image file"),
    ],
)
def test_wrong_options(cli, here, words, message):
    cli("live", "0", "--no-window", *words).refused(message)
    assert not (here / "out").exists()


def test_port_in_use(cli, endless_stream):
    port = endless_stream.server_address[1]
    answer = cli("live", endless_stream.address, "--no-window", "--serve", port)
    answer.refused(f"127.0.0.1:{port}: the port is in use")


def test_help_lists_all_views(cli):
    assert all(view in cli("live", "--help").out for view in LIVE_VIEWS)
