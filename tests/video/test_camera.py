"""Local cameras that are pulled out and put back, by pretended captures."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest
from saying import says
from video_fakes import FakeCapture, ListSink, ThresholdSubtractor, make_frames, wait_first

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.video import CameraSource, Sink


class Port:
    """Where cameras are plugged in: each opening gets the next capture, None for nothing there."""

    def __init__(self, *captures: FakeCapture | None) -> None:
        self.captures, self.openings = list(captures), 0

    def __call__(self, device):
        self.openings += 1
        capture = self.captures.pop(0) if self.captures else None
        return capture if capture is not None else FakeCapture([], opened=False)


class MuteCapture(FakeCapture):
    """Sends its frames and then nothing until it is released by the test."""

    def __init__(self, frames) -> None:
        super().__init__(frames)
        self.silent, self.end = threading.Event(), threading.Event()

    def read(self):
        if not self.frames:
            self.silent.set()
            self.end.wait(20)
        return super().read()


@pytest.fixture
def fast(monkeypatch):
    wait_first(monkeypatch, 0.01)


def test_a_camera_put_back_goes_on(monkeypatch, fast, caplog, frames):
    port = Port(FakeCapture(frames[:4]), None, FakeCapture([]), FakeCapture(frames[4:]))
    monkeypatch.setattr(cv2, "VideoCapture", port)
    with caplog.at_level(logging.WARNING, "bgsub"), CameraSource(0, reconnect=0.5, max_wait=0.02) as source:
        got = list(source)
    assert [frame.index for frame in got] == sorted({frame.index for frame in got})
    assert got[-1].index == len(frames) - 1
    assert len(got) + source.dropped == len(frames)
    np.testing.assert_array_equal(got[-1].image, frames[-1])
    assert source.reconnections == 1
    assert caplog.messages[:3] == [
        "camera 0 lost: it sends no more frames; trying again in 0.01 s (attempt 1)",
        "camera 0 lost: no answer; trying again in 0.02 s (attempt 2)",
        "camera 0 lost: no answer; trying again in 0.02 s (attempt 3)",
    ]
    assert caplog.messages[3].startswith("camera 0 is back after 0.")
    assert caplog.messages[-1] == "camera 0 ended after 12 frames"


@pytest.mark.parametrize("reconnect", [0.1, None, False, 0])
def test_patience_ends(monkeypatch, fast, caplog, frames, reconnect):
    port = Port(FakeCapture(frames))
    monkeypatch.setattr(cv2, "VideoCapture", port)
    with caplog.at_level(logging.WARNING, "bgsub"), CameraSource(0, reconnect=reconnect) as source:
        assert list(source)[-1].index == 11
    # 0.01, 0.02, 0.04 and the rest of the 0.1 s, or given up unless told otherwise.
    assert port.openings >= 3 if reconnect else port.openings == 1
    assert caplog.messages[-1] == "camera 0 ended after 12 frames"


def test_a_camera_that_comes_back_with_another_size_goes_on_in_the_first_one(monkeypatch, fast, frames, caplog):
    monkeypatch.setattr(cv2, "VideoCapture", Port(FakeCapture(frames), FakeCapture(make_frames(3, 16, 24))))
    told = "the frames of camera 0 are 24x16 now; they are resized to 48x32, the size at the start"
    with CameraSource(0, reconnect=True) as source:
        for frame in source:
            assert frame.image.shape == (32, 48, 3)
            if told in caplog.messages:
                break
    assert caplog.messages.count(told) == 1


def test_frames_have_their_time_of_arrival(monkeypatch, frames):
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture(frames))
    with CameraSource(0) as source:
        got = list(source)
    assert got[0].time == 0
    assert [frame.received - got[0].received for frame in got] == [frame.time for frame in got]


def test_what_the_camera_throws_reaches_the_receiver(monkeypatch):
    capture = FakeCapture([])
    capture.read = lambda: (_ for _ in ()).throw(cv2.error("the driver crashed"))
    monkeypatch.setattr(cv2, "VideoCapture", capture)
    with CameraSource(0, reconnect=True) as source, pytest.raises(cv2.error, match="the driver crashed"):
        list(source)
    assert capture.released


@pytest.fixture
def mute(monkeypatch, frames):
    """A camera that sends three frames and falls silent."""
    capture = MuteCapture(frames[:3])
    monkeypatch.setattr(cv2, "VideoCapture", capture)
    yield capture
    capture.end.set()
    for thread in threading.enumerate():
        if thread.name == "bgsub-grab":
            thread.join(5)
    assert capture.released


def test_close_ends_a_wait_for_a_silent_camera(mute):
    source, last = CameraSource(0), threading.Event()

    def read():
        for frame in source:
            if frame.index == 2:
                last.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert last.wait(5)
    assert mute.silent.wait(5)
    source.close()
    thread.join(2)
    assert not thread.is_alive()


class Attentive(Sink):
    """Counts the moments without a frame; quits, or is interrupted, at the third."""

    def __init__(self, act) -> None:
        self.idles, self.frames, self.closed, self._act = 0, 0, False, act

    def write(self, _frame, _separation) -> None:
        self.frames += 1

    def idle(self) -> None:
        self.idles += 1
        if self.frames and self.idles >= 3:
            self._act()

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("how", ["quit", "interrupt"])
def test_the_user_can_leave_while_the_camera_is_silent(mute, how):
    controls = Controls()

    def interrupt():
        raise KeyboardInterrupt

    sink = Attentive(controls.quit if how == "quit" else interrupt)
    summary = Pipeline(CameraSource(0), ThresholdSubtractor(), [sink], controls=controls).run()
    assert summary.stopped == ("user" if how == "quit" else "SIGINT")
    assert summary.seconds < 5
    assert summary.frames + summary.dropped == 3
    assert sink.closed
    assert sink.idles >= 3


def test_the_summary_counts_every_frame_left_out(monkeypatch):
    frames = make_frames(40)
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture(frames))
    sink = ListSink()
    summary = Pipeline(CameraSource(0), ThresholdSubtractor(), [sink]).run()
    assert summary.frames + summary.dropped == 40
    assert sink.frames[-1].index == 39


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reconnect": -1}, "reconnect must be True, False or a number of seconds, 0 or more, got -1"),
        ({"reconnect": float("nan")}, "reconnect must be True, False or a number of seconds, 0 or more, got nan"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"max_wait": 0}, "max_wait must be a positive number of seconds, got 0"),
        ({"open_timeout": float("inf")}, "open_timeout must be a positive number of seconds, got inf"),
    ],
)
def test_wrong_parameters(options, message):
    with says(ParameterError, message):
        CameraSource(0, **options)
