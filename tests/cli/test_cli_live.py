"""``bgsub live``: a camera on the loopback, a fake camera, and a fake screen."""

import itertools
import re

import pytest
from cli_inputs import QUICK, make_scene, names, read_masks
from video_fakes import FakeCapture, FakeDisplay, read_video

import bgsub
from bgsub.events.annotation import COLOURS


@pytest.fixture
def camera(monkeypatch):
    """A camera with the number 0 that sends thirty frames and then nothing."""
    capture = FakeCapture(list(make_scene(30, empty=12)))
    monkeypatch.setattr("bgsub.video.sources.camera.cv2.VideoCapture", capture)
    return capture


class PatientDisplay(FakeDisplay):
    """A display on which no key is pressed before the first camera picture."""

    def key(self, milliseconds):
        return super().key(milliseconds) if self.pictures else -1

    @property
    def pictures(self):
        return [image for image in self.shown if image.shape[1] != 640]


@pytest.fixture
def screen(monkeypatch):
    """A function that installs a display and the keys that will be pressed."""

    def put(*keys):
        display = PatientDisplay(list(keys))
        monkeypatch.setattr("bgsub.live.window.CvDisplay", lambda: display)
        return display

    return put


def test_part_of_a_stream_is_recorded(cli, tmp_path, endless_stream):
    out, address = tmp_path / "out", endless_stream.address
    answer = cli("live", address, "--no-window", "--duration", 8, "-o", out, "--save", "mask,panel").clean()
    assert answer.out.startswith(f"stream '{address}': 8 frames of 48x32; ")
    assert answer.out.endswith(f"; wrote {out / 'mask.mkv'}, {out / 'panel.mp4'}\n")
    assert "stopped" not in answer.out
    assert len(read_video(out / "mask.mkv")) == 8
    assert [frame.shape for frame in read_video(out / "panel.mp4")] == [(64, 96, 3)] * 8


def test_part_of_a_file_in_seconds(cli, tmp_path, folder):
    words = ("--no-window", "--fast", "--fps", 10, "--duration", "1.5s", "--save-model", tmp_path / "m.npz", *QUICK)
    answer = cli("live", folder, "-o", tmp_path / "out", *words).clean()
    assert ": 15 frames of 48x32; " in answer.out
    assert "stopped" not in answer.out
    assert bgsub.BackgroundSubtractor.load(tmp_path / "m.npz").get_params()["fps"] == 10


def test_recording_of_a_stream_that_ends(cli, tmp_path, mjpeg_server):
    out = tmp_path / "out"
    answer = cli("live", mjpeg_server.address, "--reconnect", 0, "--no-window", "-o", out, *QUICK).ok()
    assert answer.err == f"bgsub: stream '{mjpeg_server.address}' ended after 30 frames\n"
    assert "; the camera stopped sending; wrote" in answer.out
    count = int(re.search(r": (\d+) frames? of", answer.out)[1])
    dropped = re.search(r"; (\d+) frames? dropped", answer.out)
    assert count + int(dropped[1] if dropped else 0) == 30
    assert len(read_video(out / "mask.mkv")) == count


@pytest.mark.parametrize("words", [("live", "--no-window"), ("run", 0)])
def test_camera_that_stops(cli, tmp_path, camera, words):
    answer = cli(*words, "-o", tmp_path, "--save", "mask.png", *QUICK).ok()
    assert answer.err == "bgsub: camera 0 ended after 30 frames\n"
    assert answer.out.startswith("camera 0: ")
    assert "; the camera stopped sending; wrote" in answer.out
    assert (camera.device, camera.released) == (0, True)


def test_window_shows_the_view_until_the_quit_key(cli, endless_stream, screen):
    display = screen(-1, -1, -1, "q")
    answer = cli("live", endless_stream.address, "--view", "background", *QUICK).clean()
    assert answer.out.endswith("; stopped by the user\n")
    # The first picture says that the camera is opened; small frames are enlarged, with the numbers below.
    assert display.shown[0].shape[1] == 640
    assert len(display.pictures) >= 3
    assert display.pictures[0].shape[1] == 7 * 48
    assert not display.pictures[0][:180].max() > 200
    assert not display.is_open


def test_model_of_a_camera_is_saved_and_used(cli, tmp_path, camera, folder, screen):
    screen()
    model = tmp_path / "m.npz"
    pictures = itertools.cycle(list(make_scene(10, empty=10)))
    camera.read = lambda: (True, next(pictures).copy())
    answer = cli("live", "--save-model", model, "--duration", 20, *QUICK).ok()
    assert answer.out.endswith(f"wrote {model}\n")
    before = model.read_bytes()
    again = cli("live", "--save-model", model, "--duration", 20, *QUICK)
    again.refused(f"the model '{model}' exists already", "--overwrite", "--model")
    assert model.read_bytes() == before
    # The model tracks from the first frame on: the summary has no start phase.
    answer = cli("live", folder, "--model", model, "--duration", 3, "--fast").ok()
    assert "3 frames of 48x32" in answer.out
    assert "start phase" not in answer.out


def test_recording_is_replaced_only_with_overwrite(cli, tmp_path, endless_stream):
    words = ("live", endless_stream.address, "--no-window", "--duration", 3, "-o", tmp_path, *QUICK)
    cli(*words).ok()
    before = (tmp_path / "mask.mkv").read_bytes()
    cli(*words).refused(f"'{tmp_path / 'mask.mkv'}' exists already", "--overwrite")
    assert (tmp_path / "mask.mkv").read_bytes() == before
    cli(*words, "--overwrite", "--duration", 5).ok()
    assert len(read_video(tmp_path / "mask.mkv")) == 5
    cli(*words, "--name", "{date}/{time}-{view}").ok()
    assert len(list(tmp_path.glob("20??-??-??/??????-mask.mkv"))) == 1


def test_events_and_regions(cli, tmp_path, video):
    out = tmp_path / "out"
    words = ("--event-formats", "csv", "--roi", "left=0,0,50%,100%", "--save", "mask.png,boxes.png", "--fast", *QUICK)
    cli("live", video, "--no-window", "-o", out, *words).clean()
    assert names(out) == ["boxes", "events.csv", "mask", "regions.csv"]
    assert (out / "regions.csv").read_text().splitlines()[1].startswith("left,")
    masks, boxes = read_masks(out / "mask"), read_masks(out / "boxes")
    assert any((picture == COLOURS[1]).all(axis=2).any() for picture in boxes)
    assert (boxes[-1][100, 160:176] == 255).any()  # the outline of the region
    assert any(mask.any() for mask in masks)
    assert not any(mask[:, 24:].any() for mask in masks)
