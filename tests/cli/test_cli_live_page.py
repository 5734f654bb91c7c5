"""``bgsub live --serve`` and several cameras; what does not go together is told in one line."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
import tomllib
import urllib.request

import numpy as np
import pytest
from video_fakes import FakeDisplay, read_video

from bgsub.jobs.controls import LIVE_VIEWS

QUICK = ("--start-frames", 10)


@pytest.fixture
def page(monkeypatch):
    """A function that is called with the address of the page as soon as it is there, in a thread."""
    threads = []

    def when_served(visit):
        from bgsub.live import session  # noqa: PLC0415

        class Server(session.LiveServer):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                threads.append(threading.Thread(target=visit, args=(self.address, self.broadcasts)))
                threads[0].start()

        monkeypatch.setattr(session, "LiveServer", Server)

    yield when_served
    for thread in threads:
        thread.join()


def ask(address, path, body=None):
    base, _, query = address.partition("?")
    request = urllib.request.Request(f"{base}{path}?{query}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


def test_a_stream_is_watched_and_tuned_in_a_browser(cli, endless_stream, page):
    seen = {}

    def visit(address, broadcasts):
        controls = broadcasts[0].controls
        try:
            seen["page"] = ask(address, "")
            while not controls.statistics.as_dict()["frames"]:
                controls.wait(0.01)
            seen["numbers"] = json.loads(ask(address, "statistics"))["cameras"][0]
            seen["answer"] = json.loads(ask(address, "control", b'{"parameters": {"threshold": 0.3}}'))
        finally:
            controls.quit()

    page(visit)
    answer = cli("live", endless_stream.address, "--no-window", "--serve", "0", *QUICK).clean()
    first, second = answer.out.splitlines()
    assert re.fullmatch(r"watch at http://127\.0\.0\.1:\d+/", first)
    assert second.endswith("; stopped by the user")
    assert b"<title>bgsub live</title>" in seen["page"]
    assert seen["numbers"]["width"] == 48
    assert seen["numbers"]["latency_ms"] >= 0
    assert seen["answer"]["cameras"][0]["parameters"]["threshold"] == 0.3


def test_regions_from_the_page_hold_from_the_next_start(cli, endless_stream, video, page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BGSUB_NO_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    settings = tmp_path / "bgsub.toml"
    settings.write_text("# mine\n[live]\nstart-frames = 10\n")
    told = {}

    def visit(address, broadcasts):
        regions = {"roi": ["left=0%,0%;50%,0%;50%,100%;0%,100%"], "privacy": ["top=0%,0%;100%,0%;100%,20%"]}
        controls = broadcasts[0].controls
        try:
            while not controls.statistics.as_dict()["frames"]:
                controls.wait(0.01)
            told.update(json.loads(ask(address, "control", json.dumps({"regions": regions}).encode())))
        finally:
            controls.quit()

    page(visit)
    told_of = "bgsub: settings from bgsub.toml in this folder: "
    assert cli("live", endless_stream.address, "--no-window", "--serve", "0").ok().err == f"{told_of}start-frames\n"
    assert told["cameras"][0]["notice"] == "regions saved in bgsub.toml; used from the next start"
    text = settings.read_text()
    assert "# mine\n" in text
    assert tomllib.loads(text) == {
        "roi": ["left=0%,0%;50%,0%;50%,100%;0%,100%"],
        "privacy": ["top=0%,0%;100%,0%;100%,20%"],
        "live": {"start-frames": 10},
    }
    words = ("live", video, "--fast", "--no-window", "-o", "out", "--save", "mask.npz,background.npz")
    assert cli(*words).ok().err == f"{told_of}privacy, roi, start-frames\n"
    assert not np.load("out/mask.npz")["mask"][:, :, 25:].any()  # the border belongs to a polygon
    assert np.load("out/mask.npz")["mask"].any()
    assert not np.load("out/background.npz")["background"][:, 0].any()


def test_where_the_command_line_is_stronger_than_what_is_saved_it_is_told(
    cli, endless_stream, page, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    told = []

    def visit(address, broadcasts):
        controls = broadcasts[0].controls
        try:
            while not controls.statistics.as_dict()["frames"]:
                controls.wait(0.01)
            told.append(json.loads(ask(address, "control", b'{"regions": {"roi": [], "privacy": []}}')))
        finally:
            controls.quit()

    page(visit)
    cli("live", endless_stream.address, "--no-window", "--serve", "0", "--roi", "0,0,9,9", *QUICK).clean()
    notice = "regions saved in bgsub.toml, which --roi overrides; used from the next start"
    assert told[0]["cameras"][0]["notice"] == notice


def test_a_token_stands_in_the_address(cli, endless_stream, page):
    page(lambda address, broadcasts: ask(address, "statistics"))
    options = ("--serve", "0", "--token", "correct-horse", "--duration", 3)
    answer = cli("live", endless_stream.address, "--no-window", *options, *QUICK).ok()
    assert answer.out.splitlines()[0].endswith("/?token=correct-horse")


def test_json_stays_alone_on_the_output(cli, endless_stream):
    answer = cli("live", endless_stream.address, "--no-window", "--serve", "0", "--duration", 3, "--json", *QUICK).ok()
    assert json.loads(answer.out)["frames"] == 3
    assert answer.err.startswith("watch at http://")


def test_a_missing_file_is_told_before_there_is_a_page(cli, tmp_path):
    answer = cli("live", tmp_path / "none.avi", "--no-window", "--serve", "0")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"bgsub: error: no such file or folder: '{tmp_path / 'none.avi'}'\n"


def test_several_cameras_write_a_folder_each_and_one_that_fails_is_told(cli, tmp_path, endless_stream, video):
    out = tmp_path / "out"
    sources = (endless_stream.address, video, tmp_path / "none.avi")
    answer = cli("live", *sources, "--no-window", "--fast", "-o", out, "--duration", 12, *QUICK)
    assert answer.code == 1
    missing = f"no such file or folder: '{tmp_path / 'none.avi'}'"
    assert answer.err.splitlines() == [
        f"bgsub: {tmp_path / 'none.avi'}: {missing}",
        f"bgsub: error: {tmp_path / 'none.avi'}: {missing}",
    ]
    lines = answer.out.splitlines()
    assert len(lines) == 2
    assert all(": 12 frames of 48x32" in line and "stopped" not in line for line in lines)
    folders = sorted(out.iterdir())
    assert len(folders) == 2
    assert all(len(read_video(folder / "mask.mkv")) == 12 for folder in folders)


def test_cameras_that_are_called_alike_get_different_folders(cli, tmp_path, video):
    sources = [shutil.copy(video, video.parent / name) for name in ("video~avi", "video-avi")]
    cli("live", *sources, "--no-window", "--fast", "-o", tmp_path / "out", "--event-formats", "csv", *QUICK).clean()
    first, second = sorted((tmp_path / "out").iterdir())
    assert second.name == f"{first.name}~2"
    assert all((folder / "events.csv").exists() for folder in (first, second))


def test_several_cameras_have_a_window_each(cli, endless_stream, video, monkeypatch):
    displays = []

    def display():
        displays.append(FakeDisplay())
        return displays[-1]

    monkeypatch.setattr("bgsub.live.window.CvDisplay", display)
    cli("live", endless_stream.address, video, "--duration", 5, "--view", "input", *QUICK).clean()
    assert len(displays) == 2
    for display in displays:
        assert not display.is_open
        assert any(image.shape[1] == 7 * 48 for image in display.shown)


def test_clips_are_recorded(cli, tmp_path, video):
    cli("live", video, "--no-window", "--fast", "--record", tmp_path / "clips", "--post-roll", 0, *QUICK).clean()
    assert (tmp_path / "clips" / "clips.csv").exists()


def test_a_virtual_camera_that_is_not_there(cli, monkeypatch, video):
    monkeypatch.setitem(sys.modules, "pyvirtualcam", None)
    answer = cli("live", video, "--no-window", "--virtual-camera", *QUICK)
    assert answer.code == 1
    assert answer.err.endswith("needs the package pyvirtualcam: pip install 'bgsub[virtual-camera]'\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--serve", "x"], "--serve takes a port up to 65535, or host:port, got 'x'"),
        (["--serve", "70000"], "--serve takes a port up to 65535, or host:port, got '70000'"),
        (["--serve", "host:"], "--serve takes a port up to 65535, or host:port, got 'host:'"),
        (["--serve", "0", "--token", "short"], "token must be at least 8 letters, digits, '-' or '_'"),
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
def test_what_does_not_go_together(cli, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    cli("live", "0", "--no-window", *words).refused_with(message)
    assert not (tmp_path / "out").exists()


def test_a_port_in_use(cli, endless_stream):
    port = endless_stream.server_address[1]
    answer = cli("live", endless_stream.address, "--no-window", "--serve", port)
    answer.refused(f"the page cannot be served at 127.0.0.1:{port}: the port is in use")


def test_all_views_are_in_the_help(cli):
    answer = cli("live", "--help")
    assert all(view in answer.out for view in LIVE_VIEWS)
