"""``bgsub live``: a camera on the loopback, a fake camera, and a fake screen."""

import re
import signal
import subprocess
import sys
import threading
import time
import tomllib

import numpy as np
import pytest
import serve_camera
from cli_inputs import QUICK, make_scene, names
from live_fakes import FakeDisplay
from sink_kit import read_images
from test_server import Client
from video_fakes import FakeCapture, read_video

from bgsub.events.annotation import COLOURS


@pytest.fixture
def camera(monkeypatch):
    """A camera with the number 0 that sends thirty frames and then nothing."""
    capture = FakeCapture(list(make_scene(30, empty=12)))
    monkeypatch.setattr("bgsub.video.sources.camera.cv2.VideoCapture", capture)
    return capture


class PatientDisplay(FakeDisplay):
    """A display on which no key is pressed before the first mask."""

    def key(self, milliseconds):
        return super().key(milliseconds) if self.pictures else -1

    @property
    def pictures(self):
        """Masks: neither the first picture, which says that the camera is opened, nor a frame whose mask is late."""
        enlarged = [image for image in self.shown if image.shape[1] != 640]
        return [image for image in enlarged if set(np.unique(image[:180])) <= {0, 127, 255}]


@pytest.mark.parametrize("words", [("live", "--no-window"), ("run", 0)])
def test_camera_that_stops(cli, tmp_path, camera, words):
    answer = cli(*words, "-o", tmp_path, "--save", "mask.png", *QUICK).ok()
    assert answer.err == "bgsub: camera 0 ended after 30 frames\n"
    assert answer.out.startswith("camera 0: ")
    assert "; wrote" in answer.out
    assert (camera.device, camera.released) == (0, True)


@pytest.mark.parametrize("words", [("live", "--no-window", "--reconnect", "inf"), ("run",)])
def test_duration_ends_while_a_camera_is_lost(cli, tmp_path, endless_stream, after_frames, words):
    after_frames(1, lambda: (endless_stream.refuse(60), endless_stream.cut()))
    answer = cli(*words, endless_stream.address, "-o", tmp_path, "--duration", "1s", *QUICK).ok()
    assert "stopped" not in answer.out


def test_window_shows_the_view_until_the_quit_key(cli, endless_stream, monkeypatch):
    display = PatientDisplay([-1, -1, -1, "q"])
    monkeypatch.setattr("bgsub.live.window.CvDisplay", lambda: display)
    answer = cli("live", endless_stream.address, "--view", "mask", "--duration", "30s", *QUICK).clean()
    assert answer.out.endswith("; stopped by the user\n")
    # small frames are enlarged, with the numbers below
    assert (display.shown[0].shape[1], display.pictures[0].shape[1]) == (640, 7 * 48)
    assert len(display.pictures) >= 3
    assert not display.is_open


def test_model_of_a_live_run_is_saved_and_used(cli, tmp_path, folder, monkeypatch):
    monkeypatch.setattr("bgsub.live.window.CvDisplay", FakeDisplay)
    words, model = ("live", folder, "--fast"), tmp_path / "m.npz"
    assert cli(*words, "--save-model", model, *QUICK).ok().out.endswith(f"wrote {model}\n")
    cli(*words, "--save-model", model).refused(f"the model '{model}' exists already", "--overwrite", "--model")
    # The model tracks from the first frame on: the summary has no start phase.
    answer = cli(*words, "--model", model, "--duration", 3).ok()
    assert "3 frames of 48x32" in answer.out
    assert "start phase" not in answer.out


def test_events_and_regions(cli, tmp_path, video):
    out = tmp_path / "out"
    words = ("--event-formats", "csv", "--roi", "left=0,0,50%,100%", "--save", "mask.png,boxes.png", "--fast", *QUICK)
    cli("live", video, "--no-window", "-o", out, *words).clean()
    assert names(out) == ["boxes", "events.csv", "mask", "regions.csv"]
    assert (out / "regions.csv").read_text().splitlines()[1].startswith("left,")
    masks, boxes = read_images(out / "mask"), read_images(out / "boxes")
    assert any((picture == COLOURS[1]).all(axis=2).any() for picture in boxes)
    assert (boxes[-1][100, 160:176] == 255).any()  # the outline of the region
    assert any(mask.any() for mask in masks)
    assert not any(mask[:, 24:].any() for mask in masks)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--size", "48", "32", "--cut-every", "0.4"), ("frames", "--stamp")])
def test_camera_is_separated_live(cli, here, folder, words):
    command = [sys.executable, "-u", serve_camera.__file__, *words, "--fps", "50"]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        line = process.stdout.readline()
        address = line.split(" at ")[1].split()[0]
        assert line == f"a camera sends 50 frames per second at {address} until Ctrl-C\n"
        answer = cli("live", address, "--no-window", "-o", "out", "--duration", 12, "--start-frames", 5).ok()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=10)[1] == ""
    assert "12 frames of 48x32" in answer.out
    assert len(read_video(here / "out" / "mask.mkv")) == 12


@pytest.fixture
def page(monkeypatch):
    """A function that takes a visit; it runs in a thread once the first frame is on the page, and then ends the run."""
    threads = []

    def when_served(visit):
        from bgsub.live import session  # noqa: PLC0415

        class Server(session.LiveServer):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                threads.append(threading.Thread(target=run, args=(Client(self), self.broadcasts[0].controls)))
                threads[0].start()

        def run(client, controls):
            try:
                while not controls.statistics.as_dict()["frames"]:
                    controls.wait(0.01)
                visit(client)
            finally:
                controls.quit()

        monkeypatch.setattr(session, "LiveServer", Server)

    yield when_served
    for thread in threads:
        thread.join()


def save(client, regions):
    return client.command({"regions": regions}, Authorization="Bearer correct-horse")[1]["cameras"][0]


def test_regions_from_the_page_do_not_override_a_variable(cli, endless_stream, page, settings, monkeypatch):
    monkeypatch.setenv("BGSUB_PRIVACY", "0,0,5,5")
    regions, notices = {"roi": ["0%,0%;50%,0%;50%,100%"], "ignore": [], "privacy": []}, []
    page(lambda client: notices.append(save(client, regions)["notice"]))
    words = ("--no-window", "--serve", "0", "--token", "correct-horse", *QUICK)
    first, second = cli("live", endless_stream.address, *words).ok().out.splitlines()
    assert re.fullmatch(r"watch at http://127\.0\.0\.1:\d+/\?token=correct-horse", first)
    assert second.endswith("; stopped by the user")
    assert notices == ["regions saved in bgsub-regions.toml, which BGSUB_PRIVACY overrides; used from now on"]


def test_regions_from_the_page_apply_from_the_next_start(cli, endless_stream, video, page, settings):
    file = settings / "bgsub.toml"
    file.write_text("# mine\n[live]\nstart-frames = 10\n")
    regions = {"roi": ["left=0%,0%;50%,0%;50%,100%;0%,100%"], "ignore": [], "privacy": ["top=0%,0%;100%,0%;100%,20%"]}
    notices = []
    page(lambda client: notices.append(save(client, regions)["notice"]))
    message = "bgsub: settings from bgsub.toml in this folder: "
    assert cli("live", endless_stream.address, "--no-window", "--serve", "0").ok().err == f"{message}start-frames\n"
    assert notices == ["regions saved in bgsub-regions.toml; used from now on"]
    assert file.read_text() == "# mine\n[live]\nstart-frames = 10\n"
    assert tomllib.loads((settings / "bgsub-regions.toml").read_text()) == regions
    words = ("live", video, "--fast", "--no-window", "-o", "out", "--save", "mask.npz,background.npz")
    drawn = message.replace("bgsub.toml", "bgsub-regions.toml")
    assert cli(*words).ok().err == f"{message}start-frames\n{drawn}ignore, privacy, roi\n"
    assert not np.load("out/mask.npz")["mask"][:, :, 25:].any()  # the border belongs to a polygon
    assert np.load("out/mask.npz")["mask"].any()
    assert not np.load("out/background.npz")["background"][:, 0].any()


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


def test_port_in_use(cli, endless_stream):
    host = endless_stream.address.split("/")[2]
    cli("live", endless_stream.address, "--no-window", "--serve", host).refused(f"{host}: the port is in use")


def test_regions_are_drawn_on_a_picture_of_a_file(cli, video, page, settings):
    texts, seen = {"roi": ["left=0%,0%;50%,0%;50%,100%"], "ignore": [], "privacy": []}, []

    def visit(client):
        seen.append(save(client, texts))
        time.sleep(0.3)
        seen.extend(client.cameras())

    page(visit)
    answer = cli("regions", video, "--start", 3).clean()
    assert re.fullmatch(r"draw regions at http://127\.0\.0\.1:\d+/; Ctrl-C ends\n", answer.out)
    assert seen[0]["notice"] == "regions saved in bgsub-regions.toml; used from the next start"
    assert [one["frames"] for one in seen] == [1, 1]  # it waits
    assert tomllib.loads((settings / "bgsub-regions.toml").read_text()) == texts
