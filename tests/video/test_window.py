"""The window without a screen: its keys, its cross, and what happens where none can be shown."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import pytest
from video_fakes import COUNT, FakeDisplay, FakeSource, ListSink, ThresholdSubtractor, make_frames, separate

from bgsub._opencv import cv2
from bgsub.errors import SinkError
from bgsub.video import Controls, Frame, Pipeline, WindowSink
from bgsub.video.sinks import KeyCommands
from bgsub.video.sinks.window import CvDisplay


def write(sink, count=1):
    for index, image in enumerate(make_frames(count)):
        sink.write(Frame(index, f"{index + 1:06d}", None, image), separate(image))


@pytest.fixture
def controls():
    return Controls()


@pytest.mark.parametrize("key", [ord("q"), 27, 0x100000 | ord("q")])
def test_quit_keys(controls, key):
    assert KeyCommands(controls, lambda: None).press(key)
    assert controls.quitting


@pytest.mark.parametrize(("key", "switch"), [(" ", "paused"), ("p", "paused"), ("f", "frozen")])
def test_switch_keys(controls, key, switch):
    keys = KeyCommands(controls, lambda: None)
    assert keys.press(ord(key))
    assert getattr(controls, switch) is True
    assert keys.press(ord(key))
    assert getattr(controls, switch) is False


def test_snapshot_and_reset_keys(controls):
    taken = []
    keys = KeyCommands(controls, lambda: taken.append(1))
    assert keys.press(ord("s"))
    assert taken == [1]
    assert keys.press(ord("r"))
    assert [controls.take_learning_rate() for _ in range(2)] == [1, -1]


@pytest.mark.parametrize("key", [-1, ord("x"), 255, 0])
def test_other_keys_do_nothing(controls, key):
    assert not KeyCommands(controls, pytest.fail).press(key)
    assert not any((controls.quitting, controls.paused, controls.frozen))


def test_reset_wins_over_freeze_once(controls):
    controls.frozen = True
    controls.reset()
    assert [controls.take_learning_rate() for _ in range(3)] == [1, 0, 0]


def test_shows_every_frame():
    display = FakeDisplay()
    with WindowSink("mask", display=display) as sink:
        write(sink, 3)
        assert display.is_open
    sink.close()
    assert not display.is_open
    assert len(display.shown) == 3
    np.testing.assert_array_equal(display.shown[0][..., 0], separate(make_frames(1)[0]).mask)


def test_pause_holds_until_the_key_comes_again(controls):
    display = FakeDisplay(["p", -1, -1, -1, "p", -1])
    with WindowSink(display=display, controls=controls) as sink:
        write(sink)
        assert display.looks == 5
        write(sink)
    assert display.looks == 6
    # What is shown says so while it lasts.
    assert (display.shown[1] != display.shown[0]).any()
    np.testing.assert_array_equal(display.shown[2], display.shown[0])


def test_quit_ends_a_pause(controls):
    with WindowSink(display=FakeDisplay(["p", -1, "q"]), controls=controls) as sink:
        write(sink)
    assert controls.quitting


@pytest.mark.parametrize("keys", ["", "p"])
def test_the_cross_quits(controls, keys):
    with WindowSink(display=FakeDisplay(keys, cross=2), controls=controls) as sink:
        write(sink, 2)
    assert controls.quitting


def test_snapshot_is_what_is_shown(tmp_path):
    display = FakeDisplay(["f", "s"])
    with WindowSink("mask", display=display, snapshot_folder=tmp_path) as sink:
        write(sink, 2)
    image = cv2.imread(str(tmp_path / "snapshot-000002.png"))
    np.testing.assert_array_equal(image[..., 0], separate(make_frames(2)[1]).mask)


def test_snapshot_that_fails_does_not_end_the_run(tmp_path, caplog):
    with (
        caplog.at_level(logging.WARNING, "bgsub"),
        WindowSink(display=FakeDisplay("s"), snapshot_folder=tmp_path / "none") as sink,
    ):
        write(sink, 2)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("no snapshot: ")


def test_keys_command_the_pipeline():
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


def test_cross_ends_the_pipeline():
    summary = Pipeline(FakeSource(COUNT), ThresholdSubtractor(), [WindowSink(display=FakeDisplay(cross=4))]).run()
    assert (summary.stopped, summary.frames) == ("user", 4)


linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="screens of Linux")


@linux_only
def test_without_a_screen():
    with pytest.raises(SinkError) as caught:
        WindowSink()
    assert str(caught.value) == "no window can be shown: neither DISPLAY nor WAYLAND_DISPLAY names a screen"


@linux_only
def test_screen_that_is_not_there_does_not_kill_the_process():
    script = """
from bgsub.video import WindowSink
try:
    WindowSink()
except Exception as error:
    print(repr(error))
"""
    environment = {**os.environ, "DISPLAY": ":7777"}
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0
    assert result.stdout == (
        "SinkError(\"no window can be shown: screen ':7777' does not answer or OpenCV is headless\")\n"
    )
    assert result.stderr == ""


def test_opencv_without_windows(monkeypatch):
    def fail(*_):
        raise cv2.error("The function is not implemented")

    monkeypatch.setattr("bgsub.video.sinks.window.check_display", lambda: None)
    monkeypatch.setattr(cv2, "namedWindow", fail)
    with pytest.raises(SinkError) as caught:
        WindowSink(display=CvDisplay())
    assert str(caught.value) == "no window can be shown: this OpenCV is built without windows (headless)"
