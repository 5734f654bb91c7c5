"""The window with a fake screen: keys, sliders, close button, snapshots, and errors without a screen."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import pytest
from saying import says
from video_fakes import COUNT, FakeDisplay, FakeSource, ListSink, ThresholdSubtractor, make_frames, separate

from bgsub._opencv import cv2, installing
from bgsub.errors import ParameterError, SinkError
from bgsub.jobs.controls import LIVE_VIEWS, SETTINGS, Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.live.viewer import KEYS
from bgsub.live.window import KeyCommands, WindowSink
from bgsub.parameters import SUBTRACTOR
from bgsub.video import Frame


def write(sink, count=1):
    for index, image in enumerate(make_frames(count)):
        sink.write(Frame(index, f"{index + 1:06d}", None, image), separate(image))


@pytest.fixture
def controls():
    return Controls()


def test_quit_keys():
    for key in (ord("q"), 27, 0x100000 | ord("q")):
        controls = Controls()
        assert KeyCommands(controls).press(key)
        assert controls.quitting


def test_switch_keys(controls):
    keys = KeyCommands(controls)
    switches = {" ": "paused", "p": "paused", "f": "frozen", "b": "boxes", "h": "show_help", "i": "show_statistics"}
    for key, switch in switches.items():
        before = getattr(controls, switch)
        assert keys.press(ord(key))
        assert getattr(controls, switch) is not before
        assert keys.press(ord(key))
        assert getattr(controls, switch) is before


def test_snapshot_and_reset_keys(controls):
    keys = KeyCommands(controls)
    assert keys.press(ord("s"))
    assert [controls.take_snapshot_request() for _ in range(2)] == [True, False]
    assert keys.press(ord("r"))
    assert [controls.take_learning_rate() for _ in range(2)] == [1, -1]


def test_view_keys(controls):
    keys = KeyCommands(controls)
    for key, view in zip("1234567890", LIVE_VIEWS, strict=False):
        assert keys.press(ord(key))
        assert controls.view == view
    for view in (LIVE_VIEWS[10], LIVE_VIEWS[0], LIVE_VIEWS[1]):
        assert keys.press(ord("v"))
        assert controls.view == view


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_setting_keys(controls, setting):
    keys, start = KeyCommands(controls), SUBTRACTOR[setting.name].default
    for _ in range(2):
        assert keys.press(ord(setting.keys[1]))
    assert controls.parameters[setting.name] == pytest.approx(start + 2 * setting.step)
    for _ in range(setting.positions + 5):
        assert keys.press(ord(setting.keys[0]))
    assert controls.parameters[setting.name] == setting.low


def test_keys_work_without_shift():
    for key, other in ("+=", "-_", "<,", ">."):
        first, second = Controls(), Controls()
        KeyCommands(first).press(ord(key))
        KeyCommands(second).press(ord(other))
        assert second.parameters == first.parameters != Controls().parameters


def test_other_keys_do_nothing(controls):
    for key in (-1, ord("x"), 255, 0):
        assert not KeyCommands(controls).press(key)
    assert not any((controls.quitting, controls.paused, controls.frozen, controls.take_snapshot_request()))


def test_each_key_of_the_help_has_a_command(controls):
    for names, _ in KEYS:
        for name in names.replace("0..9", "0 9").replace(",", " ").split():
            assert KeyCommands(controls).press({"Esc": 27, "space": 32}.get(name) or ord(name)), name


def test_keys_control_all_cameras(controls):
    second = Controls("mask")
    keys = KeyCommands(controls, second)
    second.paused = True
    assert all(keys.press(ord(key)) for key in "p2+")
    assert (controls.paused, second.paused) == (True, True)
    assert controls.view == second.view == "input"
    assert second.parameters["threshold"] == controls.parameters["threshold"] == 0.09


def test_reset_overrides_freeze_once(controls):
    controls.frozen = True
    controls.reset()
    assert [controls.take_learning_rate() for _ in range(3)] == [1, 0, 0]


def test_shows_every_frame():
    display = FakeDisplay()
    with WindowSink("mask", display=display) as sink:
        assert len(display.shown) == 1  # the waiting picture
        write(sink, 3)
        assert display.is_open
    sink.close()
    assert not display.is_open
    assert len(display.shown) == 4
    mask = separate(make_frames(1)[0]).mask.repeat(7, axis=0).repeat(7, axis=1)
    # A tiny frame is enlarged; the text is below it and in its lower left corner.
    np.testing.assert_array_equal(display.shown[1][:180, :336, 0], mask[:180])


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 3), (1, 500, 3), (500, 1, 3), (2, 3, 3)])
def test_odd_sizes(shape):
    display = FakeDisplay("h")
    image = np.full(shape, 200, np.uint8)
    with WindowSink(display=display) as sink:
        for view in LIVE_VIEWS:
            sink.controls.view = view
            sink.write(Frame(0, "000001", None, image), separate(image))
    assert all(shown.shape[0] >= 240 and shown.shape[1] >= 320 for shown in display.shown)


def test_sliders_follow_keys_and_browser(controls):
    display = FakeDisplay("+")
    with WindowSink(display=display, controls=controls) as sink:
        assert display.sliders == {"threshold": 8, "noise_factor": 10, "min_area": 2}
        write(sink)
        assert display.sliders["threshold"] == 9
        controls.tune(threshold=0.4, min_area=0.003)
        sink.idle()
        assert display.sliders == {"threshold": 40, "noise_factor": 10, "min_area": 30}
        # A slider does not round values between its positions or beyond the last one.
        controls.tune(threshold=1.5, noise_factor=2.6)
        sink.idle()
        assert display.sliders == {"threshold": 50, "noise_factor": 10, "min_area": 30}
        assert controls.parameters["threshold"] == 1.5
        assert controls.parameters["noise_factor"] == 2.6


def test_sliders_move_parameters(controls):
    display = FakeDisplay()
    with WindowSink(display=display, controls=controls) as sink:
        display.moved["threshold"](20)
        display.moved["noise_factor"](0)
        sink.idle()
    assert controls.parameters["threshold"] == 0.2
    assert controls.parameters["noise_factor"] == 0
    assert display.sliders["noise_factor"] == 10  # moved by the user, not by the sink


def test_pause_lasts_until_the_next_key():
    display, others = FakeDisplay(["p", -1, -1, -1, "p", -1]), ListSink()
    looks = []
    window = WindowSink("mask", display=display)

    def progress(frame, _separation):
        looks.append(display.looks)

    Pipeline(FakeSource(3), ThresholdSubtractor(), [window, others], progress=progress).run()
    # One look per frame, and four more in the pause after the first.
    assert looks == [1, 6, 7]
    assert len(others.frames) == 3


def test_state_is_shown(controls):
    display = FakeDisplay()
    with WindowSink("mask", display=display, controls=controls) as sink:
        controls.show_statistics = False
        write(sink)
        controls.paused = True
        sink.idle()
        controls.paused = False
        sink.idle()
    assert (display.shown[2] != display.shown[1]).any()
    np.testing.assert_array_equal(display.shown[3], display.shown[1])


@pytest.mark.parametrize(("display", "frames"), [(FakeDisplay(["p", -1, "q"]), 1), (FakeDisplay(cross=4), 4)])
def test_quit_in_a_pause_and_close_button_end_the_pipeline(display, frames):
    summary = Pipeline(FakeSource(COUNT), ThresholdSubtractor(), [WindowSink(display=display)]).run()
    assert (summary.stopped, summary.frames) == ("user", frames)


@pytest.mark.parametrize("keys", ["", "p"])
def test_close_button_quits(controls, keys):
    with WindowSink(display=FakeDisplay(keys, cross=2), controls=controls) as sink:
        write(sink, 2)
        assert controls.quitting
        shown = len(sink._display.shown)
        sink.idle()
        assert len(sink._display.shown) == shown  # or OpenCV would open the window again


def test_snapshot_has_view_mask_and_background(tmp_path):
    display = FakeDisplay(["h", "s"])
    with WindowSink("input", display=display, snapshot_folder=tmp_path) as sink:
        write(sink, 2)
        assert "snapshot" in sink.controls.notice
    frame = make_frames(2)[1]
    expected = {"input": frame, "mask": separate(frame).mask, "background": np.zeros_like(frame)}
    assert len(list(tmp_path.iterdir())) == 3
    for view, image in expected.items():
        (path,) = tmp_path.glob(f"snapshot-*-000002-{view}.png")
        np.testing.assert_array_equal(cv2.imread(str(path), cv2.IMREAD_UNCHANGED), image)


def test_snapshot_in_a_pause(tmp_path, controls):
    display = FakeDisplay([-1, "s"])
    with WindowSink("mask", display=display, controls=controls, snapshot_folder=tmp_path) as sink:
        write(sink)
        sink.idle()
    assert sorted(path.stem.split("-")[-1] for path in tmp_path.iterdir()) == ["background", "mask"]


def test_failed_snapshot_does_not_end_the_run(tmp_path, caplog):
    with (
        caplog.at_level(logging.WARNING, "bgsub"),
        WindowSink(display=FakeDisplay("s"), snapshot_folder=tmp_path / "none") as sink,
    ):
        write(sink, 2)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("no snapshot: ")


def test_keys_control_the_pipeline():
    subtractor, others = ThresholdSubtractor(), ListSink()
    window = WindowSink(display=FakeDisplay(["f", -1, -1, "f", -1, "r", -1, -1, "q"]))
    summary = Pipeline(FakeSource(40), subtractor, [window, others], queue_size=1).run()
    assert summary.stopped == "user"
    assert summary.frames == len(others.frames) == 9
    assert others.ended == ["close"]
    # The tracker is a frame or two ahead of the window.
    assert subtractor.rates[0] == -1
    assert {-1, 0, 1} == set(subtractor.rates)
    assert subtractor.rates.count(1) == 1


def test_wrong_view_opens_no_window():
    display = FakeDisplay()
    with says(ParameterError, f"view must be one of {', '.join(LIVE_VIEWS)}, got 'masks'"):
        WindowSink("masks", display=display)
    assert not display.is_open


linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="screens of Linux")


@linux_only
def test_without_a_screen():
    with says(SinkError, "no window can be shown: neither DISPLAY nor WAYLAND_DISPLAY is set"):
        WindowSink()


@linux_only
def test_missing_screen_does_not_abort_the_process():
    script = """
from bgsub.live.window import WindowSink
try:
    WindowSink()
except Exception as error:
    print(repr(error))
"""
    environment = {**os.environ, "DISPLAY": ":7777"}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0
    assert result.stdout == ("NoWindowError(\"no window can be shown: screen ':7777' does not respond\")\n")
    assert result.stderr == ""


def test_opencv_without_windows(monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(cv2, "getBuildInformation", lambda: "  GUI:                           NONE\n")
    command = installing("opencv-python")
    with says(SinkError, f"no window can be shown: this OpenCV is headless; install one with windows: {command}"):
        WindowSink()
